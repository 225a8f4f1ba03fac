"""Keeps the load of one workload over the last minute, in buckets of one second.

Knative's counterpart: pkg/autoscaler/aggregation/bucketing.go. Unlike there, a second without a
report counts as a second without load: activators stop to report an idle service.
"""

from __future__ import annotations

from array import array
from itertools import pairwise
from typing import Final, final

#: Seconds of the stable window (Knative: stable-window).
STABLE: Final = 60
#: Seconds of the panic window: 10 % of the stable one (Knative: panic-window-percentage).
PANIC: Final = 6
#: Loads are summed as integers of this unit, so that no error adds up. Knative rounds alike.
_UNIT: Final = 1_000_000

#: An array takes a quarter of the memory of a list of integers.
_NO_LOAD: Final = array("q", (0,) * STABLE)


@final
class LoadWindow:
    """The load of one workload: concurrent requests, summed over all activators.

    A new window is empty: averages are over the seconds since the first load. A window that has
    been empty for ``STABLE`` seconds is new again.
    """

    __slots__ = ("_buckets", "_first", "_last", "_total")

    def __init__(self) -> None:
        self._buckets = _NO_LOAD[:]
        self._first = self._last = 0
        self._total = 0

    def record(self, second: int, load: float, instead_of: float = 0.0) -> None:
        """Add a load to one second, or replace one.

        Arguments:
            second: the time, rounded down. A second before the window is ignored.
            load: mean concurrent requests during that second, as one activator reports it.
            instead_of: an earlier load of the same second, which is at most as large.
        """
        amount = round(load * _UNIT) - round(instead_of * _UNIT)
        if amount <= 0 or second <= self._last - STABLE:
            return
        self._advance(second)
        if not self._total or second < self._first:
            self._first = second
        self._buckets[second % STABLE] += amount
        self._total += amount

    def averages(self, second: int) -> tuple[float, float]:
        """Return the mean load of the stable window, and of the panic window.

        Arguments:
            second: the last second that counts; not before a second of an earlier call.
        """
        self._advance(second)
        if not self._total:
            return 0.0, 0.0
        age = second - self._first + 1
        buckets, at = self._buckets, second % STABLE
        if at >= PANIC - 1:
            latest = sum(buckets[at - PANIC + 1 : at + 1])
        else:
            latest = sum(buckets[: at + 1]) + sum(buckets[at - PANIC + 1 :])
        return (
            self._total / (_UNIT * min(age, STABLE)),
            latest / (_UNIT * min(age, PANIC)),
        )

    def peak(self, second: int, seconds: int) -> float:
        """Return the largest load of the last seconds, as the mean of two seconds in a row.

        One second alone may have two reports of the same activator, and the next one none.

        Arguments:
            second: as for ``averages``.
            seconds: how many count; at most ``STABLE``.
        """
        self._advance(second)
        if not self._total:
            return 0.0
        loads = [self._buckets[each % STABLE] for each in range(second - seconds + 1, second + 1)]
        return max(map(sum, pairwise(loads)), default=0) / (2 * _UNIT)

    def _advance(self, second: int) -> None:
        """Empty the buckets of the seconds that have passed."""
        passed, self._last = second - self._last, max(second, self._last)
        if passed <= 0 or not self._total:
            return
        buckets = self._buckets
        for each in range(second - min(passed, STABLE) + 1, second + 1):
            at = each % STABLE
            self._total -= buckets[at]
            buckets[at] = 0
