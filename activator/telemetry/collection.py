"""Collects all numbers of a scrape: each with its metric and its labels.

The module reads plain integers and changes nothing. It yields small pieces, so that the caller can
serve requests in between. A histogram is always one piece, so its buckets agree. Series come from
existing revisions and pods, and from closed sets of words. A host, method or revision that a client
invents never makes a series. Knative's counterparts: pkg/activator/handler/metrics.go and otelhttp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING, Generic, NamedTuple

from activator import __version__
from activator.knative.words import http_version
from activator.records.counters import Histogram, HttpCounters, RevisionCounters
from activator.records.entries import Entry, queued_by_mode
from activator.records.source_status import SourceStatus
from activator.telemetry import families as f
from activator.telemetry.families import Family
from activator.telemetry.metric_writers import L, MetricWriter, P
from activator.tls.internal_encryption import POD_PORT, SERVICE_PORT
from throttler.capacity import MAX_CAPACITY
from throttler.model import RevisionKind
from throttler.pod import PodState
from throttler.request_policies import NAMES
from throttler.revision import RevisionThrottler

if TYPE_CHECKING:
    from activator.runtime import Runtime


class Totals(Generic[L, P]):
    """One walk through the numbers of the activator as a whole, which belong to no revision.

    Arguments:
        sources: the parts that count; read only while the caller iterates over ``pieces``.
        writer: makes the pieces.
    """

    def __init__(self, sources: Runtime, writer: MetricWriter[L, P]) -> None:
        self._sources = sources
        self._writer = writer

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
        yield from self._histogram(f.GC_PAUSE, sources.observers.pauses)

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
        yield from self._one(f.UPSTREAM, pools.resources.connections)
        yield from self._one(f.UPSTREAM_IDLE, pools.resources.idle)
        yield from self._one(f.UNKNOWN_REVISION, requests.unknown_revisions)
        yield from self._one(f.BAD_REQUESTS, requests.bad_requests)

    def _source(self) -> Iterator[P]:
        source = self._sources.source_status()
        for family, label, values in source_metrics(source):
            yield from self._by_word(family, label, values)
        files = source.files
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
        request_log, traces = observers.request_log, observers.traces.counters
        yield from self._by_word(f.CONFIG_ERRORS, "config_map", sources.cluster.error_counts())
        yield from self._by_word(f.CERTIFICATE_EXPIRY, "listener", observers.certificates.expiry)
        yield from self._one(f.REQUEST_LOG_LINES, request_log.lines)
        yield from self._one(f.REQUEST_LOG_FAILURES, request_log.failures)
        yield from self._by_word(f.LOG_LINES_DROPPED, "sink", observers.outputs.dropped)
        yield from self._one(f.TRACES_EXPORTED, traces.exported)
        yield from self._by_word(f.TRACES_DROPPED, "cause", traces.dropped)
        yield from self._by_word(f.METRIC_PUSHES, "result", observers.push.pushes)
        authorizer = sources.authorizer
        yield from self._by_word(f.AUTHORIZATION_CHECKS, "result", authorizer.counts)
        yield from self._one(f.AUTHORIZATION_WAITING, authorizer.waiting)
        identity = observers.identity
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


def source_metrics(source: SourceStatus) -> Iterator[tuple[Family, str, Mapping[str, float]]]:
    """Yield the metrics of the source of objects: each with its one label, and its values by it.

    Only these metrics show a watch that hangs. Its last state stays in force, and the activator
    serves requests until the listed pods are gone.
    """
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


# -- the numbers of each revision -----------------------------------------------------------------

#: Counts for all methods but ``families.METHODS``.
OTHER_METHOD = "_OTHER"

_ROUTE = RevisionKind.HTTP_ROUTE
#: The labels of requests for unknown hosts, whose methods are not counted.
_UNKNOWN = (("code", "404"), ("method", OTHER_METHOD), ("route_name", ""), ("route_namespace", ""))

#: States of pods in the throttler. A pod in state GONE is not there any more.
STATES = (PodState.PROBING, PodState.HEALTHY, PodState.DRAINING)


class _Row(NamedTuple, Generic[L]):
    """One revision, with the labels that its series share."""

    throttler: RevisionThrottler
    entry: Entry | None
    labels: L
    service_labels: L


_Kinds = Iterator[tuple[bool, L, HttpCounters]]
"""Kinds of requests: whether the method counts as OTHER_METHOD, the labels, the counters."""


class Collection(Generic[L, P]):
    """One walk through all numbers.

    Arguments:
        sources: the parts that count; read only while the caller iterates over ``pieces``.
        writer: makes the pieces.
    """

    def __init__(self, sources: Runtime, writer: MetricWriter[L, P]) -> None:
        self._sources = sources
        self._writer = writer
        self._rows: list[_Row[L]] = []
        self._kinds: dict[tuple[str, int, int, bool], L] = {}
        self._own_scope = writer.labels(("otel_scope_name", f.ACTIVATOR_SCOPE))

    def pieces(self) -> Iterator[P]:
        """Yield all pieces. Some are empty, and only give the caller a chance to pause."""
        yield from self._revisions()
        yield from self._gauges()
        yield from self._counts()
        yield from self._http()
        yield from self._add_on()
        yield from Totals(self._sources, self._writer).pieces()

    def _revisions(self) -> Iterator[P]:
        """Find the revisions with series: a revision with pods, or with requests now or before."""
        driver = self._sources.driver
        entries = {entry.throttler: entry for entry in list(driver.entries)}
        for throttler in list(driver.throttler):
            entry = entries.get(throttler)
            if entry is not None or throttler.backends.pods.values() or not throttler.idle:
                self._rows.append(self._row(throttler, entry))
            yield self._writer.nothing

    def _row(self, throttler: RevisionThrottler, entry: Entry | None) -> _Row[L]:
        revision = throttler.revision
        name = ("kn_revision_name", revision.id.name)
        namespace = ("k8s_namespace_name", revision.id.namespace)
        service = ("kn_service_name", revision.service)
        configuration = ("kn_configuration_name", revision.configuration)
        # Another object may have the name of a Revision, whose series keep Knative's labels.
        of_knative = revision.id.kind is RevisionKind.REVISION
        kind = () if of_knative else (("kind", revision.id.kind.value),)
        labels = self._writer.labels
        return _Row(
            throttler,
            entry,
            labels(namespace, name, *kind),
            labels(service, configuration, name, namespace, *kind),
        )

    # -- one number per revision ----------------------------------------------------------------

    def _gauges(self) -> Iterator[P]:
        writer, scope = self._writer, self._own_scope
        reported = self._sources.history.reported
        yield writer.header(f.KN_CONCURRENCY)
        for row, entry in self._requested():
            labels = writer.joined(row.service_labels, scope)
            concurrency = reported.get(entry.throttler.revision.id, 0.0)
            yield writer.sample(f.KN_CONCURRENCY, labels, concurrency)
        yield from self._gauge(f.KN_QUEUED, _queued, scope)
        yield from self._gauge(f.KN_ACTIVE, _active, scope)
        yield from self._gauge(f.OLD_QUEUED, _queued)
        yield from self._gauge(f.OLD_ACTIVE, _active)
        # All requests of one revision wait for the same reason.
        yield from self._by_word(f.WAITING, "reason", self._waiting)
        yield from self._gauge(f.QUEUE_BYTES, lambda row: row.throttler.queued.own.bytes)
        yield from self._by_word(f.QUEUED_BY_CLASS, "class", _by_class)
        yield from self._gauge(f.QUEUE_FLOWS, _flows)
        yield from self._by_word(f.QUEUED_BY_MODE, "mode", _by_mode)
        yield from self._gauge(f.EARLY_HEADS, _early_heads)
        clock = self._sources.driver.clock
        yield from self._gauge(f.WAKE_LEASE, lambda row: _leased(row, clock()))
        yield from self._gauge(f.OLDEST_WAITER, lambda row: _waited(row, clock()))
        failed = self._sources.driver.cold_starts.failed
        yield from self._gauge(f.FAILED_STARTS, lambda row: failed(row.throttler))
        yield from self._gauge(f.TIMEOUT, _timeout)
        yield from self._gauge(f.CAPACITY, _capacity)
        yield from self._gauge(f.WITH_ROOM, _with_room)
        yield from self._gauge(f.CLUSTER_IP, _by_cluster_ip)
        yield from self._by_word(f.PODS, "state", _pods)
        yield from self._gauge(f.ADAPTIVE_LIMIT, _adaptive_limit)

    def _gauge(
        self, family: Family, value: Callable[[_Row[L]], float | None], more: L | None = None
    ) -> Iterator[P]:
        """Yield a number of each revision; ``value`` returns None for a revision without one."""
        writer = self._writer
        yield writer.header(family)
        for row in self._rows:
            labels = row.labels if more is None else writer.joined(row.labels, more)
            number = value(row)
            yield writer.nothing if number is None else writer.sample(family, labels, number)

    def _by_word(
        self, family: Family, label: str, values: Callable[[_Row[L]], Mapping[str, float]]
    ) -> Iterator[P]:
        """Yield the numbers of each revision by a word, which is the value of ``label``."""
        writer = self._writer
        yield writer.header(family)
        for row in self._rows:
            numbers = list(values(row).items())
            for word, number in numbers:
                labels = writer.joined(row.labels, writer.labels((label, word)))
                yield writer.sample(family, labels, number)
            if not numbers:
                yield writer.nothing

    def _waiting(self, row: _Row[L]) -> Mapping[str, int]:
        if not (waiting := _queued(row)):
            return {}
        return {self._sources.driver.why(row.throttler)[0].value: waiting}

    # -- counters of each revision --------------------------------------------------------------

    def _counts(self) -> Iterator[P]:
        yield from self._by_word(f.STICKY, "result", _sticky)
        yield from self._gauge(f.LEFT_ZONE, _left_zone)
        yield from self._counted(f.REQUESTS, "outcome", attrgetter("outcomes"))
        yield from self._counted(f.REQUEUES, "cause", attrgetter("requeues"))
        for family in (f.COLD_STARTS, f.OLD_COLD_STARTS):
            yield from self._counted(family, "outcome", attrgetter("cold_starts"))
        yield self._writer.header(f.WAIT)
        for row, entry in self._requested():
            yield self._writer.histogram(f.WAIT, row.labels, entry.counters.waits)

    def _counted(
        self, family: Family, label: str, counts: Callable[[RevisionCounters], Mapping[str, int]]
    ) -> Iterator[P]:
        return self._by_word(
            family, label, lambda row: {} if row.entry is None else counts(row.entry.counters)
        )

    def _requested(self) -> Iterator[tuple[_Row[L], Entry]]:
        """Yield the revisions that have had requests, with their entries."""
        for row in self._rows:
            if row.entry is not None:
                yield row, row.entry

    def _http(self) -> Iterator[P]:
        for family, kinds, name in (
            (f.SERVER_DURATION, self._server_kinds, "duration"),
            (f.SERVER_REQUEST_SIZE, self._server_kinds, "request_size"),
            (f.SERVER_RESPONSE_SIZE, self._server_kinds, "response_size"),
            (f.CLIENT_DURATION, self._client_kinds, "duration"),
            (f.CLIENT_REQUEST_SIZE, self._client_kinds, "request_size"),
        ):
            yield from self._histograms(family, kinds, attrgetter(name))

    def _histograms(
        self,
        family: Family,
        kinds: Callable[[_Row[L], RevisionCounters], _Kinds[L]],
        which: Callable[[HttpCounters], Histogram],
    ) -> Iterator[P]:
        writer = self._writer
        yield writer.header(family)
        for row, entry in self._requested():
            others: dict[L, list[Histogram]] = {}
            for other, labels, counters in kinds(row, entry.counters):
                if other:
                    others.setdefault(labels, []).append(which(counters))
                else:
                    yield writer.histogram(family, labels, which(counters))
            for labels, histograms in others.items():
                yield writer.histogram(family, labels, merged(histograms))

    def _add_on(self) -> Iterator[P]:
        """Yield the metrics of the KEDA HTTP add-on by its names, for its objects."""
        rows = [row for row in self._rows if row.throttler.revision.id.kind is _ROUTE]
        writer = self._writer
        for family, labels_of, number in (
            (f.ADD_ON_CONCURRENCY, self._route_labels, _load),
            (f.ADD_ON_REJECTIONS, self._route_labels, _rejected),
            (f.ADD_ON_PENDING, self._host_label, _load),
        ):
            yield writer.header(family)
            for row in rows:
                yield writer.sample(family, labels_of(row), number(row))
        yield writer.header(f.ADD_ON_REQUESTS)
        unknown = self._sources.proxy.counters.unknown_revisions
        if rows:
            yield writer.sample(f.ADD_ON_REQUESTS, writer.labels(*_UNKNOWN), unknown)
        for row in rows:
            for kind, histogram in _durations(row).items():
                labels = self._route_labels(row, *kind)
                yield writer.sample(f.ADD_ON_REQUESTS, labels, sum(histogram.counts))
        yield writer.header(f.ADD_ON_DURATION)
        for row in rows:
            for kind, histogram in _durations(row).items():
                labels = self._route_labels(row, *kind)
                yield writer.histogram(f.ADD_ON_DURATION, labels, histogram)

    def _host_label(self, row: _Row[L]) -> L:
        return self._writer.labels(("host", str(row.throttler.revision.id)))

    def _route_labels(self, row: _Row[L], *kind: str) -> L:
        """Return the labels of a route object, after status and method."""
        route = row.throttler.revision.id
        names = ("route_name", route.name), ("route_namespace", route.namespace)
        return self._writer.labels(*zip(("code", "method"), kind, strict=False), *names)

    def _server_kinds(self, row: _Row[L], counters: RevisionCounters) -> _Kinds[L]:
        writer, revision = self._writer, row.throttler.revision.id
        # Knative puts the Host here, which clients choose; this is one word per revision.
        address = writer.labels(("server_address", f"{revision.name}.{revision.namespace}"))
        base = writer.joined(row.service_labels, address)
        for (method, minor, status), record in list(counters.server.items()):
            labels = writer.joined(base, self._kind(method, minor, status))
            yield method not in f.METHODS, labels, record

    def _client_kinds(self, row: _Row[L], counters: RevisionCounters) -> _Kinds[L]:
        writer, service = self._writer, row.throttler.backends.service.tracker
        secure = self._sources.pools.tls is not None
        for (pod, method, minor, status), record in list(counters.client.items()):
            host, _, port = pod.rpartition(":")
            if secure:  # requests go to another port than the one in the pod's address
                is_service = service is not None and pod == service.address
                port = str(SERVICE_PORT if is_service else POD_PORT)
            address = writer.labels(("server_address", host.strip("[]")), ("server_port", port))
            base = writer.joined(row.service_labels, address)
            labels = writer.joined(base, self._kind(method, minor, status, secure))
            yield method not in f.METHODS, labels, record

    def _kind(self, method: bytes, minor: int, status: int, secure: bool = False) -> L:
        words = (f.METHODS.get(method, OTHER_METHOD), minor, status, secure)
        kind = self._kinds.get(words)
        if kind is None:  # there are a few dozen at most
            kind = self._kinds[words] = self._writer.labels(
                ("http_request_method", words[0]),
                ("url_scheme", "https" if secure else "http"),
                ("network_protocol_name", "http"),
                ("network_protocol_version", http_version(minor)),
                ("http_response_status_code", str(status)),
                ("otel_scope_name", f.HTTP_SCOPE),
            )
        return kind


# -- numbers of one revision ----------------------------------------------------------------------


def _load(row: _Row[L]) -> int:
    return 0 if row.entry is None else row.entry.load.in_flight


def _rejected(row: _Row[L]) -> int:
    return 0 if row.entry is None else row.entry.counters.outcomes["queue-full"]


def _durations(row: _Row[L]) -> dict[tuple[str, str], Histogram]:
    """Return the durations of requests by status and method."""
    found: dict[tuple[str, str], list[Histogram]] = {}
    counters = {} if row.entry is None else row.entry.counters.server
    for (method, _, status), each in list(counters.items()):
        kind = str(status), f.METHODS.get(method, OTHER_METHOD)
        found.setdefault(kind, []).append(each.duration)
    return {kind: merged(histograms) for kind, histograms in found.items()}


def _queued(row: _Row[L]) -> int:
    return row.throttler.queued.waiting


def _active(row: _Row[L]) -> int:
    return row.throttler.slots.in_flight


def _by_class(row: _Row[L]) -> Mapping[str, int]:
    order, queued = row.throttler.queued.order, row.throttler.queued.counts
    has_classes = order is not None and order.has_classes
    return dict(zip(NAMES, queued.by_priority, strict=True)) if has_classes else {}


def _flows(row: _Row[L]) -> int | None:
    order, queued = row.throttler.queued.order, row.throttler.queued.counts
    return None if order is None or order.fair_by is None else len(queued.flows)


def _has_modes(row: _Row[L]) -> bool:
    return row.throttler.revision.policies.waiting is not None


def _by_mode(row: _Row[L]) -> Mapping[str, int]:
    return queued_by_mode(row.throttler, row.entry) if _has_modes(row) else {}


def _early_heads(row: _Row[L]) -> int | None:
    if not _has_modes(row):
        return None
    return 0 if row.entry is None else row.entry.counters.early_heads


def _leased(row: _Row[L], now: float) -> float | None:
    if not _has_modes(row):
        return None
    return 0.0 if row.entry is None else row.entry.lease.seconds_left(now)


def _waited(row: _Row[L], now: float) -> float:
    oldest = row.throttler.queued.oldest()
    return max(0.0, now - oldest.arrived) if oldest is not None else 0


def _capacity(row: _Row[L]) -> float:
    capacity = row.throttler.capacity()
    return inf if capacity == MAX_CAPACITY else capacity


def _timeout(row: _Row[L]) -> float:
    revision = row.throttler.revision
    return min(revision.timeout, revision.response_start_timeout or inf)


def _with_room(row: _Row[L]) -> float:
    """Return the pods with a free slot; 0 if sticky requests wait, each for its own pod only."""
    queued = row.throttler.queued
    if queued.parked and not queued.unparked:
        return 0
    return row.throttler.slots.count_free_pods()


def _by_cluster_ip(row: _Row[L]) -> int:
    service = row.throttler.backends.service.tracker
    return int(service is not None and service.in_use)


def _pods(row: _Row[L]) -> Mapping[str, int]:
    count = dict.fromkeys((state.value for state in STATES), 0)
    for pod in row.throttler.backends.pods.values():
        count[pod.state.value] += 1
    return count


def _adaptive_limit(row: _Row[L]) -> float | None:
    slots = row.throttler.slots
    if slots.adaptive is None:
        return None
    return sum(slots.adaptive.limit_of(pod) or 0 for pod in slots.pods)


def _sticky(row: _Row[L]) -> Mapping[str, int]:
    sticky = row.throttler.slots.sticky
    return {} if sticky is None else dict(sticky.counts.by_result())


def _left_zone(row: _Row[L]) -> int | None:
    zones = row.throttler.slots.zones
    return None if zones is None else zones.left


def merged(histograms: Sequence[Histogram]) -> Histogram:
    """Return the sum of at least one histogram; all have the same bounds."""
    total = Histogram(histograms[0].bounds)
    total.counts = [sum(column) for column in zip(*(one.counts for one in histograms), strict=True)]
    total.total = sum(one.total for one in histograms)
    return total
