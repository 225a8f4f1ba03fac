"""Starts an activator, waits for a signal, and ends the process in order.

SIGTERM, SIGINT or a failed listener begins the end. Readiness turns off. After the lame duck the
listeners close. Requests in flight finish. A pod serves a queued request, or the request gets 503.
A second signal ends the process at once. Knative's counterpart: cmd/activator/main.go.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import signal
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import uvloop

from activator.build import description, running
from activator.process import logs
from activator.process.logs import of_activator
from activator.process.memory import keep_freed_memory
from activator.process.outputs import Outputs
from activator.process.signals import INTERRUPTED
from activator.process.timers import cancel
from activator.proxy.client.listener import BindError
from activator.proxy.transport.files import LOW_LIMIT
from activator.records.narration import EventKind
from activator.runtime import Runtime, StartError
from activator.servers import Servers
from activator.settings.config import Settings
from activator.tls.certificates import TlsFileError
from throttler.model import RevisionID

if TYPE_CHECKING:
    from activator.autoscaler.concurrency import Stat  # imported where it is needed
    from activator.lab.demo import Demo

logger = logging.getLogger(__name__)


class _Stop:
    """The one signal handler of the process: the first signal drains, the second ends.

    Attributes:
        on_first: called on the first signal, in the same turn of the loop.
        phases: returns the phases of the shutdown and the open requests, as words.
        report: takes one line about each signal.
        status: the exit status if the first signal comes before the process serves.
    """

    def __init__(self) -> None:
        self.on_first: Callable[[], object] = lambda: None
        self.phases: Callable[[], str] = lambda: "ending"
        self.report: Callable[[str], object] = logger.info
        self.status = 0
        self.requested = asyncio.Event()
        self.forced = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, number)

    def _on_signal(self, number: signal.Signals) -> None:
        if self.requested.is_set():
            self.forced.set()
            # The end of the loop closes generators in any order: one may find another at work.
            asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
            self.report(f"{number.name}: ending now")
            return
        again = "Ctrl-C" if number == signal.SIGINT else "signal"
        self.report(f"{number.name}: {self.phases()}; a second {again} ends at once")
        self.status = INTERRUPTED if number == signal.SIGINT else 0
        self.on_first()
        self.requested.set()


def _show(demo: Demo, stats: list[Stat]) -> None:
    """Pass the load of revisions to the demo."""
    demo.on_stats((each.revision_id[:2], *each[1:]) for each in stats)


async def run_activator(
    settings: Settings,
    outputs: Outputs | None = None,
    create_demo: Callable[[], Demo] | None = None,
) -> int:
    stop = _Stop()
    demo = create_demo() if create_demo is not None else None  # it makes a folder
    if demo is not None:
        settings = replace(settings, manifests=demo.manifests)
        if not await _unless(stop.requested, demo.start()):
            return stop.status
        settings = replace(settings, scaler_url=demo.scaler_url)
    sinks = (partial(_show, demo),) if demo is not None else ()
    runtime = Runtime(settings, sinks, outputs=outputs)
    servers = Servers(runtime)
    if demo is not None and not logger.isEnabledFor(logging.INFO):
        stop.report = print  # as the demo prints its own lines
    # Knative's text for kubelet's probe, whatever the signal is.
    stop.on_first = partial(runtime.begin_drain, "received SIGTERM from kubelet")
    try:
        if not await _unless(stop.requested, servers.start()):
            return stop.status
        stop.phases = partial(phases_of, runtime)
        addresses = servers.addresses
        logger.info(
            "listening: %s", ", ".join(f"{k} {v}" for k, v in addresses.items()), extra=addresses
        )
        _log_files(runtime)
        async with _played(demo, runtime, addresses, stop):
            if failed := await _unless(stop.requested, servers.failed()):
                runtime.begin_drain("a listener has failed")
            drained = await _unless(stop.forced, _drain(servers, runtime, stop.report))
        return 0 if drained and not failed else 1
    finally:
        if not stop.forced.is_set():
            await servers.stop()
            if demo is not None:
                await demo.stop()


def _log_files(runtime: Runtime) -> None:
    shares = runtime.pools.files.shares
    logger.info("%s", shares, extra=asdict(shares))
    if shares.limit < LOW_LIMIT:
        logger.warning("the limit of open files is %d: raise it to %d", shares.limit, LOW_LIMIT)


@contextlib.asynccontextmanager
async def _played(
    demo: Demo | None, runtime: Runtime, addresses: Mapping[str, str], stop: _Stop
) -> AsyncIterator[None]:
    """Run the demo, if there is one, inside this context; a failure of the demo ends the process.

    The pods run until the drain is over, so that they serve the last requests. A second signal does
    not wait for the pods: they end when this process does.
    """
    if demo is None:
        yield
        return
    runtime.driver.events.listen(partial(_report_queue, demo))
    task = asyncio.ensure_future(demo.run(addresses["http"], addresses["admin"]))
    task.add_done_callback(lambda _: stop.requested.set())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await _unless(stop.forced, task)


def _report_queue(
    demo: Demo, kind: EventKind, revision: RevisionID, what: Mapping[str, Any]
) -> None:
    if kind is EventKind.QUEUE_BEGAN:
        demo.on_queue((revision.namespace, revision.name), what["reason"])


def phases_of(runtime: Runtime) -> str:
    """Return the phases of a shutdown with their durations, and the number of open requests."""
    settings, throttler = runtime.settings, runtime.driver.throttler
    queued, in_flight = throttler.total.depth, sum(each.slots.in_flight for each in throttler)
    duck = f"serving on for {settings.lame_duck:g} s (lame duck), then " * bool(settings.lame_duck)
    most = f"draining for at most {settings.drain_timeout:g} s"
    counts = f"{_counted(queued, 'request')} queued"
    if undecided := runtime.authorizer.waiting:
        requests = _counted(undecided, "request")
        counts += f", {requests} without a decision about authorization,"
    return f"{duck}{most}; {counts} and {in_flight} in flight"


async def _drain(servers: Servers, runtime: Runtime, report: Callable[[str], object]) -> None:
    settings = runtime.settings
    before = _outcomes(runtime)
    if settings.lame_duck:
        await asyncio.sleep(settings.lame_duck)
        logger.info("the lame duck is over: draining")
    closed = await servers.stop_data(settings.drain_timeout)
    runtime.driver.flush_log()  # the summaries belong before the last line
    report(f"ended; during the shutdown: {_summary(_outcomes(runtime) - before, closed)}")


def _outcomes(runtime: Runtime) -> Counter[str]:
    """Return the number of ended requests by outcome, over all revisions."""
    total = Counter[str]()
    for entry in runtime.driver.entries:
        total.update(entry.counters.outcomes)
    return total


def _summary(outcomes: Counter[str], closed: int) -> str:
    """Return how the requests ended that were open at the signal, or came after it.

    Arguments:
        outcomes: the number of these requests by outcome (records.counters.OUTCOMES).
        closed: connections that the end of the drain time closed.
    """
    served, ended = outcomes.pop("served", 0), outcomes.pop("draining", 0)
    how = "503, or an aborted response" if closed else "503"
    parts = [f"{_counted(served, 'request')} served"]
    if ended:
        parts.append(f"{ended} ended by the shutdown ({how})")
    parts += [f"{count} {outcome}" for outcome, count in sorted(outcomes.items())]
    if closed:
        parts.append(f"{_counted(closed, 'connection')} closed early")
    return ", ".join(parts)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


async def _unless(event: asyncio.Event, work: Awaitable[object]) -> bool:
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
        await cancel(waiter, task)


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
    logs.configure(settings.log_format, settings.log_level, of_activator(settings.pod_name))
    logger.info("activator %s", description(), extra={"build": running().value})
    # uvicorn logs each server's start and end at INFO. The activator's servers start and end
    # together, and one line of the activator reports that.
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    _raise_file_limit()
    keep_freed_memory()
    with (
        contextlib.ExitStack() as after,  # the loop: its source would report a missing folder
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        create_demo = partial(_demo, after) if settings.command == "demo" else None
        try:
            return runner.run(run_activator(settings, outputs, create_demo))
        except (OSError, BindError, StartError, TlsFileError) as error:
            logger.error("%s", error)
            return 1


def _demo(after: contextlib.ExitStack) -> Demo:
    from activator.lab.demo import Demo

    return after.enter_context(Demo())
