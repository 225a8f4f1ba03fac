"""Turns what all parts count into metrics when Prometheus asks; costs nothing in between.

Reads plain integers, changes nothing. The text is made in small chunks, so that whoever sends it
can let requests pass in between; a histogram is always written in one go, so its buckets agree.
Series come from revisions and pods that exist and from closed sets of words: what clients make up
(hosts, methods, revisions) never makes one. Knows no HTTP server. Knative's counterparts:
pkg/activator/handler/metrics.go and otelhttp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from math import inf
from operator import attrgetter
from typing import NamedTuple, Protocol

from activator import __version__
from activator.counters import Histogram, HttpCounters, RevisionCounters
from activator.driver import Driver, Entry
from activator.telemetry import families as f
from activator.telemetry.exposition import HistogramText, escape, header, merged, sample
from activator.telemetry.families import Family
from activator.telemetry.knowledge import Objects, Watch, knowledge
from activator.telemetry.process import ProcessMetrics
from throttler.capacity import MAX_CAPACITY
from throttler.health import PodState
from throttler.revision import RevisionThrottler

#: Bytes of a chunk: makes one of about 0.2 ms, which a request does not notice.
CHUNK = 64 << 10
#: Pieces of a chunk at most, for long rows of short (or no) lines.
PIECES = 256

#: The methods that OpenTelemetry names (RFC 9110, RFC 5789); all others are one.
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

#: GONE is not among them: such a pod is no longer kept.
STATES = (PodState.PROBING, PodState.HEALTHY, PodState.DRAINING)


class Probes(Protocol):
    """What is counted of probes."""

    in_flight: int
    attempts: int

    @property
    def failures(self) -> Mapping[str, int]:
        """By reason."""


class Connections(Protocol):
    """What is counted of connections to pods."""

    connections: int
    idle: int


class Requests(Protocol):
    """What is counted outside any revision."""

    unknown_revisions: int
    bad_requests: int


class Proxy(Protocol):
    """Where that is found."""

    @property
    def counters(self) -> Requests:
        """The counters."""


class Link(Protocol):
    """The connection to the autoscaler."""

    connected: bool
    ever_connected: bool
    connection_losses: int


class Sources(Protocol):
    """The parts that count."""

    @property
    def driver(self) -> Driver:
        """Revisions, pods, requests."""

    @property
    def prober(self) -> Probes:
        """Probes."""

    @property
    def pools(self) -> Connections:
        """Connections to pods."""

    @property
    def proxy(self) -> Proxy:
        """Requests without a revision."""

    @property
    def inventory(self) -> Objects | None:
        """Kubernetes' objects; None before they are read."""

    @property
    def watch(self) -> Watch | None:
        """What follows a cluster; None where there is none."""

    @property
    def link(self) -> Link | None:
        """The autoscaler; None where there is none."""


class _Row(NamedTuple):
    """One revision, with the labels that its series share."""

    throttler: RevisionThrottler
    entry: Entry | None
    labels: str
    service_labels: str


def held_now(entry: Entry) -> float:
    """Return the requests of a revision that wait or are at pods at this moment."""
    return entry.throttler.breaker.waiting + entry.throttler.in_flight


class Metrics:
    """All metrics of one activator.

    Arguments:
        sources: the parts that count; read only while metrics are made.
        concurrency: gives kn_revision_request_concurrency of a revision.
    """

    def __init__(self, sources: Sources, concurrency: Callable[[Entry], float] = held_now) -> None:
        self._sources = sources
        self._concurrency = concurrency
        self._process = ProcessMetrics()

    def render(self) -> bytes:
        """Return the whole text; with many revisions ``chunks`` is kinder to others."""
        return b"".join(self.chunks())

    def chunks(self) -> Iterator[bytes]:
        """Yield the text bit by bit; the caller may let others run in between.

        Some chunks may be empty.
        """
        pieces: list[str] = []
        size = 0
        for piece in self._pieces():
            pieces.append(piece)
            size += len(piece)
            if size >= CHUNK or len(pieces) >= PIECES:
                yield _encode(pieces)
                pieces.clear()
                size = 0
        yield _encode(pieces)

    def _pieces(self) -> Iterator[str]:
        rows: list[_Row] = []
        yield from self._collect(rows)
        yield from self._gauges(rows)
        yield from _counts(rows)
        yield from _http(rows)
        yield from self._totals()
        yield self._process.render()

    def _collect(self, rows: list[_Row]) -> Iterator[str]:
        """Fill ``rows`` with the revisions that have anything to say: requests now or before, or
        pods. Yields nothing to read, only chances to pause."""
        driver = self._sources.driver
        entries = {entry.throttler: entry for entry in list(driver.entries())}
        for throttler in list(driver.throttler):
            entry = entries.get(throttler)
            if entry is not None or throttler.pods() or not throttler.idle:
                rows.append(_row(throttler, entry))
            yield ""

    def _gauges(self, rows: list[_Row]) -> Iterator[str]:
        yield header(f.KN_CONCURRENCY)
        scope = f',otel_scope_name="{f.ACTIVATOR_SCOPE}"'
        for row in rows:
            if row.entry is not None:
                value = self._concurrency(row.entry)
                yield sample(f.KN_CONCURRENCY, row.service_labels + scope, value)
        yield from _gauge(f.KN_QUEUED, rows, _queued, scope)
        yield from _gauge(f.KN_ACTIVE, rows, _active, scope)
        yield from _gauge(f.QUEUED, rows, _queued)
        yield from _gauge(f.ACTIVE, rows, _active)
        yield from _gauge(f.QUEUE_BYTES, rows, lambda throttler: throttler.breaker.own.bytes)
        clock = self._sources.driver.clock
        yield from _gauge(f.OLDEST_WAITER, rows, lambda throttler: _waited(throttler, clock()))
        yield from _gauge(f.CAPACITY, rows, _capacity)
        yield header(f.PODS)
        for row in rows:
            yield _pods(row)

    def _totals(self) -> Iterator[str]:
        sources = self._sources
        prober, pools, requests = sources.prober, sources.pools, sources.proxy.counters
        yield _one(f.PROBES, prober.attempts)
        yield header(f.PROBE_FAILURES)
        for reason, count in list(prober.failures.items()):
            yield sample(f.PROBE_FAILURES, f'reason="{escape(reason)}"', count)
        yield _one(f.PROBES_IN_FLIGHT, prober.in_flight)
        yield _one(f.UPSTREAM, pools.connections)
        yield _one(f.UPSTREAM_IDLE, pools.idle)
        yield _one(f.UNKNOWN_REVISION, requests.unknown_revisions)
        yield _one(f.BAD_REQUESTS, requests.bad_requests)
        yield from knowledge(sources.inventory, sources.watch, sources.driver.clock())
        yield _one(f.BUILD_INFO, 1, f'version="{__version__}"')
        yield from _link(sources.link)


def _encode(pieces: list[str]) -> bytes:
    # A name with half a surrogate pair, which JSON can hold, must not end all metrics.
    return "".join(pieces).encode("utf-8", "replace")


def _row(throttler: RevisionThrottler, entry: Entry | None) -> _Row:
    revision = throttler.revision
    namespace, name = escape(revision.id.namespace), escape(revision.id.name)
    return _Row(
        throttler,
        entry,
        f'k8s_namespace_name="{namespace}",kn_revision_name="{name}"',
        f'kn_service_name="{escape(revision.service)}",'
        f'kn_configuration_name="{escape(revision.configuration)}",'
        f'kn_revision_name="{name}",k8s_namespace_name="{namespace}"',
    )


# -- one number per revision --------------------------------------------------------------------


def _gauge(
    family: Family,
    rows: Iterable[_Row],
    value: Callable[[RevisionThrottler], float],
    more: str = "",
) -> Iterator[str]:
    yield header(family)
    for row in rows:
        yield sample(family, row.labels + more, value(row.throttler))


def _queued(throttler: RevisionThrottler) -> int:
    return throttler.breaker.waiting


def _active(throttler: RevisionThrottler) -> int:
    return throttler.in_flight


def _waited(throttler: RevisionThrottler, now: float) -> float:
    oldest = throttler.breaker.oldest()
    return max(0.0, now - oldest.arrived) if oldest is not None else 0


def _capacity(throttler: RevisionThrottler) -> float:
    capacity = throttler.capacity()
    return inf if capacity == MAX_CAPACITY else capacity


def _pods(row: _Row) -> str:
    count = dict.fromkeys(STATES, 0)
    for pod in row.throttler.pods():
        count[pod.state] += 1
    return "".join(
        sample(f.PODS, f'{row.labels},state="{state.value}"', number)
        for state, number in count.items()
    )


# -- what is counted per revision ---------------------------------------------------------------


def _counts(rows: Iterable[_Row]) -> Iterator[str]:
    yield from _labelled(f.REQUESTS, rows, "outcome", lambda counters: counters.outcomes)
    yield from _labelled(f.REQUEUES, rows, "cause", lambda counters: counters.requeues)
    yield header(f.WAIT)
    text = HistogramText(f.WAIT)
    for row in rows:
        if row.entry is not None:
            yield text.render(row.labels, row.entry.counters.waits)


def _labelled(
    family: Family,
    rows: Iterable[_Row],
    label: str,
    counts: Callable[[RevisionCounters], Mapping[str, int]],
) -> Iterator[str]:
    yield header(family)
    for row in rows:
        if row.entry is not None:
            yield "".join(
                sample(family, f'{row.labels},{label}="{escape(word)}"', count)
                for word, count in counts(row.entry.counters).items()
            )


def _http(rows: Iterable[_Row]) -> Iterator[str]:
    for family, which in (
        (f.SERVER_DURATION, attrgetter("duration")),
        (f.SERVER_REQUEST_SIZE, attrgetter("request_size")),
        (f.SERVER_RESPONSE_SIZE, attrgetter("response_size")),
    ):
        yield from _histograms(family, rows, _server_kinds, which)
    for family, which in (
        (f.CLIENT_DURATION, attrgetter("duration")),
        (f.CLIENT_REQUEST_SIZE, attrgetter("request_size")),
    ):
        yield from _histograms(family, rows, _client_kinds, which)


#: A kind of request: whether its method is one of many, its labels, its counters.
_KindOf = tuple[bool, str, HttpCounters]


def _histograms(
    family: Family,
    rows: Iterable[_Row],
    kinds: Callable[[_Row, RevisionCounters], Iterator[_KindOf]],
    which: Callable[[HttpCounters], Histogram],
) -> Iterator[str]:
    yield header(family)
    text = HistogramText(family)
    for row in rows:
        if row.entry is None:
            continue
        others: dict[str, list[Histogram]] = {}
        for other, labels, counters in kinds(row, row.entry.counters):
            if other:
                others.setdefault(labels, []).append(which(counters))
            else:
                yield text.render(labels, which(counters))
        for labels, histograms in others.items():
            yield text.render(labels, merged(histograms))


def _server_kinds(row: _Row, counters: RevisionCounters) -> Iterator[_KindOf]:
    revision = row.throttler.revision.id
    # Knative puts the Host here, which clients choose; ours is one word per revision.
    address = escape(f"{revision.name}.{revision.namespace}")
    for (method, minor, status), record in list(counters.server.items()):
        labels = _http_labels(row, method, address, minor, status)
        yield method not in METHODS, labels, record


def _client_kinds(row: _Row, counters: RevisionCounters) -> Iterator[_KindOf]:
    for (pod, method, status), record in list(counters.client.items()):
        host, _, port = pod.rpartition(":")
        labels = _http_labels(row, method, escape(host.strip("[]")), 1, status)
        yield method not in METHODS, f'{labels},server_port="{escape(port)}"', record


def _http_labels(row: _Row, method: bytes, address: str, minor: int, status: int) -> str:
    return (
        f'{row.service_labels},http_request_method="{METHODS.get(method, OTHER_METHOD)}",'
        f'url_scheme="http",server_address="{address}",network_protocol_name="http",'
        f'network_protocol_version="1.{minor}",http_response_status_code="{status}",'
        f'otel_scope_name="{f.HTTP_SCOPE}"'
    )


# -- one number in all --------------------------------------------------------------------------


def _one(family: Family, value: float, labels: str = "") -> str:
    return header(family) + sample(family, labels, value)


def _link(link: Link | None) -> Iterator[str]:
    labels = f'peer="autoscaler",otel_scope_name="{f.ACTIVATOR_SCOPE}"'
    if link is not None and link.ever_connected:
        yield _one(f.CONN_REACHABLE, int(link.connected), labels)
    if link is not None:
        yield _one(f.CONN_ERRORS, link.connection_losses, labels)
