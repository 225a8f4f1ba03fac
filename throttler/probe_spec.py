"""How a pod is asked whether it is ready, and which response means that it is.

A value: whoever reads a revision makes it once, the prober asks by it. A further kind of probe is
a further ``ProbeKind``, a field here and its request in ``activator.probing.probe``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class ProbeKind(Enum):
    """The protocol of a probe; the value is the word that people read.

    TCP: the pod accepts a connection. HTTP: it responds to a GET in HTTP/1.1.
    """

    TCP = "tcp"
    HTTP = "http"


@dataclass(frozen=True, slots=True)
class ProbeSpec:
    """One revision's probe.

    Attributes:
        kind: the protocol; all other attributes but ``timeout`` are of HTTP alone.
        path: the request target.
        fields: request fields, each with its CRLF; without Host, which follows from the pod.
        least_status, most_status: the range of statuses that mean ready; kubelet's by default.
        body: the whole body that means ready; None for any.
        timeout: seconds that a response may take at first; 0 for the activator's setting. Either
            grows for a pod that responds slowly.
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
