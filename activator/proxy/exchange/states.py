"""Defines the states of an exchange, and which state may follow which.

An exchange assigns its state directly. A warm request has three changes, and a check against the
table would take three calls for each. Instead, the tests of the byte path check each change of each
exchange (tests/activator/proxy/conftest.py).
"""

from __future__ import annotations

from enum import Enum
from typing import Final


class ExchangeState(Enum):
    """The state of an exchange.

    NEW: the request has no ticket yet.
    AUTHORIZING: it waits for the decision of the authorization server, before it has a place.
    WAITING: it waits for a pod, or for the client's kernel to show that the client is there.
    CONNECTING: it is assigned to a pod, and waits for a connection.
    SENT: a pod has the request.
    RESPONDING: the client has a part of the final response.
    TUNNEL: bytes of another protocol pass both ways.
    DONE: the exchange has ended.
    """

    NEW = "new"
    AUTHORIZING = "authorizing"
    WAITING = "waiting"
    CONNECTING = "connecting"
    SENT = "sent"
    RESPONDING = "responding"
    TUNNEL = "tunnel"
    DONE = "done"


#: Module names for the members, for speed: see fields.HTTP_1_1.
NEW: Final = ExchangeState.NEW
AUTHORIZING: Final = ExchangeState.AUTHORIZING
WAITING: Final = ExchangeState.WAITING
CONNECTING: Final = ExchangeState.CONNECTING
SENT: Final = ExchangeState.SENT
RESPONDING: Final = ExchangeState.RESPONDING
TUNNEL: Final = ExchangeState.TUNNEL
DONE: Final = ExchangeState.DONE

#: Which state may follow which. A retry leads back; once a response has begun, no step does.
FOLLOWS: Final[dict[ExchangeState, frozenset[ExchangeState]]] = {
    NEW: frozenset((AUTHORIZING, WAITING, CONNECTING, SENT, DONE)),
    AUTHORIZING: frozenset((WAITING, CONNECTING, SENT, DONE)),
    WAITING: frozenset((WAITING, CONNECTING, SENT, DONE)),
    CONNECTING: frozenset((CONNECTING, WAITING, SENT, DONE)),
    SENT: frozenset((SENT, CONNECTING, WAITING, RESPONDING, TUNNEL, DONE)),
    RESPONDING: frozenset((DONE,)),
    TUNNEL: frozenset((DONE,)),
    DONE: frozenset(),
}

#: States in which the client has a part of the pod's final response.
RESPONSE_BEGUN: Final = frozenset((RESPONDING, TUNNEL))
