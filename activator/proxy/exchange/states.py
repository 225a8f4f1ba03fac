"""The states of an exchange, and which may follow which.

An exchange assigns its state plainly: a warm request does so three times, and a look at the table
takes three calls each. The tests of the byte path check each change of each exchange against it
(tests/activator/proxy/conftest.py).
"""

from __future__ import annotations

from enum import Enum
from typing import Final


class State(Enum):
    """Where an exchange is.

    NEW: it has no place at a revision yet. WAITING: it waits for a pod, or for the client's kernel
    to say that the client is there. CONNECTING: it has a pod, to which a connection is opened.
    SENT: a pod has the request. RESPONDING: a part of the final response has gone to the client.
    TUNNEL: bytes of another protocol pass both ways. DONE: it has ended.
    """

    NEW = "new"
    WAITING = "waiting"
    CONNECTING = "connecting"
    SENT = "sent"
    RESPONDING = "responding"
    TUNNEL = "tunnel"
    DONE = "done"


#: The same as plain names: Python looks a member of an enum up by a function of its class.
NEW: Final = State.NEW
WAITING: Final = State.WAITING
CONNECTING: Final = State.CONNECTING
SENT: Final = State.SENT
RESPONDING: Final = State.RESPONDING
TUNNEL: Final = State.TUNNEL
DONE: Final = State.DONE

#: Which state may follow which. A request that is sent again goes back; a response never does.
FOLLOWS: Final[dict[State, frozenset[State]]] = {
    NEW: frozenset((WAITING, CONNECTING, SENT, DONE)),
    WAITING: frozenset((WAITING, CONNECTING, SENT, DONE)),
    CONNECTING: frozenset((CONNECTING, WAITING, SENT, DONE)),
    SENT: frozenset((SENT, CONNECTING, WAITING, RESPONDING, TUNNEL, DONE)),
    RESPONDING: frozenset((DONE,)),
    TUNNEL: frozenset((DONE,)),
    DONE: frozenset(),
}

#: States in which the client has got a part of the pod's final response.
RESPONSE_BEGUN: Final = frozenset((RESPONDING, TUNNEL))
