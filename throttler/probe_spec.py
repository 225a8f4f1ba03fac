"""How the activator probes a pod, and which response means that the pod is ready.

The reader of a revision makes one value, and the prober follows it. To add a kind of probe, add a
``ProbeKind``, its fields here, and its request in ``activator.probing.probe``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class ProbeKind(Enum):
    """The protocol of a probe; the API shows the value.

    TCP: the pod accepts a connection. HTTP: it responds to a GET in HTTP/1.1.
    """

    TCP = "tcp"
    HTTP = "http"


@dataclass(frozen=True, slots=True)
class ProbeSpec:
    """One revision's probe.

    Attributes:
        kind: the protocol; all other attributes except ``timeout`` are for HTTP alone.
        path: the request target.
        fields: header fields of the request, each with its CRLF; the prober adds Host.
        least_status, most_status: the range of statuses that mean ready; kubelet's by default.
        body: the whole body that means ready; None for any.
        timeout: seconds until a response is due at first; 0 for the activator's setting. It grows
            for a pod that responds slowly.
    """

    kind: ProbeKind = ProbeKind.TCP
    path: bytes = b"/"
    fields: bytes = b""
    least_status: int = 200
    most_status: int = 399
    body: bytes | None = None
    timeout: float = 0.0

    def accepts(self, status: int) -> bool:
        """Return whether a response of this status may mean ready."""
        return self.least_status <= status <= self.most_status
