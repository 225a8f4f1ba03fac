"""How long a request would wait, by the recent starts and turnovers of its revision.

A *start* is the time from the first request without a listed pod until a pod is usable. In a
*turnover*, as many queued requests get a pod as requests are in flight. By Little's law, that
is the time for which a request keeps its slot. So the forecast follows the number of slots when
pods come and go. Each forecast uses the lower median of a few values. So one pull of a large
image does not count as the next start, and a few new values correct a wrong forecast. Knows no
clock. Knative has no counterpart: it sends no ``Retry-After``, and refuses no request early.
"""

from __future__ import annotations

from math import ceil
from typing import Final, NamedTuple

from throttler.errors import WaitTooLong
from throttler.ticket import Ticket

#: Number of starts in the median; the eighth different one changes it.
STARTS: Final = 15
#: Number of turnovers in the median; the third different one changes it.
TURNOVERS: Final = 5
#: Seconds for which a start continues after its only request has left. The autoscaler keeps the pod
#: for so long (Knative: stable-window of config-autoscaler). A later request begins another start.
SAME_START: Final = 60.0
#: Seconds of ``Retry-After`` without a forecast. Usually a start is in progress, which takes some
#: seconds. Clients that retry sooner find the same state, and would fill the queue with retries.
UNKNOWN: Final = 5.0
#: Seconds; a forecast of a longer wait is too uncertain.
LONGEST_RETRY: Final = 100.0
#: ``Retry-After`` varies by up to this part, so that clients refused together return apart.
JITTER: Final = 0.2


class RecentMedian:
    """The lower median of the last few values; None before the first.

    Arguments:
        size: number of values.
    """

    __slots__ = ("_size", "median", "values")

    def __init__(self, size: int) -> None:
        self.median: float | None = None
        self.values: list[float] = []
        self._size = size

    def add(self, value: float) -> None:
        """Add a value; it replaces the oldest if there are enough."""
        self.values.append(value)
        if len(self.values) > self._size:
            del self.values[0]
        self.median = sorted(self.values)[(len(self.values) - 1) // 2]


class Demand(NamedTuple):
    """The state of a revision that a forecast uses.

    Attributes:
        waiting: queued requests; in_flight: requests in flight.
        limit: limit of requests in flight at one pod; 0 for no limit.
        listed: whether Kubernetes lists a pod.
        recovering: whether usable pods are expected back soon, see Backends.
        awaits_start: whether a request would wait for a pod to start.
    """

    waiting: int
    in_flight: int
    limit: int
    listed: bool
    recovering: bool
    awaits_start: bool


class Forecast:
    """The recent starts and turnovers of one revision, and forecasts from them.

    Each method costs O(1). The throttler calls them for queued and refused requests, never for a
    request that gets a pod at once. ``now`` is in seconds of the caller's clock.

    Attributes:
        starts, turnovers: the recent times, seconds.
        successes: how often a pod became usable while none was.
    """

    def __init__(self) -> None:
        self.starts = RecentMedian(STARTS)
        self.turnovers = RecentMedian(TURNOVERS)
        self.successes = 0
        self._start_began: float | None = None
        # When the last queued request left; None while one is queued.
        self._emptied_at: float | None = None
        self._round_began = 0.0
        self._dispatched = 0

    # -- events ---------------------------------------------------------------------------------

    def queue_began(self, now: float, *, listed: bool) -> None:
        """Record that a request is queued and none was before.

        Without a listed pod, a start begins, unless one is in progress whose first client has left.

        Arguments:
            listed: whether Kubernetes lists a pod.
        """
        self._begin_round(now)
        in_progress = self._start_in_progress(now)
        if in_progress is not None or not listed:
            self._start_began = now if in_progress is None else in_progress
            self._emptied_at = None

    def queue_emptied(self, now: float) -> None:
        """Record that the last queued request has left without a pod."""
        self._emptied_at = now

    def clients_return(self, now: float) -> None:
        """Record that clients are expected back, so that a start in progress continues for them."""
        if self._start_in_progress(now) is not None and self._emptied_at is not None:
            self._emptied_at = now

    def pod_became_usable(self, now: float) -> None:
        """Record that a pod is usable and none was before.

        If the queued requests left only a moment ago, they caused this start, so its time counts.
        Much later, the start had another cause.
        """
        if (took := self.starting(now)) is not None:
            self.starts.add(took)
        self._start_began = None
        self.successes += 1
        self._begin_round(now)

    def starting(self, now: float) -> float | None:
        """Return for how many seconds the start in progress lasts; None if none is in progress."""
        began = self._start_in_progress(now)
        return None if began is None else now - began

    def is_late(self, now: float) -> bool:
        """Return whether the start in progress takes longer than usual."""
        usual, took = self.starts.median, self.starting(now)
        return usual is not None and took is not None and took > usual

    def _start_in_progress(self, now: float) -> float | None:
        """Return when the start in progress began; None if none is in progress."""
        if self._emptied_at is not None and now - self._emptied_at > SAME_START:
            return None
        return self._start_began

    def slot_reused(self, in_flight: int, now: float) -> None:
        """Record that a queued request gets the slot of a request that ended.

        A round ends when as many queued requests have got a slot as requests are in flight. In a
        shorter round, requests that end together would look like a queue that drains in no time.

        Arguments:
            in_flight: requests in flight, without the one that gets the slot.
        """
        self._dispatched += 1
        if self._dispatched > in_flight:
            self.turnovers.add(now - self._round_began)
            self._begin_round(now)

    def _begin_round(self, now: float) -> None:
        self._round_began = now
        self._dispatched = 0

    # -- forecasts ------------------------------------------------------------------------------

    def check(self, ticket: Ticket, demand: Demand, now: float) -> None:
        """Refuse a request that would expire in the queue.

        Some requests may always wait: as many as are in flight, or one. So the next turnover or
        start is measured, and corrects a wrong forecast.

        Raises:
            WaitTooLong: the expected wait exceeds the deadline.
        """
        expected = self.expected_wait(demand, now)
        if expected is None or demand.waiting < max(demand.in_flight, 1):
            return
        left = ticket.deadline - now
        if expected > left:
            raise WaitTooLong(expected, left)

    def expected_wait(self, demand: Demand, now: float) -> float | None:
        """Return how long a request that arrives now would wait.

        Ignores that clients ahead of it may leave.

        Returns:
            Seconds; None without a similar value, or if no forecast is possible.
        """
        position = demand.waiting + 1
        if demand.recovering:
            return None
        if demand.awaits_start:
            return self._start_wait(position, demand, now)
        if not demand.limit:
            return 0.0  # slow start raises the limits until all have a pod
        turnover = self.turnovers.median
        if turnover is None:
            return None
        if position > 1:  # a round is in progress; it has taken so long already
            turnover = max(turnover, now - self._round_began)
        return position * turnover / max(demand.in_flight, 1)

    def _start_wait(self, position: int, demand: Demand, now: float) -> float | None:
        """Return the seconds until the start ends, plus the wait for the first pod's queue.

        A start that is overdue is expected to take as long again as it is overdue. There is no
        forecast for a start that no request caused, since its beginning is unknown.
        """
        limit, start, took = demand.limit, self.starts.median, self.starting(now)
        if start is None or (took is None and demand.listed):
            return None
        left = start if took is None else abs(start - took)
        turnover = self.turnovers.median
        if not limit or turnover is None or position <= limit:
            return left
        return left + (position - limit) * turnover / limit


def retry_after(expected: float | None, chance: float) -> int:
    """Return the value of ``Retry-After`` for a client (RFC 9110 section 10.2.3).

    Arguments:
        expected: expected wait, seconds; None if unknown.
        chance: random number in [0, 1), for the jitter.

    Returns:
        Whole seconds, 1 to 120.
    """
    seconds = UNKNOWN if expected is None else min(expected, LONGEST_RETRY)
    return max(ceil(seconds * (1 - JITTER + 2 * JITTER * chance)), 1)
