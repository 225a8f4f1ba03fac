"""Adaptive concurrency: limits for pods without containerConcurrency, by their response times.

Joins the policy that picks pods with one ``Gradient`` for each pod. Requests beyond a limit wait.
So a wrong limit costs latency, and errors only at deadlines or with a full queue. Knows no queue
and no clock. Knative has no counterpart.
"""

from __future__ import annotations

from math import inf
from typing import Final, final

from throttler.free_pods import FreePods
from throttler.gradient import MIN_LIMIT, Gradient
from throttler.lb_policy import Policy
from throttler.pod import PodTracker
from throttler.ticket import FAILED, NEUTRAL, Outcome, Ticket

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

    __slots__ = ("_applies", "_gradients", "_now", "_policy", "release_at")

    def __init__(self, policy: Policy, *, applies: bool) -> None:
        super().__init__(follows=True, spans=policy.spans)
        self._policy = policy
        self._applies = applies
        self._gradients: dict[PodTracker, Gradient] = {}
        self._now = 0.0  # the latest time that a call has shown
        self.release_at = inf

    def limit_of(self, pod: PodTracker) -> int | None:
        """Return the limit of a pod; None for a pod that gets no requests."""
        gradient = self._gradients.get(pod)
        return None if gradient is None else gradient.limit

    # -- the policy -----------------------------------------------------------------------------

    def pick(self, ticket: Ticket, pods: list[PodTracker], free_pods: FreePods) -> PodTracker:
        """See Policy."""
        return self._policy.pick(ticket, pods, free_pods)

    def set_pods(self, pods: list[PodTracker]) -> None:
        """See Policy."""
        self._policy.set_pods(pods)

    def changed(self, pod: PodTracker, has_free_slot: bool) -> None:
        """See Policy."""
        self._policy.changed(pod, has_free_slot)

    def ended(self, pod: PodTracker, ticket: Ticket, outcome: Outcome, now: float) -> bool:
        """See Policy."""
        self._policy.ended(pod, ticket, outcome, now)
        self._now = now
        gradient = self._gradients.get(pod)
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
        before = self._gradients
        self._gradients = {
            pod: before.get(pod) or Gradient(pod.in_flight + MIN_LIMIT, self._now) for pod in pods
        }
        if self._applies:
            for pod, gradient in self._gradients.items():
                self._apply(pod, gradient)

    def waits(self, now: float) -> None:
        """Record that a request waits; while limits are observed only, that it would wait."""
        self.release_at = now + RELEASE_AFTER

    def release(self, now: float) -> None:
        """Release all limits, because no request has waited for long; O(pods).

        ``set_limits`` applies them. Before that, each pod gets its own when a request ends.
        """
        self.release_at = inf
        for gradient in self._gradients.values():
            gradient.release(now)

    def raise_unmeasured(self, pod: PodTracker, now: float) -> None:
        """Double the limit of a full pod that has never responded often enough for a window.

        Streams begin responses that are not measured. A pod that begins none may be overloaded
        already: its limit doubles less and less often.
        """
        gradient = self._gradients[pod]
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
