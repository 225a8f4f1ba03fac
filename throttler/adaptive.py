"""Adaptive concurrency: limits for pods without containerConcurrency, by their response times.

Joins the policy that picks pods with one ``Gradient`` for each pod. Requests beyond a limit wait.
So a wrong limit costs latency, and errors only at deadlines or with a full queue. Knows no queue
and no clock. Knative has no counterpart.
"""

from __future__ import annotations

from math import inf
from typing import Final, final

from throttler.lb_policy import Policy
from throttler.pod import FreePods, PodTracker
from throttler.ticket import FAILED, NEUTRAL, Outcome, Ticket

# The limit of requests in flight at one pod, by the times to the first byte of its responses.
#
# A window of responses has a median. A median above the usual time shows that the pod has more
# requests than it can process. Then the limit falls by the ratio of the two. Otherwise the limit
# rises while it is reached. It begins low, because the usual time is that of the first responses:
# a pod that is overloaded from the start would look usual. Sources: Gradient2Limit of Netflix's
# concurrency-limits; Envoy's adaptive concurrency filter. Both reject requests beyond the limit;
# here they wait.

#: Least seconds, and least responses, of one window.
WINDOW = 0.1
SAMPLES = 10
#: Responses of a window whose times are kept; more do not change a median much.
_MOST_SAMPLES: Final = 1000
#: Windows of the long average.
LONG_WINDOWS: Final = 600
#: Windows at the start whose plain mean is the long average (Gradient2: 10).
_WARM_UP: Final = 4
#: A slow window of a full pod counts only by this part. Otherwise a long overload would make its
#: slow responses the usual ones, and the limit would rise until the pod collapses.
_SLOW_WEIGHT: Final = 0.1
#: If half of the requests leave more than this part of a slow median, requests are not the cause.
#: Then the median is the usual time from now on.
_SAME: Final = 0.8
#: A median up to so many times the long average is usual (Gradient2: 1.5).
TOLERANCE: Final = 1.5
#: The limit doubles only while the median is at most so many times the long average.
STEADY: Final = 1.25
#: The lowest gradient: the limit at most halves. Also the gradient of a window with errors.
LOWEST: Final = 0.5
#: A window has errors if at least this share of its responses are errors. One client whose requests
#: always fail shows nothing about the pod.
ERRORS: Final = 0.1
#: Most requests that may wait inside a pod. The limit rises by so many, or by a quarter of itself:
#: a pod for 4 requests collapses with 8.
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
        "_errors",
        "_fell_from",
        "_full",
        "_proven",
        "_samples",
        "_since",
        "_tested",
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
        self._errors = 0
        self._proven = self.limit  # the highest limit under which responses took the usual time
        self._samples: list[float] = []
        self._since = now
        self._beside = 0  # the most requests that a request of the window had beside it
        self._tested = 0  # requests of the window that the pod got when it was full
        self._full = False  # whether the limit was reached in the window
        self._early = False  # whether the window has a response to a request before ``changed_at``
        # Requests in flight, and the slow median, before a row of slow windows lowered the limit.
        self._fell_from: tuple[int, float] | None = None

    @property
    def in_window(self) -> bool:
        """Whether a window has begun."""
        return bool(self._samples or self._errors)

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
        self._count(assigned, in_flight, beside, now)
        samples = self._samples
        if len(samples) < _MOST_SAMPLES:
            samples.append(seconds)
        # No other response can end a window; most cost no further call.
        if now - self._since >= WINDOW or 2 * self._tested >= len(samples):
            self._end_window(now)

    def failed(self, assigned: float, in_flight: int, beside: int, now: float) -> None:
        """Record an error response, or a reset, as ``responded``."""
        if assigned >= self.changed_at:
            self._count(assigned, in_flight, beside, now)
            self._errors += 1
            self._end_window(now)

    def release(self, now: float) -> None:
        """Let the limit rise quickly again, because no request has waited for long.

        It returns to the highest value under which responses took the usual time. A higher one
        could make the pod collapse before a window shows it.
        """
        self.doubles = True
        self._set(max(self.limit, self._proven), now)

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

    def _count(self, assigned: float, in_flight: int, beside: int, now: float) -> None:
        """Record the load of a response, which may be the first one of a window."""
        if not (self._samples or self._errors):
            self._since = now
            self._beside = self._tested = 0
            self._full = self._early = False
        if assigned < self.changed_at:
            self._early = True
        if in_flight >= self.limit:
            self._full = True
        self._tested += beside >= self.limit - self.limit // 16
        if beside > self._beside:
            self._beside = beside

    def _end_window(self, now: float) -> None:
        """End the window if it is long enough.

        While the limit doubles, one response for each slot is enough as well.
        """
        samples, errors = self._samples, self._errors
        count = len(samples) + errors
        is_tested = 2 * self._tested >= count  # or most requests had fewer beside them
        is_short = now - self._since < WINDOW
        is_round = self.doubles and is_tested and count >= self.limit
        if count < SAMPLES or (is_short and not is_round):
            return
        median = sorted(samples)[len(samples) // 2] if samples else self.usual
        failed = errors >= ERRORS * count
        gradient = LOWEST if failed else self._gradient(median)
        if is_short and gradient < 1.0:
            return  # the first responses of a round do not show that the pod is slow
        self._samples, self._errors = [], 0
        if not failed:
            gradient = self._learn(median, gradient)
        full = self._full
        if gradient == 1.0:
            self._fell_from = None
            if full and is_tested and not self._early:
                self._proven = max(self._proven, self.limit)
                doubles = self.doubles and median <= STEADY * self.usual
                self._set(self.limit + (self.limit if doubles else self._allowance), now)
        elif full or 2 * self._beside >= self.limit:
            self.doubles = False
            if not failed:
                self._fell_from = self._fell_from or (self._beside, median)
                self._proven = min(self._proven, int(gradient * self.limit) + self._allowance)
            self._set(gradient * self.limit + self._allowance, now)

    @property
    def _allowance(self) -> int:
        return max(1, min(ALLOWANCE, self.limit // 4))

    def _gradient(self, median: float) -> float:
        if not self.usual or median <= TOLERANCE * self.usual:
            return 1.0
        return max(LOWEST, TOLERANCE * self.usual / median)

    def _has_other_cause(self, median: float) -> bool:
        """Return whether responses are as slow with half of the requests as they were before."""
        if self._fell_from is None:
            return False
        in_flight, before = self._fell_from
        return 2 * self._beside <= in_flight + 2 * self._allowance and median > _SAME * before

    def _learn(self, median: float, gradient: float) -> float:
        """Add a window to the long average.

        Returns:
            Its gradient; 1 if the requests in flight are not why it is slow.
        """
        if gradient < 1.0 and self._has_other_cause(median):
            self.usual, gradient = median, 1.0
            self.doubles = True
        self._windows += 1
        weight = 2.0 / (LONG_WINDOWS + 1)
        if not self.usual:
            weight = 1.0
        elif self._windows <= _WARM_UP and gradient == 1.0 and (self.doubles or not self._full):
            weight = 1.0 / self._windows
        elif gradient < 1.0 or (self._full and median > self.usual):
            weight *= _SLOW_WEIGHT
        elif self.usual > 2.0 * median:
            weight = 0.05  # the pod has become faster (Gradient2: the same)
        self.usual += weight * (median - self.usual)
        return gradient

    def _set(self, limit: float, now: float) -> None:
        whole = min(max(int(limit), MIN_LIMIT), MAX_LIMIT)
        if whole != self.limit:
            self.limit = whole
            self.changed_at = now
            self._samples, self._errors = [], 0


#: Seconds without a waiting request after which limits rise quickly again.
RELEASE_AFTER: Final = 5.0
#: A response that lasts longer after its first byte is a stream, seconds. It does not count.
STREAM: Final = 5.0
#: A limit that no response has measured doubles after so many seconds, while requests wait. Each
#: time that the pod begins no response meanwhile, the next doubling takes twice as long.
UNMEASURED: Final = 1.0
#: The part of such a time after which it counts as over: sums of seconds are not exact.
_NEARLY: Final = 0.99


@final
class Adaptive(Policy):
    """Limits each pod by its responses; another policy picks the pods.

    Arguments:
        policy: picks the pods.
        applies: whether the limits count. If not, they are only computed, for people.

    Attributes:
        release_at: when to release all limits, unless a request waits before, seconds; infinite
            once they are released.
    """

    __slots__ = ("_applies", "_now", "_policy", "gradients", "release_at")

    def __init__(self, policy: Policy, *, applies: bool) -> None:
        super().__init__(follows=True, spans=policy.spans)
        self._policy = policy
        self._applies = applies
        self.gradients: dict[PodTracker, Gradient] = {}
        self._now = 0.0  # the latest time that a call has shown
        self.release_at = inf

    def limit_of(self, pod: PodTracker) -> int | None:
        """Return the limit of a pod; None for a pod that gets no requests."""
        gradient = self.gradients.get(pod)
        return None if gradient is None else gradient.limit

    # -- the policy -----------------------------------------------------------------------------

    def pick(self, ticket: Ticket, pods: list[PodTracker], free_pods: FreePods) -> PodTracker:
        return self._policy.pick(ticket, pods, free_pods)

    def set_pods(self, pods: list[PodTracker]) -> None:
        self._policy.set_pods(pods)

    def changed(self, pod: PodTracker, has_free_slot: bool) -> None:
        self._policy.changed(pod, has_free_slot)

    def ended(self, pod: PodTracker, ticket: Ticket, outcome: Outcome, now: float) -> bool:
        self._policy.ended(pod, ticket, outcome, now)
        self._now = now
        gradient = self.gradients.get(pod)
        assigned = ticket.assigned
        if gradient is None or not assigned:
            return False
        in_flight = pod.in_flight + 1
        if not self._applies and in_flight > gradient.limit:
            self.waits(now)
        elif now >= self.release_at:
            self.release(now)
        if outcome is FAILED:
            gradient.failed(assigned, in_flight, ticket.beside, now)
        elif outcome is not NEUTRAL and ticket.sent <= ticket.first_byte >= now - STREAM:
            seconds = ticket.first_byte - ticket.sent
            gradient.responded(assigned, seconds, in_flight, ticket.beside, now)
        return self._applies and self._apply(pod, gradient)

    # -- limits ---------------------------------------------------------------------------------

    def set_limits(self, pods: list[PodTracker]) -> None:
        """Replace the pods that get requests, and set their limits; O(pods)."""
        before = self.gradients
        self.gradients = {
            pod: before.get(pod) or Gradient(pod.in_flight + MIN_LIMIT, self._now) for pod in pods
        }
        if self._applies:
            for pod, gradient in self.gradients.items():
                self._apply(pod, gradient)

    def waits(self, now: float) -> None:
        """Record that a request waits; while limits are observed only, that it would wait."""
        self.release_at = now + RELEASE_AFTER

    def release(self, now: float) -> None:
        """Release all limits, because no request has waited for long; O(pods).

        ``set_limits`` applies them. Before that, each pod gets its own when a request ends.
        """
        self.release_at = inf
        for gradient in self.gradients.values():
            gradient.release(now)

    def raise_unmeasured(self, pod: PodTracker, now: float) -> None:
        """Double the limit of a full pod that has never responded often enough for a window.

        Streams begin responses that are not measured. A pod that begins none may be overloaded
        already: its limit doubles less and less often.
        """
        gradient = self.gradients[pod]
        if gradient.usual:
            return
        has_begun = pod.last_response_at > max(gradient.changed_at, pod.listed_at)
        streams = has_begun and not gradient.in_window
        pause = UNMEASURED if streams else UNMEASURED * 2**gradient.blind_raises
        if now - gradient.changed_at >= _NEARLY * pause:
            gradient.double(now, blind=not streams)

    def _apply(self, pod: PodTracker, gradient: Gradient) -> bool:
        """Set the limit of a pod, unless it is half-open; return whether that is a change."""
        limit = gradient.limit
        if pod.limit == limit or pod.ejection.half_open:
            return False
        pod.limit = limit
        return True
