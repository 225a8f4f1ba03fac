"""The states of a client's connection in HTTP/1, and which may follow which."""

from __future__ import annotations

from enum import Enum
from typing import Final


class Http1State(Enum):
    """What bytes from the client mean, and how far its request is.

    READING_HEAD: no request runs; the next bytes begin a request head.
    HEAD_IN_PROGRESS: a part of a request head has arrived.
    BEGINNING: a request head is complete; its exchange is being started.
    READING_BODY: an exchange runs; the rest of the request's body is still to come.
    RESPONDING: an exchange runs; its request is complete. Further bytes wait for their turn.
    DISCARDING: what arrived is no request; an error response is the last one.
    LINGERING: the last response is written; unread input is discarded until the client closes.
    CLOSED: the connection is closed or broken by our side, or lost.
    """

    READING_HEAD = "reading-head"
    HEAD_IN_PROGRESS = "head-in-progress"
    BEGINNING = "beginning"
    READING_BODY = "reading-body"
    RESPONDING = "responding"
    DISCARDING = "discarding"
    LINGERING = "lingering"
    CLOSED = "closed"


#: The same as plain names: Python looks a member of an enum up by a function of its class.
READING_HEAD: Final = Http1State.READING_HEAD
HEAD_IN_PROGRESS: Final = Http1State.HEAD_IN_PROGRESS
BEGINNING: Final = Http1State.BEGINNING
READING_BODY: Final = Http1State.READING_BODY
RESPONDING: Final = Http1State.RESPONDING
DISCARDING: Final = Http1State.DISCARDING
LINGERING: Final = Http1State.LINGERING
CLOSED: Final = Http1State.CLOSED

#: Which state may follow which. No request follows DISCARDING, LINGERING or CLOSED.
FOLLOWS: Final[dict[Http1State, frozenset[Http1State]]] = {
    READING_HEAD: frozenset((HEAD_IN_PROGRESS, BEGINNING, DISCARDING, CLOSED)),
    HEAD_IN_PROGRESS: frozenset((READING_HEAD, DISCARDING, CLOSED)),
    BEGINNING: frozenset(
        (READING_HEAD, READING_BODY, RESPONDING, DISCARDING, LINGERING, CLOSED),
    ),
    READING_BODY: frozenset((RESPONDING, DISCARDING, LINGERING, CLOSED)),
    RESPONDING: frozenset((READING_HEAD, LINGERING, CLOSED)),
    DISCARDING: frozenset((LINGERING, CLOSED)),
    LINGERING: frozenset((CLOSED,)),
    CLOSED: frozenset(),
}
