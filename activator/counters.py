"""What is counted per revision, as plain integers: telemetry turns them into metrics on demand.

An increment of a prometheus-client child costs microseconds; a list item a few tens of
nanoseconds. Knows neither metric names nor HTTP.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

#: Seconds; the OpenTelemetry buckets for HTTP durations, as Knative's activator has them.
DURATION_BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
#: The first of them: nearly all requests take less.
_SHORT: Final = DURATION_BOUNDS[0]
#: Bytes; the OpenTelemetry SDK's default buckets.
SIZE_BOUNDS: Final = (0, 5, 10, 25, 50, 75, 100, 250, 500, 750, 1000, 2500, 5000, 7500, 10000)
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

    def observe(self, value: float) -> None:
        """Count one value; one that is not above 0 (a size of -1 is unknown) counts as 0."""
        if value <= 0:
            self.counts[0] += 1
            return
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class HttpCounters:
    """Requests of one kind (method, version, status …): durations and sizes."""

    __slots__ = ("duration", "request_size", "response_size")

    def __init__(self) -> None:
        self.duration = Histogram(DURATION_BOUNDS)
        self.request_size = Histogram(SIZE_BOUNDS)
        self.response_size = Histogram(SIZE_BOUNDS)

    def observe_head(self, seconds: float, request_size: int) -> None:
        """Count one request whose response has only begun; as ``observe``."""
        duration, requests = self.duration, self.request_size
        if seconds <= _SHORT:  # nearly all are: one comparison in place of four
            duration.counts[0] += 1
        else:
            duration.counts[bisect_left(DURATION_BOUNDS, seconds)] += 1
        duration.total += seconds
        if request_size > 0:
            requests.counts[bisect_left(SIZE_BOUNDS, request_size)] += 1
            requests.total += request_size
        else:
            requests.counts[0] += 1

    def observe(self, seconds: float, request_size: int, response_size: int) -> None:
        """Count one request; sizes in bytes, -1 if unknown. Histogram.observe, without its calls:
        each request pays it."""
        self.observe_head(seconds, request_size)
        responses = self.response_size
        responses.counts[bisect_left(SIZE_BOUNDS, response_size)] += 1
        responses.total += response_size


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
        wake_ups: by outcome, wake-ups that have ended.
    """

    __slots__ = ("client", "outcomes", "requeues", "server", "waits", "wake_ups")

    def __init__(self) -> None:
        self.server: dict[tuple[bytes, int, int], HttpCounters] = {}
        self.client: dict[tuple[str, bytes, int, int], HttpCounters] = {}
        self.waits = Histogram(WAIT_BOUNDS)
        self.outcomes: dict[str, int] = dict.fromkeys(OUTCOMES, 0)
        self.requeues: dict[str, int] = {}
        self.wake_ups: dict[str, int] = {}

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
