"""Which pod gets a request: what a policy is, and the three that Knative has.

A policy is used only while some pod has room, and costs O(1) or O(log n) in pods. Random numbers
come from outside; ``throttler.balancing`` has the names of all policies. Knative's counterpart:
pkg/activator/net/lb_policy.go.
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
        follows: whether ``changed`` and ``ended`` are called. A policy that keeps no record of
            loads or responses saves those calls on each request.
        spans: whether our share of the pods does not matter: the policy then gets all pods in reach
            in one ``room``.
    """

    __slots__ = ("follows", "spans")

    def __init__(self, *, follows: bool = False, spans: bool = False) -> None:
        self.follows: Final = follows
        self.spans: Final = spans

    @abstractmethod
    def pick(self, ticket: Ticket, pods: list[PodTracker], free_pods: FreePods) -> PodTracker:
        """Return one of ``pods`` whose number is in ``room``, which is not empty.

        The pod gets the request.

        Arguments:
            ticket: the request; its ``key`` is set where the policy wants one.
        """

    def set_pods(self, pods: list[PodTracker]) -> None:  # noqa: B027 # few need it
        """Take the pods that get requests, numbered, each with its ``room`` and its limit.

        Called before the first ``pick``, and when any of that changes; may cost O(pods).
        """

    def changed(self, pod: PodTracker, has_free_slot: bool) -> None:  # noqa: B027 # few need it
        """Take that a pod has more or fewer requests than before, or got or lost room."""

    def ended(self, pod: PodTracker, ticket: Ticket, outcome: Outcome, now: float) -> None:  # noqa: B027 # few need it
        """Take that a pod no longer has a request; ``changed`` follows.

        Arguments:
            ticket: the request, with the times of its assignment and of its first byte.
            now: seconds, on the clock of those times.
        """


@final
class FirstAvailable(Policy):
    """The first pod that has room: fills one before the next, for low containerConcurrency."""

    __slots__ = ()

    def pick(self, ticket: Ticket, pods: list[PodTracker], free_pods: FreePods) -> PodTracker:
        """Return the pod of the lowest number."""
        return pods[free_pods.next(0)]


@final
class RoundRobin(Policy):
    """Each in turn, passing over those without room."""

    __slots__ = ("_next",)

    def __init__(self) -> None:
        super().__init__()
        self._next = 0

    def pick(self, ticket: Ticket, pods: list[PodTracker], free_pods: FreePods) -> PodTracker:
        """Return the next pod after the last one picked; after the last pod comes the first."""
        number = free_pods.next(self._next)
        self._next = number + 1
        return pods[number]


@final
class RandomChoice2(Policy):
    """Of two pods drawn at random the one with fewer requests (power of two choices)."""

    __slots__ = ("_random",)

    def __init__(self, random: Callable[[], float]) -> None:
        super().__init__()
        self._random = random

    def pick(self, ticket: Ticket, pods: list[PodTracker], free_pods: FreePods) -> PodTracker:
        """Return the less loaded of two; the first drawn, so a random one, if they are equal.

        In place of a pod without room, the next one that has room is drawn.
        """
        count = len(pods)
        if count == 1:
            return pods[0]
        first = int(self._random() * count)
        # The second is any other; of two pods there is only one.
        second = 1 - first
        if count > 2:
            second = (first + 1 + int(self._random() * (count - 1))) % count
        a = pods[free_pods.next(first)]
        b = pods[free_pods.next(second)]
        return b if b.in_flight < a.in_flight else a
