"""The words of the core: what a revision is, what its pods are, what one request's place is.

Knows no clock, no socket and no rule; the rules are in the other modules of this package.
Knative's counterparts: pkg/apis/serving/v1 (Revision), pkg/activator/net/revision_backends.go
(dests) and the anonymous waiters of pkg/queue/breaker.go.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from throttler.probe_spec import ProbeSpec


class RevisionID(NamedTuple):
    """The unit of throttling: one version of one service."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class AppProtocol(Enum):
    """What a revision's pods speak; the value is the container port's name."""

    HTTP1 = "http1"
    H2C = "h2c"

    @property
    def port_name(self) -> str:
        """The name of the Endpoints port that carries this protocol."""
        return "http" if self is AppProtocol.HTTP1 else "http2"


class MeshMode(Enum):
    """Whether pods can be reached by their own addresses (``mesh-compatibility-mode``)."""

    AUTO = "auto"
    ENABLED = "enabled"
    DISABLED = "disabled"


class ReadinessRule(Enum):
    """Whose word makes a pod of a revision usable, and why; the value is what people read.

    PROBE: our own probe's. With every other rule, Kubernetes must also list the pod as ready: a
    container has a probe that queue-proxy does not run, or the readiness policy requires it.
    """

    PROBE = "probe"
    EXEC_READINESS_PROBE = "exec-readiness-probe"
    STARTUP_PROBE = "startup-probe"
    KUBERNETES_POLICY = "kubernetes-policy"


_TCP: Final = ProbeSpec()


@dataclass(frozen=True, slots=True)
class HashKey:
    """The part of a request by which a policy tells one client from another.

    Attributes:
        header: the name of a header field, in lower case.
    """

    header: bytes

    def __str__(self) -> str:
        return f"header:{self.header.decode('ascii')}"


@dataclass(frozen=True, slots=True)
class Policies:
    """What the annotations of a Revision choose; the default is Knative's behaviour.

    Attributes:
        load_balancing: a name in ``throttler.balancing.POLICIES``; empty for the choice by
            containerConcurrency.
        hash_key: what a policy that wants a key gets of each request; None without the annotation.
    """

    load_balancing: str = ""
    hash_key: HashKey | None = None


#: Those of a Revision without annotations.
NO_POLICIES: Final = Policies()


@dataclass(frozen=True, slots=True)
class Revision:
    """What the throttler needs to know of a Revision object.

    Attributes:
        uid: identity of the object; a new uid under the same name is another revision.
        container_concurrency: requests that one pod may have at a time; 0 means no limit.
        timeout: seconds from arrival to the last byte of the answer (``timeoutSeconds``).
        response_start_timeout: seconds from arrival to the first byte of the answer; 0 is off.
        idle_timeout: seconds without a byte of the answer; 0 is off.
        readiness: what makes a pod usable.
        full_duplex: whether the pod answers while it still reads the request, as a rule.
        probe: how a pod is asked whether it is ready.
        policies: what its annotations choose.
    """

    id: RevisionID
    uid: str = ""
    container_concurrency: int = 0
    protocol: AppProtocol = AppProtocol.HTTP1
    timeout: float = 300.0
    response_start_timeout: float = 0.0
    idle_timeout: float = 0.0
    readiness: ReadinessRule = ReadinessRule.PROBE
    full_duplex: bool = False
    service: str = ""
    configuration: str = ""
    probe: ProbeSpec = _TCP
    policies: Policies = NO_POLICIES

    @property
    def probe_suffices(self) -> bool:
        """Whether a pod that passed our own probe may be used although Kubernetes does not list it
        as ready."""
        return self.readiness is ReadinessRule.PROBE


class Endpoint(NamedTuple):
    """One pod as the Endpoints object lists it: ``ip:port`` (IPv6 in brackets) and the pod's uid.

    The uid is empty where Endpoints names no target; then the address alone is the identity.
    """

    address: str
    uid: str = ""


@dataclass(frozen=True, slots=True)
class ListedEndpoints:
    """The pods of a revision, as Kubernetes sees them. An address is in one of the two sets."""

    ready: frozenset[Endpoint] = field(default_factory=frozenset)
    not_ready: frozenset[Endpoint] = field(default_factory=frozenset)
