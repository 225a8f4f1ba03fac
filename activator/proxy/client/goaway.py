"""Decides which GOAWAY a client of HTTP/2 gets, and when (RFC 9113 section 6.8): a state machine.

The first GOAWAY asks the client to open no more streams. A second later, another one names the last
stream. So no stream that crosses the first GOAWAY is lost. A PING would show when the client has
read the first one. But after a GOAWAY the library h2 treats each frame except GOAWAY as an error,
and drops all data that it read with that frame. Pure.
"""

from __future__ import annotations

from enum import Enum
from math import inf
from typing import Final, final

#: Seconds between the two GOAWAY frames (Go: the same).
LEAVE_SECONDS: Final = 1.0


class Goaway(Enum):
    """The GOAWAY frames that a client has got.

    NOT_SENT: none.
    CLOSE_PLANNED: none yet. The connection is beyond the limit, and GOAWAY follows soon.
    ANNOUNCED: the one that asks it to open no more streams.
    LAST_SENT: the one that names the last stream.
    """

    NOT_SENT = "not-sent"
    CLOSE_PLANNED = "close-planned"
    ANNOUNCED = "announced"
    LAST_SENT = "last-sent"


#: Module names for the members, for speed: see fields.HTTP_1_1.
NOT_SENT: Final = Goaway.NOT_SENT
CLOSE_PLANNED: Final = Goaway.CLOSE_PLANNED
ANNOUNCED: Final = Goaway.ANNOUNCED
LAST_SENT: Final = Goaway.LAST_SENT

#: Which state may follow which. No step leads back.
FOLLOWS: Final[dict[Goaway, frozenset[Goaway]]] = {
    NOT_SENT: frozenset((CLOSE_PLANNED, ANNOUNCED, LAST_SENT)),
    CLOSE_PLANNED: frozenset((ANNOUNCED, LAST_SENT)),
    ANNOUNCED: frozenset((LAST_SENT,)),
    LAST_SENT: frozenset(),
}


@final
class GoawaySteps:
    """The GOAWAY frames of one connection.

    Attributes:
        state: the frames so far; only ``advance`` changes it.
        due_at: when to call ``due``, seconds; infinite while no frame is planned.
        multiplexed: whether two streams have been open at the same time.
    """

    __slots__ = ("due_at", "multiplexed", "state")

    def __init__(self) -> None:
        self.state: Goaway = NOT_SENT
        self.due_at = inf
        self.multiplexed = False

    def advance(self, state: Goaway, now: float) -> bool:
        """Enter a state if it may follow the current one.

        Arguments:
            state: the new state.
            now: seconds.

        Returns:
            Whether the state changed. Then the caller sends the GOAWAY of the state, if any.
        """
        if state not in FOLLOWS[self.state]:
            return False
        self.state = state
        self.due_at = inf if state is LAST_SENT else now + LEAVE_SECONDS
        return True

    def wait_for_request(self, now: float) -> None:
        """Delay GOAWAY by a second after the last stream, so that the client reads its response."""
        self.due_at = min(self.due_at, now + LEAVE_SECONDS)

    def due(self, now: float, *, idle: bool) -> Goaway | None:
        """Return the state to enter now; None for no change.

        Arguments:
            now: seconds.
            idle: whether no stream is open.
        """
        if now < self.due_at:
            return None
        self.due_at = inf
        if self.state is ANNOUNCED:
            return LAST_SENT
        if self.state is CLOSE_PLANNED or (idle and self.state is NOT_SENT):
            return ANNOUNCED
        return None
