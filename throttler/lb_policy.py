"""Which pod gets a request: one small rule each, over a bit mask of the pods that have room.

A policy is asked only when some pod has room, and answers in O(1) of the pods (a mask of 1,000
bits is one Python integer). Random numbers come from outside. Knative's counterpart:
pkg/activator/net/lb_policy.go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from throttler.pod import PodTracker

#: Up to this containerConcurrency a pod is filled before the next is used (Knative: 3).
FIRST_AVAILABLE_UP_TO: Final = 3


class Policy(Protocol):
    """Picks the pod for the next request."""

    def pick(self, pods: Sequence[PodTracker], room: int) -> PodTracker:
        """Return one of ``pods`` whose bit is set in ``room``, which is not 0."""


class FirstAvailable:
    """The first pod that has room: fills one before the next, for low containerConcurrency."""

    __slots__ = ()

    def pick(self, pods: Sequence[PodTracker], room: int) -> PodTracker:
        """Return the pod of the lowest bit."""
        return pods[(room & -room).bit_length() - 1]


class RoundRobin:
    """Each in turn, passing over those without room."""

    __slots__ = ("_next",)

    def __init__(self) -> None:
        self._next = 0

    def pick(self, pods: Sequence[PodTracker], room: int) -> PodTracker:
        """Return the next pod after the last one picked; begins anew past a shrunken list's end."""
        ahead = room >> self._next
        if ahead:
            index = self._next + (ahead & -ahead).bit_length() - 1
        else:
            index = (room & -room).bit_length() - 1
        self._next = index + 1
        return pods[index]


class RandomChoice2:
    """Of two pods drawn at random the one with fewer requests (power of two choices)."""

    __slots__ = ("_random",)

    def __init__(self, random: Callable[[], float]) -> None:
        self._random = random

    def pick(self, pods: Sequence[PodTracker], room: int) -> PodTracker:
        """Return the less loaded of two; the first drawn, so a random one, if they are equal."""
        count = len(pods)
        if count == 1:
            return pods[0]
        first = int(self._random() * count)
        # The second is any other; of two pods there is only one.
        second = 1 - first
        if count > 2:
            second = (first + 1 + int(self._random() * (count - 1))) % count
        a, b = pods[first], pods[second]
        if not a.bit & room:
            a = self._with_room(pods, room, first)
        if not b.bit & room:
            b = self._with_room(pods, room, second)
        return b if b.in_flight < a.in_flight else a

    @staticmethod
    def _with_room(pods: Sequence[PodTracker], room: int, index: int) -> PodTracker:
        """Return the first pod behind ``index`` that has room."""
        ahead = room >> index
        if ahead:
            return pods[index + (ahead & -ahead).bit_length() - 1]
        return pods[(room & -room).bit_length() - 1]


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
