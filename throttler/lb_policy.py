"""Which pod gets a request: one small rule each, over the pods that have room.

A policy is used only while some pod has room, and costs O(1) in pods. Random numbers come from
outside. Knative's counterpart: pkg/activator/net/lb_policy.go.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final, final

from throttler.pod import PodTracker
from throttler.room import Room

#: Up to this containerConcurrency a pod is filled before the next is used (Knative: 3).
FIRST_AVAILABLE_UP_TO: Final = 3


class Policy(ABC):
    """Picks the pod for the next request."""

    __slots__ = ()

    @abstractmethod
    def pick(self, pods: list[PodTracker], room: Room) -> PodTracker:
        """Return one of ``pods`` whose number is in ``room``, which is not empty."""


@final
class FirstAvailable(Policy):
    """The first pod that has room: fills one before the next, for low containerConcurrency."""

    __slots__ = ()

    def pick(self, pods: list[PodTracker], room: Room) -> PodTracker:
        """Return the pod of the lowest number."""
        return pods[room.next(0)]


@final
class RoundRobin(Policy):
    """Each in turn, passing over those without room."""

    __slots__ = ("_next",)

    def __init__(self) -> None:
        self._next = 0

    def pick(self, pods: list[PodTracker], room: Room) -> PodTracker:
        """Return the next pod after the last one picked; after the last pod comes the first."""
        number = room.next(self._next)
        self._next = number + 1
        return pods[number]


@final
class RandomChoice2(Policy):
    """Of two pods drawn at random the one with fewer requests (power of two choices)."""

    __slots__ = ("_random",)

    def __init__(self, random: Callable[[], float]) -> None:
        self._random = random

    def pick(self, pods: list[PodTracker], room: Room) -> PodTracker:
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
        a = pods[room.next(first)]
        b = pods[room.next(second)]
        return b if b.in_flight < a.in_flight else a


def policy_for(container_concurrency: int, random: Callable[[], float]) -> Policy:
    """Return the policy that Knative uses for this containerConcurrency.

    Arguments:
        random: returns numbers in [0, 1).
    """
    if container_concurrency == 0:
        return RandomChoice2(random)
    if container_concurrency <= FIRST_AVAILABLE_UP_TO:
        return FirstAvailable()
    return RoundRobin()
