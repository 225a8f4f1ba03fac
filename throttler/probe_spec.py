"""How the activator probes a pod, and which response means that the pod is ready.

The reader of a revision makes one value, and the prober follows it. To add a kind of probe, add a
``ProbeKind``, its fields here, and its request in ``activator.probing.probe``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final


class ProbeKind(Enum):
    """The protocol of a probe; the API shows the value.

    TCP: the pod accepts a connection. HTTP: it responds to a GET in HTTP/1.1. GRPC: its health
    service responds SERVING (grpc.health.v1). NONE: the pod is not probed. Only after a failed
    connection, a TCP probe finds out whether it accepts one again.
    """

    TCP = "tcp"
    HTTP = "http"
    GRPC = "grpc"
    NONE = "none"


#: A health page may be expensive for the application. gRPC's health service is a look-up.
_INTERVALS: Final = {
    ProbeKind.TCP: 0.005,
    ProbeKind.HTTP: 0.05,
    ProbeKind.GRPC: 0.005,
    ProbeKind.NONE: 0.005,
}


@dataclass(frozen=True, slots=True)
class ProbeSpec:
    """One revision's probe.

    Attributes:
        kind: the protocol; unless noted, all other attributes are for HTTP alone.
        path: the request target.
        fields: header fields of the request, each with its CRLF; the prober adds Host.
        host: the value of Host; empty for the address of the pod.
        least_status, most_status: the range of statuses that mean ready; kubelet's by default.
        body: the whole body that means ready; None for any.
        timeout: with every kind, seconds until a response is due at first; 0 for the activator's
            setting. It grows for a pod that responds slowly.
        tls: with every kind, whether the probe goes over TLS; certificates are not verified.
        service: with GRPC, the name for the health service; empty for the whole server.
        interval: with every kind, least seconds from one "not ready" response to the next probe; 0
            for the kind's, see ``least_interval``.
    """

    kind: ProbeKind = ProbeKind.TCP
    path: bytes = b"/"
    fields: bytes = b""
    host: bytes = b""
    least_status: int = 200
    most_status: int = 399
    body: bytes | None = None
    timeout: float = 0.0
    tls: bool = False
    service: bytes = b""
    interval: float = 0.0

    @property
    def least_interval(self) -> float:
        """Seconds from one "not ready" response to the next probe, at least."""
        return self.interval or _INTERVALS[self.kind]

    def accepts(self, status: int) -> bool:
        """Return whether a response of this status may mean ready."""
        return self.least_status <= status <= self.most_status
