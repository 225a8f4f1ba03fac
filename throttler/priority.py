"""The classes of queued requests: their names, their shares of the queue, and how requests age.

Numbers instead of an enum, since the queue indexes by them. Knative has no counterpart. HAProxy's
is ``http-request set-priority-class``, without ageing.
"""

from __future__ import annotations

from typing import Final

#: The classes; a lower number goes first.
HIGH: Final = 0
NORMAL: Final = 1
LOW: Final = 2
#: The names of the classes, by number.
NAMES: Final[tuple[str, ...]] = ("high", "normal", "low")
#: A class accepts one more request, or byte, up to this part of the queue's limits, percent. So the
#: rest stays free for higher classes.
SHARES: Final[tuple[int, ...]] = (100, 90, 75)
#: A request rises one class after each of these parts of its time-out.
RISES: Final[tuple[float, ...]] = (0.5, 0.75)


def share_of(limit: int, priority: int) -> int:
    """Return the part of a limit up to which a class may fill the queue, rounded up."""
    return -(-limit * SHARES[priority] // 100)


def rises_at(arrived: float, deadline: float, step: int) -> float:
    """Return when a request rises for the first time (``step`` 0) or the second time (1).

    Arguments:
        arrived, deadline: of the request, seconds on the caller's clock.
    """
    return arrived + (deadline - arrived) * RISES[step]


def rank_at(priority: int, arrived: float, deadline: float, now: float) -> int:
    """Return the class in which a request waits now: its own, or a higher one with age.

    Arguments:
        priority: its own class.
        arrived, deadline: of the request, seconds on the caller's clock.
    """
    if now >= rises_at(arrived, deadline, 0):
        priority -= 1
        if now >= rises_at(arrived, deadline, 1):
            priority -= 1
    return priority if priority > HIGH else HIGH
