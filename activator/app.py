"""The composition root: builds all parts from the settings, runs them, and ends them in order.

Start: discovery, probing and throttler (the admin application's lifespan), then the listeners.
End, on SIGTERM or SIGINT: readiness off, lame duck, listeners closed and running requests
finished, waiting ones served or told to ask elsewhere, then the rest. A second signal ends at
once. Knative's counterpart: cmd/activator/main.go.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import random
import resource
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import uvicorn
import uvloop

from activator import logs
from activator.admin.application import create_app, create_metrics_app
from activator.autoscaler.reporter import Sink, StatReporter
from activator.config import Settings
from activator.discovery.inventory import Inventory
from activator.discovery.manifests import ManifestFolder, ManifestFolderError
from activator.driver import Driver
from activator.probing.prober import PodProber
from activator.proxy.pool import ConnectionPools, PoolLimits
from activator.proxy.request import RequestLimits
from activator.proxy.server import ListenError, Proxy, QuietServer, data_server, listen
from activator.tasks import Tasks
from activator.telemetry.concurrency import ReportedConcurrency
from activator.telemetry.metrics import Metrics
from throttler.throttler import Limits, Throttler

if TYPE_CHECKING:  # imported where they are needed: each costs time and memory at start
    from activator.autoscaler.link import AutoscalerLink
    from activator.discovery.kubernetes import KubernetesWatch
    from activator.lab.demo import Demo

logger = logging.getLogger(__name__)

#: Seconds between looks at what became idle for too long.
_HOUSEKEEPING = 15.0
#: Share of the drain time that waiting requests may use for a pod to come; the rest is for the
#: answers of those that got one.
_DRAIN_WAITING = 0.8
#: Objects made, less those freed, between two collections of the youngest.
_GC_THRESHOLD = 20_000


class StartError(Exception):
    """The activator cannot start; the text says why and what to do."""


class Runtime:
    """All parts of one activator (activator.admin.application.Runtime)."""

    def __init__(self, settings: Settings, sinks: tuple[Sink, ...] = ()) -> None:
        self.settings = settings
        self.pod_name = settings.pod_name
        self._tasks = Tasks()
        self._draining = ""
        self._watch: KubernetesWatch | None = None
        self._folder: ManifestFolder | None = None
        self.link = self._make_link()
        if self.link is not None:
            sinks = (*sinks, self._link_sink())
        concurrency = ReportedConcurrency()
        self._reporter = StatReporter((concurrency, *sinks), clock=time.monotonic)
        self.driver = self._make_driver()
        self.pools = self._make_pools()
        self.prober = PodProber(
            self.driver,
            self.pools,
            settings.probe_timeout,
            settings.max_probes,
            random.random,
            settings.probe_frequency,
        )
        self.driver.prober = self.prober
        self.driver.pools = self.pools
        self.proxy = self._make_proxy()
        self.started_at = self.driver.clock()
        self._metrics = Metrics(self, concurrency.of)

    # -- parts ----------------------------------------------------------------------------------

    def _make_driver(self) -> Driver:
        settings = self.settings
        limits = Limits(
            queue_depth=settings.queue_depth,
            queue_bytes=settings.hold_bytes_per_revision,
            queue_depth_total=settings.queue_depth_total,
            queue_bytes_total=settings.hold_bytes_total,
        )
        throttler = Throttler(limits, random.random, settings.pod_ip, settings.borrow)
        driver = Driver(throttler, self._reporter.load, cluster_domain=settings.cluster_domain)
        driver.config_listeners[settings.config_logging_name] = self._set_log_level
        return driver

    def _make_pools(self) -> ConnectionPools:
        settings = self.settings
        limits = PoolLimits(
            max_idle=settings.max_idle_proxy_conns,
            max_idle_per_pod=settings.max_idle_proxy_conns_per_host,
            connect_timeout=settings.connect_timeout,
        )
        return ConnectionPools(limits, self._tasks.start, self.driver.clock)

    def _make_proxy(self) -> Proxy:
        settings = self.settings
        return Proxy(
            self.driver,
            self.pools,
            request_limits=RequestLimits(
                settings.max_header_bytes, settings.max_headers, settings.max_target_bytes
            ),
            hold_bytes=settings.hold_bytes,
            header_timeout=settings.header_timeout,
            unhealthy=self.ready,
        )

    def _make_link(self) -> AutoscalerLink | None:
        if not self.settings.autoscaler_url:
            return None
        from activator.autoscaler.link import AutoscalerLink

        return AutoscalerLink(self.settings.autoscaler_url)

    def _link_sink(self) -> Sink:
        from activator.autoscaler.wire import frame_sink

        assert self.link is not None
        return frame_sink(self.link.send, self.settings.pod_name)

    # -- for the admin side ---------------------------------------------------------------------

    def ready(self) -> str:
        """Return why we are not ready, or nothing; the texts are Knative's."""
        if self._draining:
            return self._draining
        if self.link is not None and not self.link.connected:
            return "connection has not yet been established"
        return ""

    def manifest_errors(self) -> Mapping[str, str]:
        """Return what is wrong with the manifests at present, by file."""
        return self._folder.errors if self._folder is not None else {}

    def metrics(self) -> Iterator[bytes]:
        """Return the metrics in Prometheus' text format, in pieces that each take little time."""
        return self._metrics.chunks()

    @contextlib.asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Run discovery, probing and throttler."""
        try:
            await self._start_discovery()
            self._tasks.start(self._reporter.run())
            if self.link is not None:
                self._tasks.start(self.link.run())
            self._tasks.start(self._housekeep())
            yield
        finally:
            self.prober.close()
            self.proxy.timers.close()
            self.driver.close()
            await self._tasks.close()
            self.pools.close()

    async def _start_discovery(self) -> None:
        settings = self.settings
        if settings.manifests is not None:
            # The folder tells of what is wrong itself, with file and line.
            inventory = Inventory(self.driver, report=lambda rejection: None)
            self._folder = ManifestFolder(settings.manifests, inventory)
            self._folder.load()
            self._tasks.start(self._folder.run())
            return
        from activator.discovery.kubernetes import (
            ClusterConfigError,
            ClusterVersionError,
            KubernetesWatch,
        )

        inventory = Inventory(self.driver, system_namespace=settings.system_namespace)
        watch = self._watch = KubernetesWatch(
            inventory, settings.system_namespace, settings.kubeconfig
        )
        try:
            await watch.check_version(settings.kubernetes_min_version)
        except (ClusterConfigError, ClusterVersionError) as error:
            raise StartError(str(error)) from error
        self._tasks.start(watch.run())
        await watch.wait_synced()

    async def _housekeep(self) -> None:
        while True:
            await asyncio.sleep(_HOUSEKEEPING)
            self.pools.close_expired()

    def _set_log_level(self, data: Mapping[str, str]) -> None:
        level = data.get("loglevel.activator", self.settings.log_level)
        try:
            logs.set_level(level)
        except ValueError as error:
            logger.warning("logging ConfigMap: loglevel.activator ignored: %s", error)

    def begin_drain(self) -> None:
        """Say from now on that we are not ready."""
        self._draining = "received SIGTERM from kubelet"
        self.proxy.draining = True


class Servers:
    """The listeners: opened together, closed together."""

    def __init__(self, runtime: Runtime) -> None:
        settings = runtime.settings
        self._runtime = runtime
        self._tasks: dict[QuietServer, asyncio.Task[None]] = {}
        self._lifespan = AsyncExitStack()
        self.admin_socket = listen(settings.admin_bind, settings.admin_port, "--admin-port")
        self._metrics_socket = listen(settings.bind, settings.metrics_port, "--metrics-port")
        self.http_socket = listen(settings.bind, settings.http_port, "--http-port")
        self._h2c_socket = listen(settings.bind, settings.h2c_port, "--h2c-port")
        self._app = create_app(runtime)
        self.admin = _asgi_server(self._app)
        self._metrics = _asgi_server(create_metrics_app(runtime))
        self.data = data_server(runtime.proxy, settings.drain_timeout)

    async def start(self) -> None:
        """Start everything; the data ports last, when all else works.

        The application's lifespan is entered here and not by uvicorn, which would answer its
        errors with exit status 3, and could not be told to end while it starts.

        Raises:
            StartError: something does not work.
        """
        await self._lifespan.enter_async_context(self._app.router.lifespan_context(self._app))
        await self._serve(self.admin, self.admin_socket)
        await self._serve(self._metrics, self._metrics_socket)
        await self._serve(self.data, self.http_socket, self._h2c_socket)
        # What discovery has loaded is not garbage: a full collection of 100,000 pods would hold
        # the loop for 0.2 s.
        gc.collect()
        gc.freeze()

    async def _serve(self, server: QuietServer, *sockets: socket.socket) -> None:
        task = asyncio.create_task(server.serve(list(sockets)))  # noqa: TID251 # held in _tasks
        self._tasks[server] = task
        while not server.started:
            await asyncio.wait([task], timeout=0.005)
            if task.done():
                task.result()
                raise StartError("start-up failed")

    async def stop_data(self, drain_timeout: float) -> None:
        """Finish what runs and close the data ports."""
        self.data.should_exit = True
        task = self._tasks[self.data]
        await asyncio.wait([task], timeout=drain_timeout * _DRAIN_WAITING)
        self._runtime.proxy.drain()
        await asyncio.wait([task])

    async def stop(self) -> None:
        """Close what is open."""
        for server in self._tasks:
            server.should_exit = True
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        await self._lifespan.aclose()

    def describe(self) -> dict[str, str]:
        """Return the addresses that we listen on."""
        return {
            "http": _address(self.http_socket),
            "h2c": _address(self._h2c_socket),
            "admin": _address(self.admin_socket),
            "metrics": _address(self._metrics_socket),
        }


def _asgi_server(app: Any) -> QuietServer:
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=2,
        server_header=False,
    )
    return QuietServer(config)


def _address(sock: socket.socket) -> str:
    host, port = sock.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class _Stop:
    """The one signal handler of the process: the first signal drains, the second ends."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.insisted = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, number)

    def _on_signal(self, number: signal.Signals) -> None:
        if self.asked.is_set():
            self.insisted.set()
        logger.info("%s: %s", number.name, "ending now" if self.insisted.is_set() else "draining")
        self.asked.set()


async def _run(settings: Settings, demo: Demo | None = None) -> int:
    stop = _Stop()
    runtime = Runtime(settings, (demo.on_stats,) if demo is not None else ())
    servers = Servers(runtime)
    try:
        if not await _unless(stop.asked, servers.start()):
            return 0
        addresses = servers.describe()
        logger.info(
            "listening: %s", ", ".join(f"{k} {v}" for k, v in addresses.items()), extra=addresses
        )
        if demo is not None:
            await _unless(stop.asked, demo.run(addresses["http"], addresses["admin"]))
        await stop.asked.wait()
        runtime.begin_drain()
        drained = await _unless(stop.insisted, _drain(servers, settings))
        cut = len(runtime.proxy.connections)
        logger.info("ended: %s", f"{cut} connections cut" if cut else "all requests answered")
        return 0 if drained else 1
    finally:
        if not stop.insisted.is_set():
            await servers.stop()


async def _drain(servers: Servers, settings: Settings) -> None:
    await asyncio.sleep(settings.lame_duck)
    await servers.stop_data(settings.drain_timeout)


async def _unless(event: asyncio.Event, work: Coroutine[Any, Any, object]) -> bool:
    """Do the work, but leave it when the event comes; return whether it was finished."""
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
    """Allow as many files as the machine lets us: a request that waits has one, one that runs two.

    The usual soft limit of 1,024 is meant for programs that use select(2); Go raises it likewise.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):  # macOS refuses its own "unlimited"
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def main(settings: Settings) -> int:
    """Run an activator until it is told to end.

    Returns:
        The exit status: 0 after a drain, 1 if it could not start or was ended by a second signal.
    """
    logs.configure(settings.log_format, settings.log_level, settings.pod_name)
    # It tells of each server's start and end at INFO; ours are one thing, and told below.
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    # Requests leave no cycles behind, so that a collection every 700 objects (the default) finds
    # nothing: measured 4 % of the byte path's time.
    _raise_file_limit()
    gc.set_threshold(_GC_THRESHOLD, 20, 50)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            if settings.command != "demo":
                return runner.run(_run(settings))
            return _main_demo(settings, runner.run)
        except (OSError, ListenError, StartError, ManifestFolderError) as error:
            logger.error("%s", error)
            return 1


def _main_demo(settings: Settings, run: Callable[[Coroutine[Any, Any, int]], int]) -> int:
    from dataclasses import replace

    from activator.lab.demo import Demo

    with Demo() as demo:
        return run(_run(replace(settings, manifests=demo.manifests), demo))
