"""What is counted per revision, as plain integers: telemetry turns them into metrics on demand.

An increment of a prometheus-client child costs microseconds; a list item a few tens of
nanoseconds. Knows neither metric names nor HTTP.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

#: Seconds in which nearly all requests are served: the first bound of durations.
_SHORT: Final = 0.005
#: Seconds; the OpenTelemetry buckets for HTTP durations, as Knative's activator has them.
#: Not a tuple of 14 by its type: compiled code would make a new one for each call.
DURATION_BOUNDS: Final[tuple[float, ...]] = (
    *(_SHORT, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1),
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
#: Seconds by which a timer may come late. What holds the loop here on purpose ends within 1 ms;
#: 0.1 s is a whole CFS period, in which a container that has used up its share gets no CPU.
LAG_BOUNDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)


class Histogram:
    """Counts of values by upper bound; the last count is of those above all bounds."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        """Count one value; one that is not above 0 (a size of -1 is unknown) counts as 0.

        Arguments:
            times: how often the value came.
        """
        if value <= 0:
            self.counts[0] += times
            return
        self.counts[bisect_left(self.bounds, value)] += times
        self.total += value * times


class HttpCounters:
    """Requests of one kind (method, version, status …): durations and sizes.

    Nearly all requests are short, and as large as the one before. Those are counted by plain
    numbers, which the histograms take over when they are read.
    """

    __slots__ = (
        "_asked",
        "_asked_alike",
        "_duration",
        "_request_size",
        "_responded",
        "_responded_alike",
        "_response_size",
        "_short",
        "_short_seconds",
    )

    def __init__(self) -> None:
        self._duration = Histogram(DURATION_BOUNDS)
        self._request_size = Histogram(SIZE_BOUNDS)
        self._response_size = Histogram(SIZE_BOUNDS)
        self._short = 0  # how many were short, and how long they took together
        self._short_seconds = 0.0
        self._asked = 0  # the last request's size, and how many in a row had it
        self._asked_alike = 0
        self._responded = 0  # the same of responses
        self._responded_alike = 0

    @property
    def duration(self) -> Histogram:
        """Seconds that requests took."""
        self._duration.counts[0] += self._short
        self._duration.total += self._short_seconds
        self._short, self._short_seconds = 0, 0.0
        return self._duration

    @property
    def request_size(self) -> Histogram:
        """Bytes of requests' bodies."""
        self._request_size.observe(self._asked, self._asked_alike)
        self._asked_alike = 0
        return self._request_size

    @property
    def response_size(self) -> Histogram:
        """Bytes of responses' bodies."""
        self._response_size.observe(self._responded, self._responded_alike)
        self._responded_alike = 0
        return self._response_size

    def observe_head(self, seconds: float, request_size: int) -> None:
        """Count one request whose response has only begun; as ``observe``."""
        if seconds <= _SHORT:
            self._short += 1
            self._short_seconds += seconds
        else:
            self._duration.observe(seconds)
        if request_size != self._asked:
            self._request_size.observe(self._asked, self._asked_alike)
            self._asked, self._asked_alike = request_size, 0
        self._asked_alike += 1

    def observe(self, seconds: float, request_size: int, response_size: int) -> None:
        """Count one request; sizes in bytes, -1 if unknown."""
        self.observe_head(seconds, request_size)
        if response_size != self._responded:
            self._response_size.observe(self._responded, self._responded_alike)
            self._responded, self._responded_alike = response_size, 0
        self._responded_alike += 1


#: How a request can end, for RevisionCounters.outcomes.
OUTCOMES: Final = (
    "served",
    "timed-out",
    "cancelled",
    "queue-full",
    "shed",
    "upstream-failed",
    "draining",
)


#: Why a request was given to a pod once more, for RevisionCounters.requeues: no connection came
#: about (refused, late, TLS), one that was kept or a new one ended without an answer, or
#: queue-proxy gave it back untouched by its application, or lost its application with it.
CAUSES: Final = (
    *("connect-failed", "connect-timeout", "tls-failed"),
    *("connection-closed", "connection-lost", "untouched", "application-lost"),
)


class RevisionCounters:
    """All that is counted for one revision.

    Attributes:
        server: by (method, HTTP/1 minor version, status), what clients asked of us.
        client: by (pod address, method, minor version, status), what we asked of pods.
        waits: seconds that requests were queued, only of those that were.
        outcomes: ends of requests, see OUTCOMES.
        requeues: by cause, see CAUSES, how often requests were given to a pod once more.
        cold_starts: by outcome, wake-ups that have ended.
    """

    __slots__ = ("client", "cold_starts", "outcomes", "requeues", "server", "waits")

    def __init__(self) -> None:
        self.server: dict[tuple[bytes, int, int], HttpCounters] = {}
        self.client: dict[tuple[str, bytes, int, int], HttpCounters] = {}
        self.waits = Histogram(WAIT_BOUNDS)
        self.outcomes: dict[str, int] = dict.fromkeys(OUTCOMES, 0)
        self.requeues: dict[str, int] = {}
        self.cold_starts: dict[str, int] = {}

    def server_of(self, key: tuple[bytes, int, int]) -> HttpCounters:
        """Return the counters for requests of this kind."""
        counters = self.server.get(key)
        if counters is None:
            counters = self.server[key] = HttpCounters()
        return counters

    def client_of(self, key: tuple[str, bytes, int, int]) -> HttpCounters:
        """Return the counters for requests to pods of this kind."""
        counters = self.client.get(key)
        if counters is None:
            counters = self.client[key] = HttpCounters()
        return counters

    def responded(
        self, key: tuple[str, bytes, int, int], seconds: float, request_size: int
    ) -> None:
        """Count the beginning of a pod's response; the key is that of ``client``.

        Arguments:
            seconds: since the request was sent; request_size: bytes of its body, -1 if unknown.
        """
        counters = self.client.get(key)
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
        """Count the end of a request; the key is that of ``server``.

        Arguments:
            outcome: one of OUTCOMES; seconds: since the request came.
            request_size, response_size: bytes of the bodies, -1 if unknown.
        """
        self.outcomes[outcome] += 1
        counters = self.server.get(key)
        if counters is None:
            counters = self.server_of(key)
        counters.observe(seconds, request_size, response_size)

    def requeued(self, cause: str) -> None:
        """Count a request that is given to a pod once more."""
        self.requeues[cause] = self.requeues.get(cause, 0) + 1

    def forget_pod(self, address: str) -> None:
        """Drop what is counted of a pod that is no more: series must not pile up."""
        for key in [key for key in self.client if key[0] == address]:
            del self.client[key]
