"""Defines the states of a client's HTTP/1 connection, and which state may follow which."""

from __future__ import annotations

from enum import Enum
from typing import Final


class Http1State(Enum):
    """The state of a connection: it decides what the next bytes of the client are.

    READING_HEAD: no request is in progress. The next bytes begin a request head.
    HEAD_IN_PROGRESS: a part of a request head has arrived.
    BEGINNING: a request head is complete, and its exchange begins.
    READING_BODY: an exchange is in progress. The next bytes belong to the request's body.
    RESPONDING: an exchange is in progress, and its request is complete. Further bytes wait.
    DISCARDING: the input was malformed or refused. An error response is the last response.
    LINGERING: the last response is written. Input is discarded until the client closes.
    CLOSED: the activator has closed or aborted the connection, or it is lost.
    """

    READING_HEAD = "reading-head"
    HEAD_IN_PROGRESS = "head-in-progress"
    BEGINNING = "beginning"
    READING_BODY = "reading-body"
    RESPONDING = "responding"
    DISCARDING = "discarding"
    LINGERING = "lingering"
    CLOSED = "closed"


#: Module names for the members, for speed: see version.HTTP_1_1.
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
