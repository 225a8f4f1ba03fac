"""Starts an activator, waits for a signal, and ends the process in order.

SIGTERM, SIGINT or a failed listener begins the end. Readiness turns off. After the lame duck the
listeners close. Requests in flight finish. A pod serves a queued request, or the request gets 503.
A second signal ends the process at once. Knative's counterpart: cmd/activator/main.go.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import resource
import signal
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

import uvloop

from activator.build import description, running
from activator.process import logs
from activator.process.outputs import Outputs
from activator.proxy.client.listener import ListenError
from activator.proxy.transport.files import LOW_LIMIT
from activator.records.events import EventKind
from activator.runtime import Runtime, StartError
from activator.servers import Servers
from activator.settings.config import Settings
from activator.tls.metrics_port import MetricsTlsError
from throttler.model import RevisionID

if TYPE_CHECKING:  # imported where it is needed
    from activator.lab.demo import Demo

logger = logging.getLogger(__name__)

#: Allocations minus deallocations after which the garbage collector checks the young objects.
_GC_THRESHOLD = 20_000

#: The exit status that shells use after Ctrl-C: 128 + SIGINT.
_INTERRUPTED = 130


class _Stop:
    """The one signal handler of the process: the first signal drains, the second ends.

    Attributes:
        on_first: called on the first signal, in the same turn of the loop.
        status: the exit status if the first signal comes before the process serves.
        lame_duck: seconds of service after the first signal; 0 until the process serves.
    """

    def __init__(self) -> None:
        self.on_first: Callable[[], object] = lambda: None
        self.status = 0
        self.lame_duck = 0.0
        self.asked = asyncio.Event()
        self.insisted = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, number)

    def _on_signal(self, number: signal.Signals) -> None:
        if self.asked.is_set():
            self.insisted.set()
        logger.info("%s: %s", number.name, self._what_follows())
        if not self.asked.is_set():
            self.status = _INTERRUPTED if number == signal.SIGINT else 0
            self.on_first()
        self.asked.set()

    def _what_follows(self) -> str:
        if self.insisted.is_set():
            return "ending now"
        if self.lame_duck and not self.asked.is_set():
            return f"serving on for {self.lame_duck:g} s (lame duck), then draining"
        return "draining"


async def _run(settings: Settings, outputs: Outputs | None = None, demo: Demo | None = None) -> int:
    stop = _Stop()
    sinks = (demo.on_stats,) if demo is not None else ()
    runtime = Runtime(settings, sinks, outputs=outputs)
    servers = Servers(runtime)
    stop.on_first = partial(runtime.begin_drain, "received SIGTERM from kubelet")
    try:
        if not await _unless(stop.asked, servers.start()):
            return stop.status
        stop.lame_duck = settings.lame_duck
        addresses = servers.describe()
        logger.info(
            "listening: %s", ", ".join(f"{k} {v}" for k, v in addresses.items()), extra=addresses
        )
        _log_files(runtime)
        if demo is not None:
            runtime.driver.events.listen(partial(_report_queue, demo))
            await _unless(stop.asked, demo.run(addresses["http"], addresses["admin"]))
        if failed := await _unless(stop.asked, servers.failed()):
            runtime.begin_drain("a listener has failed")
        drained = await _unless(stop.insisted, _drain(servers, runtime))
        return 0 if drained and not failed else 1
    finally:
        if not stop.insisted.is_set():
            await servers.stop()


def _log_files(runtime: Runtime) -> None:
    shares = runtime.pools.files.shares
    logger.info("%s", shares, extra=asdict(shares))
    if shares.limit < LOW_LIMIT:
        logger.warning("the limit of open files is %d: raise it to %d", shares.limit, LOW_LIMIT)


def _report_queue(
    demo: Demo, kind: EventKind, revision: RevisionID, what: Mapping[str, Any]
) -> None:
    if kind is EventKind.QUEUE_BEGAN:
        demo.on_queue((revision.namespace, revision.name), what["reason"])


async def _drain(servers: Servers, runtime: Runtime) -> None:
    settings = runtime.settings
    if settings.lame_duck:
        await asyncio.sleep(settings.lame_duck)
        logger.info("the lame duck is over: draining")
    cut = await servers.stop_data(settings.drain_timeout)
    runtime.driver.flush_log()  # the summaries belong before the last line
    logger.info("ended: %s", f"{cut} connections cut" if cut else "all requests answered")


async def _unless(event: asyncio.Event, work: Coroutine[Any, Any, object]) -> bool:
    """Do the work, but cancel it when the event is set; return whether the work finished."""
    task = asyncio.ensure_future(work)
    waiter = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait([task, waiter], return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            return False
        task.result()
        return True
    finally:
        waiter.cancel()
        task.cancel()
        await asyncio.gather(task, waiter, return_exceptions=True)


def _raise_file_limit() -> None:
    """Raise the limit of open files to the hard limit.

    A queued request needs one file, a request in flight two. The usual soft limit of 1,024 is meant
    for programs that use select(2). Go raises it as well.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):  # macOS refuses its own "unlimited"
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def main(settings: Settings) -> int:
    """Run an activator until a signal or a failure ends it.

    Returns:
        The exit status. 0: it drained, or SIGTERM came before it served. 1: it could not start, a
        second signal ended it, or a listener failed. 130: SIGINT came before it served.
    """
    outputs = Outputs()
    outputs.install()
    logs.configure(settings.log_format, settings.log_level, settings.pod_name)
    logger.info("activator %s", description(), extra={"build": running().value})
    # uvicorn logs each server's start and end at INFO. The activator's servers start and end
    # together, and one line of the activator reports that.
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    _raise_file_limit()
    # Requests leave no reference cycles. The default, a collection every 700 objects, frees nothing
    # and takes 4 % of the byte path's time.
    gc.set_threshold(_GC_THRESHOLD, 20, 50)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            if settings.command != "demo":
                return runner.run(_run(settings, outputs))
            return _main_demo(settings, outputs, runner.run)
        except (OSError, ListenError, StartError, MetricsTlsError) as error:
            logger.error("%s", error)
            return 1


def _main_demo(
    settings: Settings, outputs: Outputs, run: Callable[[Coroutine[Any, Any, int]], int]
) -> int:
    from dataclasses import replace

    from activator.lab.demo import Demo

    with Demo() as demo:
        return run(_run(replace(settings, manifests=demo.manifests), outputs, demo))
