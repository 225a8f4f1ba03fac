"""Collects all numbers of a scrape: each with its metric and its labels.

The module reads plain integers and changes nothing. It yields small pieces, so that the caller can
serve requests in between. A histogram is always one piece, so its buckets agree. Series come from
existing revisions and pods, and from closed sets of words. A host, method or revision that a client
invents never makes a series. ``totals`` has the numbers that belong to no revision. Knative's
counterparts: pkg/activator/handler/metrics.go and otelhttp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING, Generic, NamedTuple

from activator.knative.words import http_version
from activator.records.counters import Histogram, HttpCounters, RevisionCounters
from activator.records.entries import Entry
from activator.telemetry import families as f
from activator.telemetry.destination import Identity
from activator.telemetry.families import Family
from activator.telemetry.metric_writers import L, MetricWriter, P
from activator.telemetry.totals import Totals
from activator.tls.internal_encryption import POD_PORT, SERVICE_PORT
from throttler.capacity import MAX_CAPACITY
from throttler.model import RevisionID, RevisionKind
from throttler.pod import PodState
from throttler.request_policies import NAMES, WaitMode
from throttler.revision import RevisionThrottler

if TYPE_CHECKING:
    from activator.runtime import Runtime, Stat


#: The methods that OpenTelemetry names (RFC 9110, RFC 5789); all others count as OTHER_METHOD.
METHODS = {
    b"CONNECT": "CONNECT",
    b"DELETE": "DELETE",
    b"GET": "GET",
    b"HEAD": "HEAD",
    b"OPTIONS": "OPTIONS",
    b"PATCH": "PATCH",
    b"POST": "POST",
    b"PUT": "PUT",
    b"TRACE": "TRACE",
}
OTHER_METHOD = "_OTHER"

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


class ReportedConcurrency:
    """The concurrency that the activator last reported of each revision, for the gauge.

    It holds busy revisions only, so it stays small. The stat reporter calls it as one of its sinks.
    Knative's counterpart: the gauge of pkg/activator/handler/concurrency_reporter.go. The
    announcement of a revision's first request counts here too, so the gauge shows it up to a second
    earlier.
    """

    def __init__(self) -> None:
        self._last: dict[RevisionID, float] = {}

    def __len__(self) -> int:
        return len(self._last)

    def __call__(self, stats: Iterable[Stat]) -> None:
        """Record a report. The last one of an idle revision says 0, and removes the revision."""
        for stat in stats:
            if stat.concurrency:
                self._last[stat.revision_id] = stat.concurrency
            else:
                self._last.pop(stat.revision_id, None)

    def of(self, entry: Entry) -> float:
        """Return the concurrency that was last reported of a revision."""
        return self._last.get(entry.throttler.revision.id, 0.0)


def open_now(entry: Entry) -> float:
    """Return the number of requests of a revision that are queued or in flight now."""
    return entry.throttler.breaker.waiting + entry.throttler.slots.in_flight


class Collection(Generic[L, P]):
    """One walk through all numbers.

    Arguments:
        sources: the parts that count; read only while the caller iterates over ``pieces``.
        writer: makes the pieces.
        concurrency: returns kn_revision_request_concurrency of a revision.
        identity: the identity of this activator.
    """

    def __init__(
        self,
        sources: Runtime,
        writer: MetricWriter[L, P],
        concurrency: Callable[[Entry], float],
        identity: Identity,
    ) -> None:
        self._sources = sources
        self._writer = writer
        self._concurrency = concurrency
        self._identity = identity
        self._rows: list[_Row[L]] = []
        self._kinds: dict[tuple[str, int, int, bool], L] = {}
        self._own_scope = writer.labels(("otel_scope_name", f.ACTIVATOR_SCOPE))

    def pieces(self) -> Iterator[P]:
        """Yield all pieces. Some are empty, and only give the caller a chance to pause."""
        yield from self._revisions()
        yield from self._gauges()
        yield from self._counts()
        yield from self._http()
        yield from Totals(self._sources, self._writer, self._identity).pieces()

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
        # A Service may have the name of a Revision, whose series keep Knative's labels.
        is_service = revision.id.kind is RevisionKind.SERVICE
        kind = (("kind", revision.id.kind.value),) if is_service else ()
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
        yield writer.header(f.KN_CONCURRENCY)
        for row, entry in self._requested():
            labels = writer.joined(row.service_labels, scope)
            yield writer.sample(f.KN_CONCURRENCY, labels, self._concurrency(entry))
        yield from self._gauge(f.KN_QUEUED, _queued, scope)
        yield from self._gauge(f.KN_ACTIVE, _active, scope)
        yield from self._gauge(f.OLD_QUEUED, _queued)
        yield from self._gauge(f.OLD_ACTIVE, _active)
        yield from self._waiting()
        yield from self._gauge(f.QUEUE_BYTES, lambda throttler: throttler.breaker.own.bytes)
        yield from self._by_class()
        yield from self._by_mode()
        clock = self._sources.driver.clock
        yield from self._gauge(f.OLDEST_WAITER, lambda throttler: _waited(throttler, clock()))
        yield from self._gauge(f.FAILED_STARTS, self._sources.driver.cold_starts.failed)
        yield from self._gauge(f.TIMEOUT, _timeout)
        yield from self._gauge(f.CAPACITY, _capacity)
        yield from self._gauge(f.WITH_ROOM, _with_room)
        yield from self._gauge(f.CLUSTER_IP, _by_cluster_ip)
        yield writer.header(f.PODS)
        for row in self._rows:
            yield from self._pods(row)
        yield writer.header(f.ADAPTIVE_LIMIT)
        for row in self._rows:
            slots = row.throttler.slots
            if slots.adaptive is not None:
                limit = sum(slots.adaptive.limit_of(pod) or 0 for pod in slots.pods)
                yield writer.sample(f.ADAPTIVE_LIMIT, row.labels, limit)

    def _gauge(
        self, family: Family, value: Callable[[RevisionThrottler], float], more: L | None = None
    ) -> Iterator[P]:
        writer = self._writer
        yield writer.header(family)
        for row in self._rows:
            labels = row.labels if more is None else writer.joined(row.labels, more)
            yield writer.sample(family, labels, value(row.throttler))

    def _waiting(self) -> Iterator[P]:
        """Yield the queued requests; all requests of one revision wait for the same reason."""
        writer, driver = self._writer, self._sources.driver
        yield writer.header(f.WAITING)
        for row in self._rows:
            waiting = _queued(row.throttler)
            if waiting:
                reason, _ = driver.why(row.throttler)
                labels = writer.joined(row.labels, writer.labels(("reason", reason.value)))
                yield writer.sample(f.WAITING, labels, waiting)
            else:
                yield writer.nothing

    def _by_class(self) -> Iterator[P]:
        """Yield the queued requests by class, and the flows, of revisions that have them."""
        writer = self._writer
        yield writer.header(f.QUEUED_BY_CLASS)
        for row in self._rows:
            order, queued = row.throttler.breaker.order, row.throttler.breaker.counts
            if order is not None and order.has_classes:
                for name, count in zip(NAMES, queued.by_priority, strict=True):
                    labels = writer.joined(row.labels, writer.labels(("class", name)))
                    yield writer.sample(f.QUEUED_BY_CLASS, labels, count)
        yield writer.header(f.QUEUE_FLOWS)
        for row in self._rows:
            order, queued = row.throttler.breaker.order, row.throttler.breaker.counts
            if order is not None and order.fair_by is not None:
                yield writer.sample(f.QUEUE_FLOWS, row.labels, len(queued.flows))

    def _by_mode(self) -> Iterator[P]:
        """Yield what belongs to the modes of waiting clients, of revisions that have them."""
        writer, now = self._writer, self._sources.driver.clock()
        rows = [row for row in self._rows if _has_modes(row.throttler)]
        yield writer.header(f.QUEUED_BY_MODE)
        for row in rows:
            counts = dict.fromkeys((mode.value for mode in WaitMode), 0)
            if row.entry is not None:
                counts |= row.entry.counters.waiting
            counts["hold"] = max(_queued(row.throttler) - sum(counts.values()), 0)
            for mode, count in counts.items():
                labels = writer.joined(row.labels, writer.labels(("mode", mode)))
                yield writer.sample(f.QUEUED_BY_MODE, labels, count)
        yield writer.header(f.EARLY_HEADS)
        for row in rows:
            heads = 0 if row.entry is None else row.entry.counters.early_heads
            yield writer.sample(f.EARLY_HEADS, row.labels, heads)
        yield writer.header(f.WAKE_LEASE)
        for row in rows:
            left = 0.0 if row.entry is None else row.entry.lease.seconds_left(now)
            yield writer.sample(f.WAKE_LEASE, row.labels, left)

    def _pods(self, row: _Row[L]) -> Iterator[P]:
        count = dict.fromkeys(STATES, 0)
        for pod in row.throttler.backends.pods.values():
            count[pod.state] += 1
        writer = self._writer
        for state, number in count.items():
            labels = writer.joined(row.labels, writer.labels(("state", state.value)))
            yield writer.sample(f.PODS, labels, number)

    # -- counters of each revision --------------------------------------------------------------

    def _counts(self) -> Iterator[P]:
        yield from self._sticky()
        yield from self._labelled(f.REQUESTS, "outcome", lambda counters: counters.outcomes)
        yield from self._labelled(f.REQUEUES, "cause", lambda counters: counters.requeues)
        for family in (f.COLD_STARTS, f.OLD_COLD_STARTS):
            yield from self._labelled(family, "outcome", lambda counters: counters.cold_starts)
        yield self._writer.header(f.WAIT)
        for row, entry in self._requested():
            yield self._writer.histogram(f.WAIT, row.labels, entry.counters.waits)

    def _sticky(self) -> Iterator[P]:
        writer = self._writer
        yield writer.header(f.STICKY)
        for row in self._rows:
            if (sticky := row.throttler.slots.sticky) is not None:
                for result, count in sticky.counts.by_result():
                    labels = writer.joined(row.labels, writer.labels(("result", result)))
                    yield writer.sample(f.STICKY, labels, count)

    def _requested(self) -> Iterator[tuple[_Row[L], Entry]]:
        """Yield the revisions that have had requests, with their entries."""
        for row in self._rows:
            if row.entry is not None:
                yield row, row.entry

    def _labelled(
        self, family: Family, label: str, counts: Callable[[RevisionCounters], Mapping[str, int]]
    ) -> Iterator[P]:
        writer = self._writer
        yield writer.header(family)
        for row, entry in self._requested():
            for word, count in list(counts(entry.counters).items()):
                labels = writer.joined(row.labels, writer.labels((label, word)))
                yield writer.sample(family, labels, count)

    def _http(self) -> Iterator[P]:
        for family, which in (
            (f.SERVER_DURATION, attrgetter("duration")),
            (f.SERVER_REQUEST_SIZE, attrgetter("request_size")),
            (f.SERVER_RESPONSE_SIZE, attrgetter("response_size")),
        ):
            yield from self._histograms(family, self._server_kinds, which)
        for family, which in (
            (f.CLIENT_DURATION, attrgetter("duration")),
            (f.CLIENT_REQUEST_SIZE, attrgetter("request_size")),
        ):
            yield from self._histograms(family, self._client_kinds, which)

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

    def _server_kinds(self, row: _Row[L], counters: RevisionCounters) -> _Kinds[L]:
        writer, revision = self._writer, row.throttler.revision.id
        # Knative puts the Host here, which clients choose; this is one word per revision.
        address = writer.labels(("server_address", f"{revision.name}.{revision.namespace}"))
        base = writer.joined(row.service_labels, address)
        for (method, minor, status), record in list(counters.server.items()):
            labels = writer.joined(base, self._kind(method, minor, status))
            yield method not in METHODS, labels, record

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
            yield method not in METHODS, labels, record

    def _kind(self, method: bytes, minor: int, status: int, secure: bool = False) -> L:
        words = (METHODS.get(method, OTHER_METHOD), minor, status, secure)
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


def _queued(throttler: RevisionThrottler) -> int:
    return throttler.breaker.waiting


def _has_modes(throttler: RevisionThrottler) -> bool:
    requests = throttler.revision.policies.requests
    return requests is not None and requests.waiting is not None


def _active(throttler: RevisionThrottler) -> int:
    return throttler.slots.in_flight


def _waited(throttler: RevisionThrottler, now: float) -> float:
    oldest = throttler.breaker.oldest()
    return max(0.0, now - oldest.arrived) if oldest is not None else 0


def _capacity(throttler: RevisionThrottler) -> float:
    capacity = throttler.capacity()
    return inf if capacity == MAX_CAPACITY else capacity


def _timeout(throttler: RevisionThrottler) -> float:
    revision = throttler.revision
    return min(revision.timeout, revision.response_start_timeout or inf)


def _with_room(throttler: RevisionThrottler) -> float:
    """Return the pods with a free slot; 0 if sticky requests wait, each for its own pod only."""
    breaker = throttler.breaker
    if breaker.parked and not breaker.unparked:
        return 0
    return throttler.slots.count_free_pods()


def _by_cluster_ip(throttler: RevisionThrottler) -> int:
    service = throttler.backends.service.tracker
    return int(service is not None and service.in_use)


def merged(histograms: Sequence[Histogram]) -> Histogram:
    """Return the sum of at least one histogram; all have the same bounds."""
    total = Histogram(histograms[0].bounds)
    total.counts = [sum(column) for column in zip(*(one.counts for one in histograms), strict=True)]
    total.total = sum(one.total for one in histograms)
    return total
