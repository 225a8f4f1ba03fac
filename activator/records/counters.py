"""Counts the requests of each revision, and values in histograms, with the bounds of each metric.

Requests count in plain numbers, from which telemetry makes metrics. An increment of a
prometheus-client child costs microseconds, and one of a list item a few tens of nanoseconds. The
module knows no metric names.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

#: Seconds in which nearly all requests are served: the first bound of durations.
SHORT: Final = 0.005
#: Seconds; the OpenTelemetry buckets for HTTP durations, as in Knative's activator.
#: The type has no fixed length: compiled code would make a new tuple for each call.
DURATION_BOUNDS: Final[tuple[float, ...]] = (
    *(SHORT, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1),
    *(2.5, 5, 7.5, 10),
)
#: Bytes; the OpenTelemetry SDK's default buckets.
SIZE_BOUNDS: Final[tuple[float, ...]] = (
    *(0, 5, 10, 25, 50, 75, 100, 250, 500, 750, 1000, 2500, 5000, 7500, 10000),
)
#: Seconds; up to the longest time-out that Knative allows by default, so that no cold start
#: disappears in the last bucket.
WAIT_BOUNDS: Final = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5),
    *(5, 10, 20, 30, 60, 120, 300, 600),
)
#: Seconds by which a timer may be late. The activator's own long steps end within 1 ms. 0.1 s is a
#: whole CFS period, in which a container without CPU quota left gets no CPU.
LAG_BOUNDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)


class Histogram:
    """Counts values by upper bound; the last count is for values above all bounds."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        """Count a value. A value below 0 counts as 0, such as the unknown size -1.

        Arguments:
            times: how many times to count the value.
        """
        if value <= 0:
            self.counts[0] += times
            return
        self.counts[bisect_left(self.bounds, value)] += times
        self.total += value * times


class HttpCounters:
    """Durations and sizes of requests of one kind (method, version, status …).

    Nearly all requests are short, and as large as the previous one. Plain numbers count such
    requests, and a read moves these numbers into the histograms.
    """

    __slots__ = (
        "_duration",
        "_last_request",
        "_last_request_count",
        "_last_response",
        "_last_response_count",
        "_request_size",
        "_response_size",
        "_short",
        "_short_seconds",
    )

    def __init__(self) -> None:
        self._duration = Histogram(DURATION_BOUNDS)
        self._request_size = Histogram(SIZE_BOUNDS)
        self._response_size = Histogram(SIZE_BOUNDS)
        self._short = 0  # the number of short requests, and the sum of their durations
        self._short_seconds = 0.0
        self._last_request = 0  # the last request's size, and how many in a row had it
        self._last_request_count = 0
        self._last_response = 0  # the same for responses
        self._last_response_count = 0

    @property
    def duration(self) -> Histogram:
        """Durations of requests in seconds."""
        self._duration.counts[0] += self._short
        self._duration.total += self._short_seconds
        self._short, self._short_seconds = 0, 0.0
        return self._duration

    @property
    def request_size(self) -> Histogram:
        """Bytes of request bodies."""
        self._request_size.observe(self._last_request, self._last_request_count)
        self._last_request_count = 0
        return self._request_size

    @property
    def response_size(self) -> Histogram:
        """Bytes of response bodies."""
        self._response_size.observe(self._last_response, self._last_response_count)
        self._last_response_count = 0
        return self._response_size

    def observe_head(self, seconds: float, request_size: int) -> None:
        """Count one request whose response has only begun; arguments as ``observe``."""
        if seconds <= SHORT:
            self._short += 1
            self._short_seconds += seconds
        else:
            self._duration.observe(seconds)
        if request_size != self._last_request:
            self._request_size.observe(self._last_request, self._last_request_count)
            self._last_request, self._last_request_count = request_size, 0
        self._last_request_count += 1

    def observe(self, seconds: float, request_size: int, response_size: int) -> None:
        """Count one request; sizes in bytes, -1 if unknown."""
        self.observe_head(seconds, request_size)
        if response_size != self._last_response:
            self._response_size.observe(self._last_response, self._last_response_count)
            self._last_response, self._last_response_count = response_size, 0
        self._last_response_count += 1


#: The outcomes of requests, for RevisionCounters.outcomes.
OUTCOMES: Final = (
    "served",
    "timed-out",
    "cancelled",
    "admitted",
    "queue-full",
    "tenant-full",
    "shed",
    "upstream-failed",
    "refused",
    "draining",
    "asleep",
    "denied",
    "not-authorized",
    "page",
    "wait-refused",
    "peek",
)
#: The causes of retries and requeues, for RevisionCounters.requeues. A connect failed (refused,
#: late, TLS). A kept connection, or a new one, ended without a response. queue-proxy returned the
#: request before the application had it, or lost its application during the request.
CAUSES: Final = (
    *("connect-failed", "connect-timeout", "tls-failed"),
    *("connection-closed", "connection-lost", "untouched", "application-lost"),
)


class RevisionCounters:
    """All counters of one revision.

    Attributes:
        server: requests of clients, by (method, HTTP/1 minor version, status).
        client: requests to pods, by (pod address, method, minor version, status).
        waits: seconds in the queue, of queued requests only.
        outcomes: ended requests by outcome, see OUTCOMES.
        requeues: retries and requeues by cause, see CAUSES.
        cold_starts: ended cold starts by outcome.
        early_heads: event streams that the activator began before a pod responded.
        waiting: requests that wait now, by mode (throttler.request_policies.WaitMode); not HOLD.
    """

    __slots__ = (
        "client",
        "cold_starts",
        "early_heads",
        "outcomes",
        "requeues",
        "server",
        "waiting",
        "waits",
    )

    def __init__(self) -> None:
        self.server: dict[tuple[bytes, int, int], HttpCounters] = {}
        self.client: dict[tuple[str, bytes, int, int], HttpCounters] = {}
        self.waits = Histogram(WAIT_BOUNDS)
        self.outcomes: dict[str, int] = dict.fromkeys(OUTCOMES, 0)
        self.requeues: dict[str, int] = {}
        self.cold_starts: dict[str, int] = {}
        self.early_heads = 0
        self.waiting: dict[str, int] = {}

    def server_of(self, key: tuple[bytes, int, int]) -> HttpCounters:
        """Return the counters of clients' requests of a kind, a key of ``server``."""
        counters = self.server.get(key)
        if counters is None:
            counters = self.server[key] = HttpCounters()
        return counters

    def client_of(self, key: tuple[str, bytes, int, int]) -> HttpCounters:
        """Return the counters of requests to pods of a kind, a key of ``client``."""
        counters = self.client.get(key)
        if counters is None:
            counters = self.client[key] = HttpCounters()
        return counters

    def responded(
        self, key: tuple[str, bytes, int, int], seconds: float, request_size: int
    ) -> None:
        """Count the beginning of a pod's response.

        Arguments:
            key: a key of ``client``.
            seconds: since the request was sent; request_size: bytes of its body, -1 if unknown.
        """
        counters = self.client.get(key)  # without a call: each request comes here
        if counters is None:
            counters = self.client_of(key)
        counters.observe_head(seconds, request_size)

    def ended(
        self,
        key: tuple[bytes, int, int],
        outcome: str,
        seconds: float,
        request_size: int,
        response_size: int,
    ) -> None:
        """Count the end of a request.

        Arguments:
            key: a key of ``server``.
            outcome: one of OUTCOMES; seconds: since the request's arrival.
            request_size, response_size: bytes of the bodies, -1 if unknown.
        """
        self.outcomes[outcome] += 1
        counters = self.server.get(key)  # without a call, as above
        if counters is None:
            counters = self.server_of(key)
        counters.observe(seconds, request_size, response_size)

    def requeued(self, cause: str) -> None:
        """Count a retry or a requeue; ``cause`` is one of CAUSES."""
        self.requeues[cause] = self.requeues.get(cause, 0) + 1

    def remove_pod(self, address: str) -> None:
        """Remove the counters of a pod that is gone, so that the number of series stays bounded."""
        for key in [key for key in self.client if key[0] == address]:
            del self.client[key]
