"""The interface of load-balancing policies, and Knative's three policies.

The throttler calls a policy only while some pod has a free slot. A call costs O(1) or O(log n) in
pods. Random numbers are an argument; ``throttler.balancing`` has the names of all policies.
Knative's counterpart: pkg/activator/net/lb_policy.go.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final, final

from throttler.free_pods import FreePods
from throttler.pod import PodTracker
from throttler.ticket import Outcome, Ticket


class Policy(ABC):
    """Picks the pod for the next request.

    Attributes:
        follows: whether the throttler calls ``changed`` and ``ended``. A policy without a record of
            loads or responses saves these calls on each request.
        spans: whether the policy ignores the activator's share: it then picks among the free pods
            of all activators' shares.
        in_order: whether the policy picks by the numbers of the pods, which are the same at each
            activator. It then does not pick the pods that the activator borrows: all activators
            would borrow the same pod.
    """

    __slots__ = ("follows", "in_order", "spans")

    def __init__(
        self, *, follows: bool = False, spans: bool = False, in_order: bool = False
    ) -> None:
        self.follows: Final = follows
        self.spans: Final = spans
        self.in_order: Final = in_order

    @abstractmethod
    def pick(self, ticket: Ticket, pods: list[PodTracker], free_pods: FreePods) -> PodTracker:
        """Return one of ``pods`` whose number is in ``free_pods``, which is not empty.

        The pod gets the request.

        Arguments:
            ticket: the request; its ``key`` is set if the policy needs one.
        """

    def set_pods(self, pods: list[PodTracker]) -> None:  # noqa: B027 # few need it
        """Set the pods that get requests, with their numbers, sets of free pods and limits.

        Called before the first ``pick``, and after each change of the pods; may cost O(pods).
        """

    def changed(self, pod: PodTracker, has_free_slot: bool) -> None:  # noqa: B027 # few need it
        """Record a change of a pod's requests in flight, or of whether it has a free slot."""

    def ended(self, pod: PodTracker, ticket: Ticket, outcome: Outcome, now: float) -> bool:
        """Record that a request has left its pod; ``changed`` follows.

        Policies that weigh pods by response time or by failures need this hook, such as a peak
        EWMA. The pick alone cannot give them these facts.

        Arguments:
            ticket: the request, with the times of its assignment and of its first byte.
            outcome: how the request left the pod.
            now: seconds, on the clock of those times.

        Returns:
            Whether the policy has changed the pod's limit.
        """
        return False


@final
class FirstAvailable(Policy):
    """The first free pod: fills one pod before the next, for a low containerConcurrency."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(in_order=True)

    def pick(self, ticket: Ticket, pods: list[PodTracker], free_pods: FreePods) -> PodTracker:
        """Return the free pod with the lowest number."""
        return pods[free_pods.next(0)]


@final
class RoundRobin(Policy):
    """Each pod in turn, without the full ones."""

    __slots__ = ("_next",)

    def __init__(self) -> None:
        super().__init__(in_order=True)
        self._next = 0

    def pick(self, ticket: Ticket, pods: list[PodTracker], free_pods: FreePods) -> PodTracker:
        """Return the free pod after the last one picked; the first pod follows the last."""
        number = free_pods.next(self._next)
        self._next = number + 1
        return pods[number]


@final
class RandomChoice2(Policy):
    """The pod with fewer requests of two random ones (power of two choices).

    Arguments:
        random: returns random numbers in [0, 1).
    """

    __slots__ = ("_random",)

    def __init__(self, random: Callable[[], float]) -> None:
        super().__init__()
        self._random = random

    def pick(self, ticket: Ticket, pods: list[PodTracker], free_pods: FreePods) -> PodTracker:
        """Return the less loaded of two pods; the first drawn, so a random one, if they are equal.

        If a drawn pod is full, the next free one replaces it.
        """
        count = len(pods)
        if count == 1:
            return pods[0]
        first = int(self._random() * count)
        # The second is any other pod; of two pods there is only one.
        second = 1 - first
        if count > 2:
            second = (first + 1 + int(self._random() * (count - 1))) % count
        a = pods[free_pods.next(first)]
        b = pods[free_pods.next(second)]
        return b if b.in_flight < a.in_flight else a
