"""Collects the numbers of the activator as a whole, which belong to no revision.

The module reads plain integers and changes nothing. Labels are closed sets of words, so the number
of series is a constant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Generic

from activator import __version__
from activator.records.counters import Histogram
from activator.records.source_status import SourceStatus
from activator.telemetry import families as f
from activator.telemetry.destination import Identity
from activator.telemetry.families import Family
from activator.telemetry.metric_writers import L, MetricWriter, P

if TYPE_CHECKING:
    from activator.runtime import Runtime


class Totals(Generic[L, P]):
    """One walk through the numbers of the whole activator.

    Arguments:
        sources: the parts that count; read only while the caller iterates over ``pieces``.
        writer: makes the pieces.
        identity: the identity of this activator.
    """

    def __init__(self, sources: Runtime, writer: MetricWriter[L, P], identity: Identity) -> None:
        self._sources = sources
        self._writer = writer
        self._identity = identity

    def pieces(self) -> Iterator[P]:
        """Yield all pieces."""
        yield from self._condition()
        yield from self._limits()
        yield from self._cold_starts()
        yield from self._traffic()
        yield from self._source()
        yield from self._link()
        yield from self._sent()

    def _condition(self) -> Iterator[P]:
        sources = self._sources
        yield from self._one(f.BUILD_INFO, 1, ("version", __version__))
        yield from self._one(f.READY, int(not sources.ready()))
        yield from self._one(f.DRAINING, int(sources.proxy.services.draining))
        yield from self._histogram(f.LOOP_LAG, sources.observers.loop_lag.seconds)

    def _limits(self) -> Iterator[P]:
        limits, total = self._sources.driver.throttler.limits, self._sources.driver.throttler.total
        depths = {"revision": limits.queue_depth, "all": total.max_depth}
        sizes = {"revision": limits.queue_bytes, "all": total.max_bytes}
        yield from self._by_word(f.QUEUE_LIMIT, "scope", depths)
        yield from self._by_word(f.QUEUE_BYTES_LIMIT, "scope", sizes)
        heads = self._sources.proxy.head_budget
        yield from self._one(f.UNFINISHED_HEADS, heads.bytes)
        yield from self._one(f.UNFINISHED_HEADS_LIMIT, heads.most)
        unread = self._sources.proxy.unread
        yield from self._one(f.UNREAD, unread.bytes)
        yield from self._one(f.UNREAD_LIMIT, unread.most)
        yield from self._by_word(f.UNREAD_ENDED, "peer", unread.ended)
        files = self._sources.proxy.files
        used = {"clients": files.clients(), "pods": files.pods}
        yield from self._by_word(f.TRAFFIC_FILES, "use", used)
        yield from self._one(f.TRAFFIC_FILES_LIMIT, files.shares.traffic)
        yield from self._one(f.TRAFFIC_FILES_WAITING, files.waiting)
        yield from self._one(f.TURNED_AWAY, self._sources.proxy.counters.turned_away)

    def _cold_starts(self) -> Iterator[P]:
        writer, cold_starts = self._writer, self._sources.driver.cold_starts
        for family in (f.COLD_START_PHASES, f.OLD_COLD_START_PHASES):
            yield writer.header(family)
            for phase, histogram in cold_starts.phase_seconds.items():
                yield writer.histogram(family, writer.labels(("phase", phase.value)), histogram)
        for family in (f.COLD_START, f.OLD_COLD_START):
            yield from self._histogram(family, cold_starts.seconds)
        yield from self._histogram(f.PROBE_AHEAD, cold_starts.leads.seconds)

    def _traffic(self) -> Iterator[P]:
        sources = self._sources
        prober, pools, requests = sources.prober, sources.pools, sources.proxy.counters
        yield from self._one(f.PROBES, prober.attempts)
        yield from self._by_word(f.PROBE_FAILURES, "reason", prober.failures)
        yield from self._one(f.PROBES_IN_FLIGHT, prober.in_flight)
        yield from self._one(f.UPSTREAM, pools.connections)
        yield from self._one(f.UPSTREAM_IDLE, pools.idle)
        yield from self._one(f.UNKNOWN_REVISION, requests.unknown_revisions)
        yield from self._one(f.BAD_REQUESTS, requests.bad_requests)

    def _source(self) -> Iterator[P]:
        source = self._sources.source_status()
        for family, label, values in source_metrics(source):
            yield from self._by_word(family, label, values)
        files = source.files if source is not None else None
        yield from self._if_known(f.MANIFESTS_AGE, files.age if files else None)

    def _link(self) -> Iterator[P]:
        autoscaler, scaler = self._sources.links.autoscaler, self._sources.links.scaler
        writer = self._writer
        peers = {"autoscaler": autoscaler, "scaler": scaler}
        links = {
            writer.labels(("peer", peer), ("otel_scope_name", f.ACTIVATOR_SCOPE)): link
            for peer, link in peers.items()
            if link is not None
        }
        # As Knative's: its autoscaler has no value before the first connection.
        known = {
            labels: link for labels, link in links.items() if link.ever_connected or link is scaler
        }
        if known:
            yield writer.header(f.CONN_REACHABLE)
        for labels, link in known.items():
            yield writer.sample(f.CONN_REACHABLE, labels, int(link.connected))
        if links:
            yield writer.header(f.CONN_ERRORS)
        for labels, link in links.items():
            yield writer.sample(f.CONN_ERRORS, labels, link.connection_losses)
        yield from self._if_known(f.AUTOSCALER_AGE, autoscaler.age() if autoscaler else None)

    def _sent(self) -> Iterator[P]:
        sources, observers = self._sources, self._sources.observers
        request_log, otel = observers.request_log, observers.otel
        yield from self._by_word(f.CONFIG_ERRORS, "config_map", sources.config_errors)
        yield from self._by_word(f.CERTIFICATE_EXPIRY, "listener", observers.certificates.expiry)
        yield from self._one(f.REQUEST_LOG_LINES, request_log.lines)
        yield from self._one(f.REQUEST_LOG_FAILURES, request_log.failures)
        yield from self._by_word(f.LOG_LINES_DROPPED, "sink", observers.outputs.dropped)
        yield from self._one(f.TRACES_EXPORTED, otel.traces.exported)
        yield from self._by_word(f.TRACES_DROPPED, "cause", otel.traces.dropped)
        yield from self._by_word(f.METRIC_PUSHES, "result", otel.pushes)
        authorizer = sources.authorizer
        yield from self._by_word(f.AUTHORIZATION_CHECKS, "result", authorizer.counts)
        yield from self._one(f.AUTHORIZATION_WAITING, authorizer.waiting)
        identity = self._identity
        yield from self._one(
            f.TARGET_INFO,
            1,
            ("service_name", identity.service_name),
            ("service_version", __version__),
            ("k8s_namespace_name", identity.namespace),
            ("k8s_pod_name", identity.pod_name),
        )

    # -- shapes ---------------------------------------------------------------------------------

    def _by_word(self, family: Family, label: str, values: Mapping[str, float]) -> Iterator[P]:
        writer = self._writer
        yield writer.header(family)
        for word, value in list(values.items()):
            yield writer.sample(family, writer.labels((label, word)), value)

    def _if_known(self, family: Family, value: float | None) -> Iterator[P]:
        yield self._writer.header(family)
        if value is not None:
            yield self._writer.sample(family, self._writer.labels(), value)

    def _histogram(self, family: Family, histogram: Histogram) -> Iterator[P]:
        yield self._writer.header(family)
        yield self._writer.histogram(family, self._writer.labels(), histogram)

    def _one(self, family: Family, value: float, *pairs: tuple[str, str]) -> Iterator[P]:
        yield self._writer.header(family)
        yield self._writer.sample(family, self._writer.labels(*pairs), value)


_NONE = SourceStatus(kind="", name="", kinds={})


def source_metrics(
    source: SourceStatus | None,
) -> Iterator[tuple[Family, str, Mapping[str, float]]]:
    """Yield the metrics of the source of objects: each with its one label, and its values by it.

    Only these metrics show a watch that hangs. Its last state stays in force, and the activator
    serves requests until the listed pods are gone.

    Arguments:
        source: None before the source is made.
    """
    source = source or _NONE
    kinds = source.kinds
    watched = {kind: each.watch for kind, each in kinds.items() if each.watch is not None}
    yield f.OBJECTS, "kind", {kind: each.in_force for kind, each in kinds.items()}
    yield f.REJECTED_OBJECTS, "kind", {kind: each.rejected for kind, each in kinds.items()}
    yield f.WATCH_FAILURES, "kind", {kind: watch.failures for kind, watch in watched.items()}
    ages = {kind: age for kind in watched if (age := kinds[kind].age) is not None}
    yield f.WATCH_AGE, "kind", ages
    yield f.SELF_CHECKS, "result", source.missed.checks
    yield f.DRIFT, "kind", source.missed.found
    yield f.DRIFT_LEFT, "kind", source.missed.present
