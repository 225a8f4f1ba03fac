"""The states of connections to pods, and which may follow which.

A connection in HTTP/1 carries one request at a time, so its state says where that request is. A
connection in HTTP/2 carries many, so its state says whether it takes more.
"""

from __future__ import annotations

from enum import Enum
from typing import Final


class Http1State(Enum):
    """Where a connection in HTTP/1 is.

    OPENING: it is not connected yet. IDLE: no request is on it. SENT: the pod has a request, and
    no byte of its response has come. HEAD: a part of the head has come, or an interim response.
    BODY: the head has come, and the body follows. TUNNEL: another protocol has the connection.
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
    """Where a connection in HTTP/2 is.

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


#: The same as plain names: Python looks a member of an enum up by a function of its class.
OPENING: Final = Http1State.OPENING
IDLE: Final = Http1State.IDLE
SENT: Final = Http1State.SENT
HEAD: Final = Http1State.HEAD
BODY: Final = Http1State.BODY
TUNNEL: Final = Http1State.TUNNEL
CLOSED: Final = Http1State.CLOSED

#: Which state of a connection in HTTP/1 may follow which. The response may end with its head.
HTTP1_FOLLOWS: Final[dict[Http1State, frozenset[Http1State]]] = {
    OPENING: frozenset((IDLE,)),
    IDLE: frozenset((SENT, CLOSED)),
    SENT: frozenset((HEAD, BODY, IDLE, CLOSED)),
    HEAD: frozenset((HEAD, BODY, IDLE, TUNNEL, CLOSED)),
    BODY: frozenset((IDLE, CLOSED)),
    TUNNEL: frozenset((CLOSED,)),
    CLOSED: frozenset((CLOSED,)),
}

#: Which state of a connection in HTTP/2 may follow which.
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
