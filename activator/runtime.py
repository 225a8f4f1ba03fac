"""Builds all parts of one activator from the settings, and connects them: the composition root.

Only here the packages meet: each gets its dependencies on other packages here. The module knows no
listener and no signal; ``servers`` and ``app`` do. Knative's counterpart: cmd/activator/main.go.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from activator.admin.history import History
from activator.authorization.authorizer import Authorizer as Authorizer
from activator.autoscaler.concurrency import Stat as Stat
from activator.autoscaler.reporter import Links, Sink, StatReporter
from activator.discovery.inventory import DIALECTS
from activator.discovery.source import Source, SourceError
from activator.discovery.sources import Wiring, make_source
from activator.driver import Driver as Driver
from activator.knative.configmaps.cluster import (
    NETWORK,
    PAGES,
    ClusterConfig,
    NetworkConfig,
    pages_reader,
)
from activator.knative.configmaps.following import ConfigMapError, Followed
from activator.knative.configmaps.observability import ObservabilityConfig, observability_reader
from activator.knative.configmaps.process_log import LogChanges, LoggingConfig, logging_reader
from activator.knative.system_objects import SystemObjects
from activator.knative.words import CERTIFICATE_SECRET
from activator.plain.route_table import RouteTable
from activator.probing.prober import PodProber
from activator.process.outputs import Outputs
from activator.process.timers import Tasks
from activator.proxy.client.proxy import Proxy
from activator.proxy.exchange.placement import ClientAddresses
from activator.proxy.exchange.services import ProxyServices
from activator.proxy.message.request import RequestLimits
from activator.proxy.message.waiting_page import Template
from activator.proxy.pods.pool import ConnectionPools, PoolLimits
from activator.proxy.pods.probes import ProbePools as ProbePools
from activator.proxy.transport.peer_socket import UnreadBytes
from activator.records.entries import Entries
from activator.records.source_status import NO_SOURCE, SourceStatus
from activator.settings.config import Settings
from activator.telemetry.metrics import Metrics
from activator.telemetry.otel import Observers
from activator.telemetry.request_log import RequestLog as RequestLog
from activator.telemetry.request_log import compiled
from activator.tls.internal_encryption import InternalTls, InternalTlsError
from activator.tls.store import upstream_tls
from throttler.slots import SCAN_PERIOD
from throttler.throttler import Limits, Throttler

if TYPE_CHECKING:
    # Siblings must not import each other: they get these types here, and each ``X as X`` above.
    from activator.autoscaler.concurrency import RevisionLoad as RevisionLoad
    from activator.autoscaler.link import AutoscalerLink as AutoscalerLink
    from activator.probing.probe import Probe as Probe
    from activator.proxy.exchange.exchange import Exchange as Exchange
    from activator.proxy.exchange.observers import RequestRecord as RequestRecord
    from activator.proxy.message.request import Request as Request
    from activator.proxy.pods.probes import ProbeConnection as ProbeConnection
    from activator.proxy.pods.probes import ProbePool as ProbePool
    from activator.proxy.pods.probes import ProbeStream as ProbeStream

    # Imported where it is needed: it costs time and memory at start.
    from activator.telemetry.tracing import RequestTrace as RequestTrace
    from activator.telemetry.tracing import RequestTracer as RequestTracer

logger = logging.getLogger(__name__)

#: Seconds between checks for idle connections that have expired.
_HOUSEKEEPING = 15.0


class StartError(Exception):
    """The activator cannot start; the text gives the reason and a remedy."""


class Runtime:
    """All parts of one activator; the admin port and the metrics read them.

    Arguments:
        sinks: more receivers of the statistics.
        clock: seconds, monotonic, of the same base as the loop's.
        make_source: returns the source of objects.
        outputs: stdout gets the request log, as with Knative; stderr gets the process log.
    """

    def __init__(
        self,
        settings: Settings,
        sinks: tuple[Sink, ...] = (),
        clock: Callable[[], float] = time.monotonic,
        outputs: Outputs | None = None,
        make_source: Callable[[Wiring], Source] = make_source,
    ) -> None:
        self.settings = settings
        self._clock = clock
        self.tasks = Tasks()
        self._draining = ""
        self._make_source = make_source
        self._source: Source | None = None
        self.links = Links(settings.autoscaler_url, settings.scaler_url, settings.stat_token_file)
        sinks = (*sinks, *self.links.sinks(settings.pod_name, self._on_stats_sent))
        self.history = History(clock)
        throttler = self._make_throttler()
        self.reporter = StatReporter(
            (self.history, *sinks),
            clock=clock,
            revisions=lambda: [each.revision for each in throttler if not each.deleted],
            kept=throttler.kept,
        )
        self.driver = self._make_driver(throttler)
        self.history.known = self.driver.entries.known
        self.pools = self._make_pools()
        self.prober = PodProber(
            self.driver,
            ProbePools(self.pools),
            settings.probe_timeout,
            settings.max_probes,
            random.random,
            settings.probe_frequency,
        )
        self.driver.prober = self.prober
        self.driver.pools = self.pools
        self.driver.autoscaler_lost = self.links.is_lost
        self.proxy = self._make_proxy()
        self.authorizer = self.proxy.services.authorizer = Authorizer(clock)
        self.proxy.services.namers = ClientAddresses(settings.service_header_from)
        self.observers = Observers(
            settings,
            self._set_tracer,
            self.tasks.start,
            lambda: self._metrics.points(),
            outputs or Outputs(),
            clock,
        )
        self.cluster = self._make_cluster_config()
        self.internal_tls = self._make_internal_tls()
        self.system_objects = SystemObjects(
            self.cluster.readers,
            {CERTIFICATE_SECRET: self.internal_tls.set_secret},
            self.internal_tls.set_bundles,
        )
        self.started_at = self.driver.clock()
        self._metrics = Metrics(self)

    # -- parts ----------------------------------------------------------------------------------

    def _make_throttler(self) -> Throttler:
        settings = self.settings
        limits = Limits(
            queue_depth=settings.queue_depth,
            queue_bytes=settings.hold_bytes_per_revision,
            queue_depth_total=settings.queue_depth_total,
            queue_bytes_total=settings.hold_bytes_total,
            shed_early=settings.shed_early,
        )
        own = settings.pod_ip, settings.borrow, settings.http_port, settings.zone
        return Throttler(limits, random.random, *own)

    def _make_driver(self, throttler: Throttler) -> Driver:
        settings = self.settings
        kinds = (each.revision_kind for name, each in DIALECTS.items() if name in settings.dialect)
        entries = Entries(
            throttler,
            self.reporter.loads.load,
            settings.cluster_domain,
            RouteTable() if {"services", "keda"} & set(settings.dialect) else None,
            next(kind for kind in kinds if kind is not None),  # an unknown host's
        )
        return Driver(throttler, entries, self._clock, self.reporter.loads.remove)

    def _make_cluster_config(self) -> ClusterConfig:
        settings = self.settings
        templates: Followed[Mapping[str, Template]] = Followed(
            PAGES, pages_reader(Template), {}, self._set_pages
        )
        level, name = settings.log_level, settings.config_observability_name
        read = observability_reader(compiled)
        return ClusterConfig(
            Followed(
                settings.config_logging_name,
                logging_reader(level),
                LoggingConfig(),
                LogChanges(level).apply,
            ),
            Followed(name, read, self.observers.initial, self._set_observability),
            self._set_network,
            (templates,),
        )

    def _make_internal_tls(self) -> InternalTls:
        settings = self.settings
        internal_tls = InternalTls(settings.tls, settings.system_namespace)
        internal_tls.on_withdrawn = self.pools.distrust
        return internal_tls

    def _make_pools(self) -> ConnectionPools:
        settings = self.settings
        limits = PoolLimits(
            max_idle=settings.max_idle_proxy_conns or sys.maxsize,
            kept_per_pod=settings.max_idle_proxy_conns_per_host,
            connect_timeout=settings.connect_timeout,
        )
        unread = UnreadBytes(settings.unread_bytes)
        pools = ConnectionPools(limits, self.tasks.start, self.driver.clock, unread)
        if "keda" in settings.dialect:
            pools.upstream = upstream_tls(settings)
        return pools

    def _make_proxy(self) -> Proxy:
        settings = self.settings
        services = ProxyServices(
            self.driver,
            self.pools,
            hold_bytes=settings.hold_bytes,
            idle_from_arrival=settings.idle_from_arrival,
            server_timing=settings.server_timing,
            cold_start_header=settings.cold_start_header,
            clients=ClientAddresses(settings.trusted_proxies),
        )
        if "keda" in settings.dialect:
            services.health = self.ready
        return Proxy(
            services,
            request_limits=RequestLimits(
                settings.max_header_bytes, settings.max_headers, settings.max_target_bytes
            ),
            header_timeout=settings.header_timeout,
            unfinished_header_bytes=settings.unfinished_header_bytes,
            unhealthy=self.ready,
        )

    def _on_stats_sent(self, stats: list[Stat]) -> Callable[[], None]:
        """Return a function that records that a report was sent, for the phases of cold starts."""
        arose, clock = self._clock(), self._clock
        revisions = [stat.revision_id for stat in stats]
        return lambda: self.driver.cold_starts.stats_sent(revisions, arose, clock())

    # -- changes of ConfigMaps ------------------------------------------------------------------

    def _set_network(self, config: NetworkConfig) -> None:
        # First the form of probes: the change of mode makes the prober probe all pods at once.
        self.pools.set_passthrough(config.pod_addressability)
        self.driver.set_mesh(config.mesh_mode, config.pod_addressability)

    def _set_observability(self, config: ObservabilityConfig) -> None:
        """Apply the observability ConfigMap."""
        self.proxy.services.request_log = self.observers.apply(config)

    def _set_pages(self, templates: Mapping[str, Template]) -> None:
        self.proxy.services.templates = templates

    def _set_tracer(self, tracer: RequestTracer | None) -> None:
        self.proxy.services.tracer = tracer

    # -- for the admin port ---------------------------------------------------------------------

    def certificate_warnings(self) -> Sequence[str]:
        """Return which certificates of listeners have expired, or will soon, as sentences."""
        return self.observers.certificates.warnings(time.time())

    def profiling(self) -> bool:
        """Return whether the profiling port is on."""
        return self.cluster.observability.profiling

    def ready(self) -> str:
        """Return why the activator is not ready; empty if it is. The texts are Knative's."""
        if self._draining:
            return self._draining
        needed = not self.settings.ready_without_autoscaler
        if needed and self.links.misses_autoscaler():
            return "connection has not yet been established"
        return ""

    def source_status(self) -> SourceStatus:
        """Return the state of the source of objects."""
        return self._source.status(self._clock()) if self._source is not None else NO_SOURCE

    def metrics(self) -> Iterator[bytes]:
        """Yield the metrics in Prometheus' text format, in pieces that each take little time."""
        return self._metrics.chunks()

    @contextlib.asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Run discovery, probing and throttler."""
        # Encryption is not fixed yet. A plaintext probe that passes now would not prove that
        # requests can reach the pod over TLS.
        self.prober.hold()
        self.observers.loop_lag.start()
        self._set_observability(self.observers.initial)
        try:
            source = await self._start_discovery()
            self._freeze_config(source)
            if self.cluster.network.internal_tls:
                await self._start_internal_tls(source)
            self.prober.go_on()
            self.tasks.start(self.reporter.run())
            for link in self.links:
                self.tasks.start(link.run())
            self.tasks.start(self._housekeep())
            self.tasks.start(self._look_for_silence())
            yield
        finally:
            self.observers.loop_lag.close()
            self.prober.close()
            self.proxy.timers.close()
            self.driver.close()
            await self.authorizer.close()
            await self.observers.close()
            await self.tasks.close()
            if self._source is not None:  # it may be connected without running
                await self._source.close()
            self.pools.close()

    async def _start_discovery(self) -> Source:
        wiring = Wiring(self.settings, self.driver, self.system_objects, self.driver.requests_wait)
        source = self._source = self._make_source(wiring)
        self.driver.hurry_discovery = source.hurry
        try:
            await source.start()
        except SourceError as error:
            raise StartError(str(error)) from error
        self.tasks.start(source.run())
        await source.wait_synced()
        return source

    def _freeze_config(self, source: Source) -> None:
        try:
            self.cluster.freeze(required=self._needs_config_maps(source))
        except ConfigMapError as error:
            where = source.status(self._clock()).name
            raise StartError(
                f"ConfigMap {NETWORK} ({where}): {error}. So it is unknown whether traffic "
                f"must be encrypted; correct the ConfigMap and start again."
            ) from error

    def _needs_config_maps(self, source: Source) -> bool:
        """Return whether Knative's ConfigMaps must exist: in a cluster with Knative."""
        if self.settings.command != "run" or "knative" not in self.settings.dialect:
            return False
        revisions = source.status(self._clock()).kinds.get("Revision")
        return revisions is None or not revisions.error

    async def _start_internal_tls(self, source: Source) -> None:
        """Send requests over TLS from now on; the data ports are still closed."""
        await source.follow_secret(CERTIFICATE_SECRET)
        try:
            self.internal_tls.start()
        except InternalTlsError as error:
            raise StartError(str(error)) from error
        self.observers.certificates["https"] = self.internal_tls.server
        self.pools.use_tls(self.internal_tls.pods)

    async def _housekeep(self) -> None:
        while True:
            self.observers.certificates.log(time.time())
            await asyncio.sleep(_HOUSEKEEPING)
            self.pools.close_expired()

    async def _look_for_silence(self) -> None:
        while True:
            await self.reporter.busy.wait()  # a pod without requests cannot be silent
            await asyncio.sleep(SCAN_PERIOD)
            self.driver.probe_silent_pods()

    def begin_drain(self, why: str) -> None:
        """Report not ready from now on; ``why`` is the text of the readiness response."""
        self._draining = why
        self.proxy.services.draining = True
