"""The states of an HTTP/2 connection, and the changes between them."""

from __future__ import annotations

from enum import Enum
from typing import Final


class ConnectionState(Enum):
    """The state of a connection.

    OPEN: streams may begin. GOAWAY_DUE: the next write ends with GOAWAY, unless a stream begins
    before. ENDING: the activator reads no more; written frames still go out. CLOSED: it is lost.
    """

    OPEN = "open"
    GOAWAY_DUE = "goaway-due"
    ENDING = "ending"
    CLOSED = "closed"


#: The members as plain names: an attribute of an enum class costs a function call.
OPEN: Final = ConnectionState.OPEN
GOAWAY_DUE: Final = ConnectionState.GOAWAY_DUE
ENDING: Final = ConnectionState.ENDING
CLOSED: Final = ConnectionState.CLOSED

#: The states that may follow each state.
FOLLOWS: Final[dict[ConnectionState, frozenset[ConnectionState]]] = {
    OPEN: frozenset((GOAWAY_DUE, ENDING, CLOSED)),
    GOAWAY_DUE: frozenset((OPEN, ENDING, CLOSED)),
    ENDING: frozenset((CLOSED,)),
    CLOSED: frozenset(),
}
