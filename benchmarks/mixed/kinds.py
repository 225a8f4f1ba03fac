"""The kinds of requests, the services that they go to, and when a failure is excused."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

#: Three pods that speak HTTP/1.1.
WEB: Final = "web"
#: Two pods that speak HTTP/2.
RPC: Final = "rpc"
#: One pod that speaks HTTP/1.1; the service goes to zero and back. Its pod is never killed.
COLD: Final = "cold"
#: Two pods that speak HTTP/1.1; one of them may break the framing of its responses.
LIAR: Final = "liar"
#: A Deployment of the lab's pods, which `activator scale` starts and ends.
SCALED: Final = "scaled"
#: A TCP Service; its pods are a Deployment of the lab's pods, which `activator scale` starts too.
BYTES: Final = "bytes"


class Excuse(Enum):
    """When a request may fail although the activator works."""

    #: A pod was killed after its response had begun. Before that, the activator must retry.
    RESPONSE_BEGUN = "response begun"
    #: A pod was killed while it had the request. The activator must not send it twice.
    SENT = "sent"
    #: A pod of the service broke the framing of a response, so the response cannot be complete.
    LIED = "lied"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of requests.

    Attributes:
        name: in tables and in JSON.
        service: where the requests go.
        excuse: when a request may fail.
        clients: how many there are; each has one request at a time, or one batch.
        pause: seconds between the end of a request and the next one of the same client.
        patience: seconds for one request; a slow reader takes the longest.
    """

    name: str
    service: str
    excuse: Excuse
    clients: int
    pause: float
    patience: float = 60.0


GET: Final = Kind("GET", WEB, Excuse.RESPONSE_BEGUN, 4, 0.12)
GET_ONCE: Final = Kind("GET, own connection", WEB, Excuse.RESPONSE_BEGUN, 1, 0.2)
POST: Final = Kind("POST", WEB, Excuse.SENT, 2, 0.2)
SLOW_READER: Final = Kind("slow reader", WEB, Excuse.RESPONSE_BEGUN, 3, 0.2)
WEBSOCKET: Final = Kind("WebSocket", WEB, Excuse.SENT, 3, 0.2)
H2_GET: Final = Kind("h2 GET", RPC, Excuse.RESPONSE_BEGUN, 1, 0.4)
H2_TO_H1_GET: Final = Kind("h2 GET, HTTP/1.1 pod", WEB, Excuse.RESPONSE_BEGUN, 1, 0.4)
H2_TO_H1_POST: Final = Kind("h2 POST, HTTP/1.1 pod", WEB, Excuse.SENT, 1, 0.4)
H1_TO_H2_GET: Final = Kind("GET, HTTP/2 pod", RPC, Excuse.RESPONSE_BEGUN, 1, 0.2)
UNARY: Final = Kind("gRPC unary", RPC, Excuse.SENT, 1, 0.4)
COUNT: Final = Kind("gRPC server stream", RPC, Excuse.SENT, 2, 0.2)
CHAT: Final = Kind("gRPC stream both ways", RPC, Excuse.SENT, 2, 0.2)
LEAVER: Final = Kind("client that leaves", WEB, Excuse.SENT, 2, 0.3)
#: Patience while the API server is silent: an activator notices that after 90 s.
_LONG: Final = 150.0
COLD_GET: Final = Kind("cold GET", COLD, Excuse.RESPONSE_BEGUN, 2, 0.5, _LONG)
COLD_POST: Final = Kind("cold POST", COLD, Excuse.SENT, 1, 0.5, _LONG)

KINDS: Final[dict[str, Kind]] = {
    kind.name: kind
    for kind in (
        *(GET, GET_ONCE, POST, SLOW_READER, WEBSOCKET),
        *(H2_GET, H2_TO_H1_GET, H2_TO_H1_POST, H1_TO_H2_GET),
        *(UNARY, COUNT, CHAT, LEAVER, COLD_GET, COLD_POST),
    )
}

EVENTS: Final = Kind("event stream", WEB, Excuse.RESPONSE_BEGUN, 2, 0.3)
LIAR_GET: Final = Kind("GET, lying pod", LIAR, Excuse.LIED, 2, 0.2)
SCALED_GET: Final = Kind("scaled GET", SCALED, Excuse.RESPONSE_BEGUN, 1, 9.0, _LONG)
SCALED_POST: Final = Kind("scaled POST", SCALED, Excuse.SENT, 1, 13.0, _LONG)
TCP: Final = Kind("TCP connection", BYTES, Excuse.SENT, 2, 9.0, _LONG)

#: Kinds of the soak alone: their services do not exist elsewhere.
SOAK_KINDS: Final[dict[str, Kind]] = {
    kind.name: kind for kind in (EVENTS, LIAR_GET, SCALED_GET, SCALED_POST, TCP)
}
ALL_KINDS: Final[dict[str, Kind]] = KINDS | SOAK_KINDS


def authority(service: str) -> str:
    """Return the Host that names a service."""
    return f"{service}.default.svc.cluster.local"
