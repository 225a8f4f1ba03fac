"""Which GOAWAY a client of HTTP/2 gets, and when (RFC 9113 section 6.8): a state machine.

A client first learns that it is to open no more streams, and a second later which stream was the
last one: so no stream is lost that crosses the first GOAWAY. A PING would show when the client
knows; but for the library h2 each frame but GOAWAY behind a GOAWAY is an error, by which it loses
all that came with it. Decides; knows no connection and no clock.
"""

from __future__ import annotations

from enum import Enum
from math import inf
from typing import Final, final

#: Seconds for a client to learn that it is to open no more streams (Go: the same).
LEAVE_SECONDS: Final = 1.0


class Goaway(Enum):
    """What a client knows of the end of its connection.

    NOT_SENT: nothing. DISMISSED: nothing yet, but there is no room for it: GOAWAY follows soon.
    ANNOUNCED: it is to open no more streams. LAST_SENT: and which stream was the last.
    """

    NOT_SENT = "not-sent"
    DISMISSED = "dismissed"
    ANNOUNCED = "announced"
    LAST_SENT = "last-sent"


#: The same as plain names: Python looks a member of an enum up by a function of its class.
NOT_SENT: Final = Goaway.NOT_SENT
DISMISSED: Final = Goaway.DISMISSED
ANNOUNCED: Final = Goaway.ANNOUNCED
LAST_SENT: Final = Goaway.LAST_SENT

#: Which state may follow which. No step leads back.
FOLLOWS: Final[dict[Goaway, frozenset[Goaway]]] = {
    NOT_SENT: frozenset((DISMISSED, ANNOUNCED, LAST_SENT)),
    DISMISSED: frozenset((ANNOUNCED, LAST_SENT)),
    ANNOUNCED: frozenset((LAST_SENT,)),
    LAST_SENT: frozenset(),
}


@final
class GoawaySteps:
    """The steps on one connection.

    Attributes:
        state: changes by ``advance`` alone.
        due_at: when to look for the next step, seconds; infinite while none is due.
        multiplexed: two streams have been open at a time.
    """

    __slots__ = ("due_at", "multiplexed", "state")

    def __init__(self) -> None:
        self.state: Goaway = NOT_SENT
        self.due_at = inf
        self.multiplexed = False

    def advance(self, state: Goaway, now: float) -> bool:
        """Take a step if it leads on.

        Returns:
            Whether it does. Then the caller sends the GOAWAY of that state, if it has one.
        """
        if state not in FOLLOWS[self.state]:
            return False
        self.state = state
        self.due_at = inf if state is LAST_SENT else now + LEAVE_SECONDS
        return True

    def wait_for_request(self, now: float) -> None:
        """The last stream has ended where the server stops: the client has a second to read it."""
        self.due_at = min(self.due_at, now + LEAVE_SECONDS)

    def due(self, now: float, *, idle: bool) -> Goaway | None:
        """Return the step that is due now; None for none.

        Arguments:
            idle: whether no stream is open.
        """
        if now < self.due_at:
            return None
        self.due_at = inf
        if self.state is ANNOUNCED:
            return LAST_SENT
        if self.state is DISMISSED or (idle and self.state is NOT_SENT):
            return ANNOUNCED
        return None
