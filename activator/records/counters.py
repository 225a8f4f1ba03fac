"""Counts values in histograms, with the bounds of each metric.

An increment of a prometheus-client child costs microseconds, and one of a list item a few tens of
nanoseconds. The module knows no metric names.
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
