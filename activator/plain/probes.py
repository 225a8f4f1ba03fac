"""Reads the readiness probe of a container.

Ignores ``successThreshold`` and ``initialDelaySeconds``: they delay kubelet's result, and a pod
that responds well to its first probe can take requests. Sources: Probe in the Kubernetes API
reference; pkg/kubelet/prober of Kubernetes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from activator.objects.fields import Field

_MAX_SECONDS: Final = 2**31 - 1
_MAX_PORT: Final = 65_535
#: Bytes of all header fields of a probe; kubelet has no limit of its own.
_MAX_FIELDS: Final = 8192


class Handler(Enum):
    """How kubelet checks a container; EXEC runs a command in it, which the activator cannot."""

    HTTP = "httpGet"
    TCP = "tcpSocket"
    GRPC = "grpc"
    EXEC = "exec"


@dataclass(frozen=True, slots=True)
class ContainerProbe:
    """The readiness probe of a container.

    Attributes:
        port: name or number; 0 for a command.
        host: the host that kubelet connects to instead of the pod; empty for the pod.
        path: the request target of an HTTP probe.
        fields: names and values of an HTTP probe's header fields.
        tls: whether kubelet probes by HTTPS. It does not verify certificates.
        service: the gRPC service.
        timeout: seconds.
    """

    handler: Handler
    port: str | int = 0
    host: str = ""
    path: str = "/"
    fields: tuple[tuple[str, str], ...] = ()
    tls: bool = False
    service: str = ""
    timeout: float = 1.0


def container_probe(probe: Field) -> ContainerProbe | None:
    """Return the probe that a container's ``readinessProbe`` describes; None for none.

    Raises:
        ManifestError: a field is wrong.
    """
    if probe.value is None:
        return None
    timeout = float(probe["timeoutSeconds"].whole(minimum=0, maximum=_MAX_SECONDS, default=1) or 1)
    if (http := probe["httpGet"]).value is not None:
        return ContainerProbe(
            Handler.HTTP,
            _port(http["port"]),
            http["host"].text(),
            _path(http["path"]),
            _fields(http["httpHeaders"]),
            http["scheme"].text(default="HTTP").upper() == "HTTPS",
            timeout=timeout,
        )
    if (tcp := probe["tcpSocket"]).value is not None:
        return ContainerProbe(Handler.TCP, _port(tcp["port"]), tcp["host"].text(), timeout=timeout)
    if (grpc := probe["grpc"]).value is not None:
        return ContainerProbe(
            Handler.GRPC, _port(grpc["port"]), service=grpc["service"].text(), timeout=timeout
        )
    return ContainerProbe(Handler.EXEC, timeout=timeout)


def _port(field: Field) -> str | int:
    if isinstance(field.value, str):
        return field.text()
    return field.whole(minimum=1, maximum=_MAX_PORT, default=0)


def _path(field: Field) -> str:
    path = field.text(default="/") or "/"
    if not path.startswith("/"):
        path = f"/{path}"
    if not all("!" <= each <= "~" for each in path):
        field.expected("a path of visible ASCII characters")
    return path


def _fields(headers: Field) -> tuple[tuple[str, str], ...]:
    found = []
    for header in headers.items():
        name, value = header["name"].text(), header["value"].text()
        if not name or not all(each.isalnum() or each in "!#$%&'*+-.^_`|~" for each in name):
            header["name"].expected("the name of a header field")
        if not value.isascii() or not all(each >= " " and each != "\x7f" for each in value):
            header["value"].expected("a field value of visible ASCII characters")
        found.append((name, value))
    if sum(len(name) + len(value) + 4 for name, value in found) > _MAX_FIELDS:
        headers.fail(f"expected at most {_MAX_FIELDS} bytes of header fields")
    return tuple(found)
