"""Composes one scaler of its parts, runs it, and ends it in order.

The leader alone decides. All processes follow the cluster, so that a follower takes over at once.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Final

from activator.autoscaler.token import bearers
from activator.discovery.api_server import ApiServer
from activator.discovery.backoff import Timings
from activator.process.memory import return_freed_memory
from activator.process.timers import Tasks, cancel
from activator.scale import events, external_metrics, http_server
from activator.scale.admin import application
from activator.scale.admin.status import ScalerStatus
from activator.scale.asleep import AsleepPart
from activator.scale.cluster.watch import ClusterObjects, ClusterWatch, of_dialect
from activator.scale.decisions.engine import TICK, Engine
from activator.scale.election import Alone, Candidate, LeasePlace
from activator.scale.keda.part import KedaPart
from activator.scale.owners import OwnersPart
from activator.scale.part import Part, PartContext, views
from activator.scale.reports.load import Loads, ServiceName
from activator.scale.reports.stat_server import StatServer
from activator.scale.settings import ScaleSettings
from activator.scale.startup import StartupPart
from activator.scale.takeover.part import TakeoverPart
from activator.scale.workloads.replicas import Rights
from activator.scale.workloads.services import EnabledServices

logger = logging.getLogger(__name__)

#: Seconds for a request about the Lease: a slow one must not use up the time to renew.
LEASE_REQUEST: Final = 4.0
#: Seconds for requests under way when the process ends.
_LAST_REQUESTS: Final = 2.0

#: The parts, in the order in which they get each decision. KEDA and HPAs come first: they must read
#: a load before they see the replicas that follow from it. Events come last: they have the findings
#: of the others.
PARTS: Final[Sequence[Callable[[PartContext], Part | None]]] = (
    KedaPart,
    external_metrics.make,
    OwnersPart,
    TakeoverPart,
    AsleepPart,
    StartupPart,
    events.make,
)


class ScalerProcess:
    """One process of ``activator scale``.

    Arguments:
        settings: as the command line has them.
        environ: environment variables.
        parts: make the parts that act on decisions.
        wakes_all: whether each workload must be awake, whatever its annotations are.

    Attributes:
        addresses: of the listeners, by name; empty before ``start``.
        engine: decides while this process leads.
        loads: the reports of the activators.
        services: the Services that opt in, with their workloads.
        routes: the route objects of the KEDA HTTP add-on; None without the dialect ``keda``.
        objects: of the cluster; ``watch`` follows them.
        candidate: takes part in the election.
        stats: receives the reports.
        clock: seconds, monotonic.
        status: what the admin port shows.
    """

    def __init__(
        self,
        settings: ScaleSettings,
        environ: Mapping[str, str],
        parts: Sequence[Callable[[PartContext], Part | None]] = PARTS,
        *,
        wakes_all: bool = False,
    ) -> None:
        loop, timings = asyncio.get_running_loop(), Timings()
        self.settings = settings
        self.addresses: dict[str, str] = {}
        self.clock = loop.time
        self._tasks = Tasks()
        self._running = AsyncExitStack()
        self._server = ApiServer(settings.kubeconfig or None, timings, environ)
        lease_timings = replace(timings, request=LEASE_REQUEST)
        self._lease_server = ApiServer(settings.kubeconfig or None, lease_timings, environ)
        # The dialect keda alone only tells KEDA what it reads. Several processes may do that.
        self.candidate: Candidate | Alone = Alone(settings.pod_name, self._on_lead)
        if "services" in settings.dialect:
            place = LeasePlace(settings.system_namespace, settings.lease_name, settings.pod_name)
            self.candidate = Candidate(self._lease_server, place, self._on_lead)
        else:
            parts = [each for each in parts if each is KedaPart]
        api, start = self._server, self._tasks.start
        services = self.services = EnabledServices(
            lambda names: self.engine.later(names), wakes_all=wakes_all
        )
        self.loads = Loads(services.__contains__)
        context = PartContext(
            settings=settings,
            api=api,
            services=services,
            loads=self.loads,
            record=lambda name: self.engine.get(name),
            sharing=lambda target: self.engine.sharing(target),
            start=start,
            clock=self.clock,
            is_leader=lambda: self.candidate.leads,
            changed=lambda names: self.engine.later(names),
            missing_rule=lambda kind: self.watch.missing_rule(kind),
        )
        self.parts = [part for make in parts if (part := make(context)) is not None]
        keda = (each for each in self.parts if isinstance(each, KedaPart))
        self.routes = next((each.routes for each in keda), None)
        own = services.views() if "services" in settings.dialect else {}
        self.objects = ClusterObjects(views(own, self.parts))
        kinds = of_dialect(settings.dialect, settings.interceptors)
        self.watch = ClusterWatch(self._server, self.objects, timings, kinds)
        rights = Rights(api, start, lambda each: self.engine.later(self.engine.names(each)))
        self.engine = Engine(
            services,
            self.loads,
            self.parts,
            rights=rights,
            api=api,
            start=start,
            is_stale=self.watch.is_stale,
            waker_hosts=settings.waker_hosts,
        )
        self.stats = StatServer(
            *(self.loads, self.clock, lambda: self.candidate.leads, self._on_busy),
            settings.stat_token_file,
            self.routes.push if self.routes is not None else None,
        )
        self.status = ScalerStatus(self)

    # -- life --------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open the listeners, and check that the cluster's configuration is usable.

        Raises:
            AddressError, OSError: a port is not available, or the file of tokens is not usable.
            ClusterConfigError: there is no usable configuration.
        """
        settings = self.settings
        if settings.stat_token_file:
            bearers(settings.stat_token_file)  # an unusable file must be an error of the start
        await self._server.connect()
        await self._lease_server.connect()
        metrics_app = application.create_metrics_app(self.status)
        await self._listen("metrics", metrics_app, settings.bind, settings.metrics_port)
        admin_app = application.create_app(self.status, settings.admin_hosts)
        await self._listen("admin", admin_app, settings.admin_bind, settings.admin_port)
        try:
            port = await self.stats.start(settings.bind, settings.stat_port)
        except OSError as error:
            raise http_server.AddressError(
                f"cannot listen on {settings.bind} port {settings.stat_port} (--stat-port): "
                f"{error.strerror or error}"
            ) from error
        self.addresses["stat"] = f"{settings.bind}:{port}"
        for each in self.parts:
            self.addresses |= await self._running.enter_async_context(each.listeners())

    async def _listen(self, name: str, app: object, host: str, port: int) -> None:
        sock = http_server.listen(host, port, f"--{name}-port")
        await self._running.enter_async_context(http_server.serving(app, sock))
        self.addresses[name] = http_server.address(sock)

    async def run(self) -> None:
        """Follow the cluster, take part in the election and decide, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.watch.run(), name="watches")
            group.create_task(self.candidate.run(), name="election")
            group.create_task(self._begin(), name="first lists")
            group.create_task(self._tick(), name="ticks")

    async def stop(self) -> None:
        """Stop to decide, release the Lease, and close all connections; ``run`` has ended."""
        await self.candidate.release()
        await self.stats.close()
        await self._running.aclose()
        await self._tasks.finish(_LAST_REQUESTS)
        await self._server.close()
        await self._lease_server.close()

    # -- the loop ----------------------------------------------------------------------------------

    async def _begin(self) -> None:
        await self.watch.wait_synced()
        # The objects of the cluster are no garbage: a full collection would block the loop.
        gc.collect()
        gc.freeze()
        return_freed_memory()  # of the first lists: 15 MiB in a large cluster
        self._on_lead(self.candidate.leads)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK)
            spent, began = 0.0, time.thread_time()
            for _ in self.engine.ticking(self.clock()):
                spent += time.thread_time() - began
                await asyncio.sleep(0)
                began = time.thread_time()
            self.engine.counters.ticks.observe(spent + time.thread_time() - began)

    def _on_lead(self, leads: bool) -> None:
        """Begin to decide when this process leads and knows all objects, or stop."""
        if leads and self.watch.synced:
            self._tasks.start(self._start())
        elif not leads:
            self.engine.stop(self.clock())
            self.stats.disconnect_all()

    async def _start(self) -> None:
        """Begin to decide, in steps."""
        for _ in self.engine.starting(self.clock()):
            await asyncio.sleep(0)
        if self.candidate.leads:
            # The records of the Services are no garbage either, see _begin.
            gc.freeze()
            if "services" in self.settings.dialect:
                logger.info("deciding about %d Services", len(list(self.engine)))
            else:
                logger.info("reading route objects for KEDA, without a Lease")

    def _on_busy(self, names: list[ServiceName]) -> None:
        if self.watch.errors():
            self.watch.hurry()
        self.engine.busy(names)


@asynccontextmanager
async def running(scaler: ScalerProcess) -> AsyncIterator[asyncio.Task[None]]:
    """Start a scaler, and run it inside the context; the value is the task that runs it."""
    try:
        await scaler.start()
        task = asyncio.create_task(scaler.run())  # noqa: TID251 # awaited below
        try:
            yield task
        finally:
            await cancel(task)
    finally:
        await scaler.stop()
