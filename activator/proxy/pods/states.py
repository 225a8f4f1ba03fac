"""The states of connections to pods, and the changes between them.

A connection in HTTP/1 carries one request at a time, so its state is that of the request. A
connection in HTTP/2 carries many requests, so its state shows whether it accepts more.
"""

from __future__ import annotations

from enum import Enum
from typing import Final


class Http1State(Enum):
    """The state of a connection in HTTP/1.

    OPENING: it is not connected yet. IDLE: it has no request. SENT: the pod has a request, and no
    byte of a response has arrived. HEAD: part of the head, or an interim response, has arrived.
    BODY: the head has arrived, and the body follows. TUNNEL: another protocol uses the connection.
    CLOSED: it carries no more requests.
    """

    OPENING = "opening"
    IDLE = "idle"
    SENT = "sent"
    HEAD = "head"
    BODY = "body"
    TUNNEL = "tunnel"
    CLOSED = "closed"


class Http2State(Enum):
    """The state of a connection in HTTP/2.

    OPENING: it is not connected yet. UNSETTLED: the pod has not sent its settings. OPEN: it accepts
    requests. DRAINING: it accepts no more, and closes after the last response. OTHER_PROTOCOL: the
    pod does not speak HTTP/2. CLOSED_EARLY: it closed before the pod sent its settings. CLOSED: it
    closed later. If the settings are late, the connection accepts requests after a while.
    """

    OPENING = "opening"
    UNSETTLED = "unsettled"
    OPEN = "open"
    DRAINING = "draining"
    OTHER_PROTOCOL = "other-protocol"
    CLOSED_EARLY = "closed-early"
    CLOSED = "closed"


#: The members as plain names: an attribute of an enum class costs a function call.
OPENING: Final = Http1State.OPENING
IDLE: Final = Http1State.IDLE
SENT: Final = Http1State.SENT
HEAD: Final = Http1State.HEAD
BODY: Final = Http1State.BODY
TUNNEL: Final = Http1State.TUNNEL
CLOSED: Final = Http1State.CLOSED

#: The states that may follow each state in HTTP/1. A response may end with its head.
HTTP1_FOLLOWS: Final[dict[Http1State, frozenset[Http1State]]] = {
    OPENING: frozenset((IDLE,)),
    IDLE: frozenset((SENT, CLOSED)),
    SENT: frozenset((HEAD, BODY, IDLE, CLOSED)),
    HEAD: frozenset((HEAD, BODY, IDLE, TUNNEL, CLOSED)),
    BODY: frozenset((IDLE, CLOSED)),
    TUNNEL: frozenset((CLOSED,)),
    CLOSED: frozenset((CLOSED,)),
}

#: The states that may follow each state in HTTP/2.
HTTP2_FOLLOWS: Final[dict[Http2State, frozenset[Http2State]]] = {
    Http2State.OPENING: frozenset((Http2State.UNSETTLED,)),
    Http2State.UNSETTLED: frozenset(
        (Http2State.OPEN, Http2State.DRAINING, Http2State.OTHER_PROTOCOL, Http2State.CLOSED_EARLY)
    ),
    Http2State.OPEN: frozenset((Http2State.DRAINING, Http2State.CLOSED)),
    Http2State.DRAINING: frozenset((Http2State.CLOSED,)),
    Http2State.OTHER_PROTOCOL: frozenset(),
    Http2State.CLOSED_EARLY: frozenset(),
    Http2State.CLOSED: frozenset(),
}
