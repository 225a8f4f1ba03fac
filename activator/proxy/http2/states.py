"""The states of an HTTP/2 connection, and which may follow which."""

from __future__ import annotations

from enum import Enum
from typing import Final


class ConnectionState(Enum):
    """Where a connection is.

    OPEN: streams may begin. GOAWAY_DUE: the next write ends with GOAWAY, unless a stream has begun
    by then. ENDING: nothing more is read; what is written still goes out. CLOSED: it is lost.
    """

    OPEN = "open"
    GOAWAY_DUE = "goaway-due"
    ENDING = "ending"
    CLOSED = "closed"


#: The same as plain names: Python looks a member of an enum up by a function of its class.
OPEN: Final = ConnectionState.OPEN
GOAWAY_DUE: Final = ConnectionState.GOAWAY_DUE
ENDING: Final = ConnectionState.ENDING
CLOSED: Final = ConnectionState.CLOSED

#: Which state may follow which.
FOLLOWS: Final[dict[ConnectionState, frozenset[ConnectionState]]] = {
    OPEN: frozenset((GOAWAY_DUE, ENDING, CLOSED)),
    GOAWAY_DUE: frozenset((OPEN, ENDING, CLOSED)),
    ENDING: frozenset((CLOSED,)),
    CLOSED: frozenset(),
}
