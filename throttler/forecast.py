"""How long a request would wait, from what was seen: how long starts and turnovers took.

A *start* is the time from the first request that finds no pod listed until one may be used. A
*turnover* is the time in which as many waiters get a pod as requests run: by Little's law the time
for which a request keeps its place. So the forecast follows the number of places by itself when
pods come and go. Of both the lower median of a few is believed: one pull of a large image is not
what the next start costs, and a wrong forecast is overruled by the next few. Knows no clock.
Knative has no counterpart: it sends no ``Retry-After``, and refuses nobody.
"""

from __future__ import annotations

from math import ceil
from typing import Final, NamedTuple

from throttler.errors import WaitTooLong
from throttler.ticket import Ticket

#: So many starts are remembered; the eighth that differs is believed.
STARTS: Final = 15
#: So many turnovers; the third that differs is believed.
TURNOVERS: Final = 5
#: Seconds for which a start goes on after its only request has left: the autoscaler wants a pod
#: for so long (Knative: stable-window of config-autoscaler). Later it is another start.
SAME_START: Final = 60.0

#: Seconds to stay away where nothing is known. It is a start as a rule, which takes some seconds;
#: who asks again sooner finds the same, and a full queue would be asked by all whom it refused.
UNKNOWN: Final = 5.0
#: Seconds; a longer wait is no forecast that anybody should plan by.
LONGEST_RETRY: Final = 100.0
#: A client is told up to this part more or less, so that those refused together return apart.
JITTER: Final = 0.2


class RecentMedian:
    """The lower median of the last few values; None before the first."""

    __slots__ = ("_size", "_values", "median")

    def __init__(self, size: int) -> None:
        self.median: float | None = None
        self._values: list[float] = []
        self._size = size

    def add(self, value: float) -> None:
        """Take one more value, for the oldest if there are enough; bounded by the size."""
        self._values.append(value)
        if len(self._values) > self._size:
            del self._values[0]
        self.median = sorted(self._values)[(len(self._values) - 1) // 2]


class Demand(NamedTuple):
    """What a forecast needs to know of a revision at one moment.

    Attributes:
        waiting: requests that wait; in_flight: requests that pods have.
        limit: requests that a pod may have at a time; 0 for no limit.
        listed: whether Kubernetes lists a pod.
        in_doubt: whether the pods that could be used are lost for a moment, or half-open.
        asleep: whether a request waits for a pod to start.
    """

    waiting: int
    in_flight: int
    limit: int
    listed: bool
    recovering: bool
    awaits_start: bool


class Forecast:
    """What is known of one revision's starts and turnovers, and what follows from it.

    Each method costs O(1), and is called for requests that wait or are refused, never for one
    that finds room. ``now`` is in seconds of the caller's clock.

    Attributes:
        starts, turnovers: what was seen, seconds.
    """

    __slots__ = (
        "_dispatched",
        "_emptied_at",
        "_round_began",
        "_start_began",
        "starts",
        "turnovers",
    )

    def __init__(self) -> None:
        self.starts = RecentMedian(STARTS)
        self.turnovers = RecentMedian(TURNOVERS)
        self._start_began: float | None = None
        self._emptied_at: float | None = (
            None  # the last who waited for it; None while somebody does
        )
        self._round_began = 0.0
        self._dispatched = 0

    # -- what happens ---------------------------------------------------------------------------

    def queue_began(self, now: float, *, listed: bool) -> None:
        """Take that a request waits and nobody did before it.

        Where no pod is listed a start begins, unless one is under way, whose first client has
        left.

        Arguments:
            listed: whether Kubernetes lists a pod.
        """
        self._begin_round(now)
        under_way = self._under_way(now)
        if under_way is not None or not listed:
            self._start_began = now if under_way is None else under_way
            self._emptied_at = None

    def queue_emptied(self, now: float) -> None:
        """Take that the last who waited has left without a pod."""
        self._emptied_at = now

    def pod_became_usable(self, now: float) -> None:
        """Take that there is a pod to use, and was none.

        Where everybody has left a moment ago it is the pod that they called for, so what it took
        counts. Much later it has nothing to do with them.
        """
        if (began := self._under_way(now)) is not None:
            self.starts.add(now - began)
        self._start_began = None
        self._begin_round(now)

    def _under_way(self, now: float) -> float | None:
        """Return when the start that is under way began; None if none is."""
        if self._emptied_at is not None and now - self._emptied_at > SAME_START:
            return None
        return self._start_began

    def slot_reused(self, in_flight: int, now: float) -> None:
        """Take that a waiter gets the place of a request that ended: this is what drains a queue.

        A round ends when as many waiters have got one as requests run. In a shorter piece of it,
        requests that end all at once would pass for a queue that drains in no time.

        Arguments:
            in_flight: requests that pods have, without the one that takes the place.
        """
        self._dispatched += 1
        if self._dispatched > in_flight:
            self.turnovers.add(now - self._round_began)
            self._begin_round(now)

    def _begin_round(self, now: float) -> None:
        self._round_began = now
        self._dispatched = 0

    # -- what follows ---------------------------------------------------------------------------

    def check(self, ticket: Ticket, demand: Demand, now: float) -> None:
        """Refuse a request that would wait in vain.

        As many as run at a time, or one, may wait in any case: thus the next turnover, or start,
        is seen, and a wrong forecast is overruled.

        Raises:
            WaitTooLong: it would wait beyond its deadline.
        """
        expected = self.expected_wait(demand, now)
        if expected is None or demand.waiting < max(demand.in_flight, 1):
            return
        left = ticket.deadline - now
        if expected > left:
            raise WaitTooLong(expected, left)

    def expected_wait(self, demand: Demand, now: float) -> float | None:
        """Return how long a request that finds no room now would wait.

        Clients ahead of it that will have left by then are not foreseen.

        Returns:
            Seconds; None if nothing like it was seen yet, or nobody can know.
        """
        position = demand.waiting + 1
        if demand.recovering:
            return None
        if demand.awaits_start:
            return self._start(position, demand, now)
        if not demand.limit:
            return 0.0  # pods are given more at a time until all are served, see slow_start
        turnover = self.turnovers.median
        if turnover is None:
            return None
        if position > 1:  # somebody waits, so a round is under way; it has taken so long already
            turnover = max(turnover, now - self._round_began)
        return position * turnover / max(demand.in_flight, 1)

    def _start(self, position: int, demand: Demand, now: float) -> float | None:
        """Return how long the start will take yet, and the queue that its first pod leaves.

        One that is overdue is expected to take as long again as it is overdue. Nobody knows how
        far a pod is whose start no request has called for.
        """
        limit, start, began = demand.limit, self.starts.median, self._under_way(now)
        if start is None or (began is None and demand.listed):
            return None
        left = start if began is None else abs(start - (now - began))
        turnover = self.turnovers.median
        if not limit or turnover is None or position <= limit:
            return left
        return left + (position - limit) * turnover / limit


def retry_after(expected: float | None, luck: float) -> int:
    """Return what ``Retry-After`` says to a client (RFC 9110 section 10.2.3).

    Arguments:
        expected: seconds that a request would wait; None if that is not known.
        luck: in [0, 1), random, for the jitter.

    Returns:
        Whole seconds, 1 to 120.
    """
    seconds = UNKNOWN if expected is None else min(expected, LONGEST_RETRY)
    return max(ceil(seconds * (1 - JITTER + 2 * JITTER * luck)), 1)
