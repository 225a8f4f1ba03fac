"""The limit of requests in flight at one pod, by the times to the first byte of its responses.

A window of responses has a median. A median above the usual time shows that the pod has more
requests than it can process. Then the limit falls by the ratio of the two. Otherwise the limit
rises while it is reached. Knows no pods and no queue. Sources: Gradient2Limit of Netflix's
concurrency-limits; Envoy's adaptive concurrency filter. Both reject requests beyond the limit; here
they wait.
"""

from __future__ import annotations

from typing import Final, final

from throttler.capacity import SLOW_START

#: Least seconds, and least responses, of one window.
WINDOW = 0.1
SAMPLES = 10
#: Responses of a window whose times are kept; more do not change a median much.
_MOST_SAMPLES: Final = 1000
#: Windows of the long average.
LONG_WINDOWS: Final = 600
#: Windows at the start whose plain mean is the long average (Gradient2: 10).
_WARM_UP: Final = 10
#: A slow window of a full pod counts only by this part. Otherwise a long overload would make its
#: slow responses the usual ones, and the limit would rise until the pod collapses.
_SLOW_WEIGHT: Final = 0.1
#: If half of the requests leave more than this part of a slow median, requests are not the cause.
#: Then the median is the usual time from now on.
_SAME: Final = 0.8
#: A median up to so many times the long average is usual (Gradient2: 1.5).
TOLERANCE: Final = 1.5
#: The lowest gradient: the limit at most halves. Also the gradient of an error response.
LOWEST: Final = 0.5
#: Requests that may wait inside a pod. The limit rises by so many.
ALLOWANCE = 4
#: The lowest and the highest limit.
MIN_LIMIT = 4
MAX_LIMIT: Final = 1000


@final
class Gradient:
    """The limit of one pod, and the responses of the current window.

    Attributes:
        limit: requests in flight that the pod may have.
        usual: the long average of the medians, seconds; 0 before the first window.
        changed_at: when the limit changed. Responses to earlier requests say nothing about it.
        blind_raises: how often in a row the limit has doubled without evidence, see ``double``.
        doubles: whether the limit doubles while it is reached, as at the start; later it rises by
            ``ALLOWANCE``.
    """

    __slots__ = (
        "_beside",
        "_early",
        "_fell_from",
        "_full",
        "_samples",
        "_since",
        "_windows",
        "blind_raises",
        "changed_at",
        "doubles",
        "limit",
        "usual",
    )

    def __init__(self, limit: int, now: float) -> None:
        self.limit = min(max(limit, MIN_LIMIT), MAX_LIMIT)
        self.usual = 0.0
        self.changed_at = now
        self.doubles = True
        self.blind_raises = 0
        self._windows = 0
        self._samples: list[float] = []
        self._since = now
        self._beside = 0  # the most requests that a request of the window had beside it
        self._full = False  # whether the limit was reached in the window
        self._early = False  # whether the window has a response to a request before ``changed_at``
        # Requests in flight, and the slow median, before a row of slow windows lowered the limit.
        self._fell_from: tuple[int, float] | None = None

    @property
    def in_window(self) -> bool:
        """Whether a window has begun."""
        return bool(self._samples)

    def responded(
        self, assigned: float, seconds: float, in_flight: int, beside: int, now: float
    ) -> None:
        """Record a response; O(1), except for the last one of a window.

        The first window may have responses to earlier requests as well. They show the usual time,
        but not that the pod can process more requests.

        Arguments:
            assigned: when the pod got the request.
            seconds: from then to the first byte of the response.
            in_flight: requests in flight at the pod, with this one.
            beside: the same when the pod got it. They made the response slow, not later ones.
            now: seconds.
        """
        if assigned < self.changed_at and self.usual:
            return
        samples, since = self._samples, self._since
        if not samples:
            since = self._since = now
            self._beside = 0
            self._full = self._early = False
        if assigned < self.changed_at:
            self._early = True
        if in_flight >= self.limit:
            self._full = True
        if beside > self._beside:
            self._beside = beside
        if len(samples) < _MOST_SAMPLES:
            samples.append(seconds)
        if now - since >= WINDOW and len(samples) >= SAMPLES:
            samples.sort()
            self._end_window(samples[len(samples) // 2], now, early=self._early)

    def failed(self, assigned: float, in_flight: int, now: float) -> None:
        """Record an error response, or a reset, as ``responded``; an idle pod's does not count."""
        if assigned >= self.changed_at and 2 * in_flight >= self.limit:
            self.doubles = False
            self._set(LOWEST * self.limit + ALLOWANCE, now)

    def release(self, now: float) -> None:
        """Let the limit rise quickly again, because no request has waited for long."""
        self.doubles = True
        self._set(max(self.limit, SLOW_START), now)

    def double(self, now: float, *, blind: bool) -> None:
        """Double the limit, which no window has measured.

        Arguments:
            now: seconds.
            blind: whether nothing shows that the pod can process more requests.
        """
        self.blind_raises = self.blind_raises + 1 if blind else 0
        samples = self._samples
        self._set(2 * self.limit, now)
        self._samples = samples

    def _end_window(self, median: float, now: float, *, early: bool) -> None:
        self._samples = []
        full = self._full
        gradient = self._gradient(median)
        if gradient < 1.0 and self._has_other_cause(median):
            self.usual, gradient = median, 1.0
            self.doubles = True
        self._learn(median, slow=gradient < 1.0 or (full and median > self.usual))
        if gradient == 1.0:
            self._fell_from = None
            if full and not early:
                self._set(2 * self.limit if self.doubles else self.limit + ALLOWANCE, now)
        elif full or 2 * self._beside >= self.limit:
            self.doubles = False
            self._fell_from = self._fell_from or (self._beside, median)
            self._set(gradient * self.limit + ALLOWANCE, now)

    def _gradient(self, median: float) -> float:
        if not self.usual or median <= TOLERANCE * self.usual:
            return 1.0
        return max(LOWEST, TOLERANCE * self.usual / median)

    def _has_other_cause(self, median: float) -> bool:
        """Return whether responses are as slow with half of the requests as they were before."""
        if self._fell_from is None:
            return False
        in_flight, before = self._fell_from
        return 2 * self._beside <= in_flight + 2 * ALLOWANCE and median > _SAME * before

    def _learn(self, median: float, *, slow: bool) -> None:
        """Add a window to the long average."""
        self._windows += 1
        weight = 2.0 / (LONG_WINDOWS + 1)
        if not self.usual:
            weight = 1.0
        elif slow:
            weight *= _SLOW_WEIGHT
        elif self._windows <= _WARM_UP:
            weight = 1.0 / self._windows
        elif self.usual > 2.0 * median:
            weight = 0.05  # the pod has become faster (Gradient2: the same)
        self.usual += weight * (median - self.usual)

    def _set(self, limit: float, now: float) -> None:
        whole = min(max(int(limit), MIN_LIMIT), MAX_LIMIT)
        if whole != self.limit:
            self.limit = whole
            self.changed_at = now
            self._samples = []
