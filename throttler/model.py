"""The values that the throttler gets: revisions, endpoints, probes, and policies of annotations.

Plain records without rules; the other modules of this package have the rules. Knative's
counterparts: pkg/apis/serving/v1 (Revision) and pkg/activator/net/revision_backends.go (dests).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from math import inf
from typing import Final, NamedTuple, final

from throttler.request_policies import (
    NORMAL,
    ConnectionPolicies,
    InterceptorRules,
    RequestPolicies,
    RouteRule,
    WhileWaiting,
)

# How the activator probes a pod, and which response means that the pod is ready.
#
# The reader of a revision makes one value, and the prober follows it. To add a kind of probe, add
# a ``ProbeKind``, its fields here, and its request in ``activator.probing.probe``.


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


class RevisionKind(StrEnum):
    """The kind of object behind a revision; the API shows the value.

    REVISION: a Revision of Knative. SERVICE: a Service of Kubernetes that opts in. HTTP_ROUTE: an
    HTTPScaledObject or an InterceptorRoute of the KEDA HTTP add-on. FALLBACK: the Service that
    gets the requests of such an object when no pod is ready in time.
    """

    REVISION = "revision"
    SERVICE = "service"
    HTTP_ROUTE = "http-route"
    FALLBACK = "fallback"


class RevisionID(NamedTuple):
    """Namespace, name and kind of a revision; each has a queue and pods of its own.

    A Revision and a Service with one name are two revisions.
    """

    namespace: str
    name: str
    kind: RevisionKind = RevisionKind.REVISION

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class AppProtocol(Enum):
    """The protocol of a revision's pods; of HTTP, the value is the name of the container port.

    TCP: of a plain Service whose bytes pass as they come; nothing parses them.
    """

    HTTP1 = "http1"
    H2C = "h2c"
    TCP = "tcp"

    @property
    def port_name(self) -> str:
        """The name of the Endpoints port for a protocol of ``HTTP_PROTOCOLS``."""
        return "http" if self is AppProtocol.HTTP1 else "http2"


#: The protocols that a Revision of Knative may have.
HTTP_PROTOCOLS: Final = (AppProtocol.HTTP1, AppProtocol.H2C)


class MeshMode(Enum):
    """Whether pods are reachable at their own addresses (``mesh-compatibility-mode``)."""

    AUTO = "auto"
    ENABLED = "enabled"
    DISABLED = "disabled"


class ReadinessRule(Enum):
    """The rule that makes a pod of a revision usable; the API shows the value.

    PROBE: the pod passed a probe of the activator. With every other rule, Kubernetes must also list
    the pod as ready. The reason is a container probe that only kubelet runs, or the readiness
    policy. NO_PROBE: Kubernetes' list is enough, and the activator does not probe.
    """

    PROBE = "probe"
    EXEC_READINESS_PROBE = "exec-readiness-probe"
    STARTUP_PROBE = "startup-probe"
    SIDECAR_READINESS_PROBE = "sidecar-readiness-probe"
    KUBERNETES_POLICY = "kubernetes-policy"
    NO_PROBE = "no-probe"


_TCP: Final = ProbeSpec()
#: A time-out that never passes, seconds: the longest that an annotation may set. A finite number
#: needs no case of its own in heaps, timers and JSON.
NO_TIMEOUT: Final = 2_147_483_647.0


class KeyKind(StrEnum):
    """The part of a request that is its key; the value is the word of an annotation."""

    HEADER = "header"
    CLIENT_IP = "client-ip"
    PATH = "path"
    COOKIE = "cookie"


@dataclass(frozen=True, slots=True)
class HashKey:
    """The part of a request by which the policy ``hash``, or stickiness, picks a pod.

    Attributes:
        header: the name of a header field, in lower case; empty for another kind.
        kind: which part it is.
    """

    header: bytes = b""
    kind: KeyKind = KeyKind.HEADER

    def __str__(self) -> str:
        if self.kind is KeyKind.HEADER:
            return f"header:{self.header.decode('ascii')}"
        return self.kind.value


class Overflow(StrEnum):
    """What a sticky request does while its pod is full; the API shows the value.

    WAIT: it waits for a slot of that pod. OTHER: another pod gets it.
    """

    WAIT = "wait"
    OTHER = "other"


class AdaptiveMode(StrEnum):
    """Whether responses limit the requests in flight at a pod; the API shows the value.

    OBSERVE: the limit is computed and shown, but never applied.
    """

    OFF = "off"
    OBSERVE = "observe"
    ON = "on"


@dataclass(frozen=True, slots=True)
class FlowKey:
    """The part of a request that names its flow.

    Attributes:
        header: the name of a header field, in lower case; empty for the client's IP address.
    """

    header: bytes = b""

    def __str__(self) -> str:
        return f"header:{self.header.decode('ascii')}" if self.header else "client-ip"


@dataclass(frozen=True, slots=True)
class QueueOrder:
    """How the queue of a revision orders requests, if not by arrival alone.

    Attributes:
        has_classes: whether requests have classes; else all are in one.
        priority: the class of a request that selects none, see throttler.request_policies.
        trusts_header: whether a request may select its class.
        fair_by: the part of a request that names its flow; None: all are in one flow.
        shows_names: whether people may see the names of flows; else only hashes of them.
    """

    has_classes: bool = False
    priority: int = NORMAL
    trusts_header: bool = False
    fair_by: FlowKey | None = None
    shows_names: bool = False


@dataclass(frozen=True, slots=True)
class Policies:
    """The policies that annotations select; the default is Knative's behaviour.

    Attributes:
        load_balancing: a name in ``throttler.balancing.POLICIES``; empty: containerConcurrency
            decides.
        hash_key: the key of each request for a policy that needs one; None without the annotation.
        sticky: the key by which requests stay at one pod; None if they do not.
        sticky_overflow: what a request does while the pod of its key is full.
        adaptive: whether responses limit the requests in flight at a pod. It matters only with
            containerConcurrency 0.
        order: how the queue orders requests; None: by arrival.
        requests: the policies of requests without a pod; None without any.
        connections: the policies of connections; None unless the protocol is TCP.
    """

    load_balancing: str = ""
    hash_key: HashKey | None = None
    sticky: HashKey | None = None
    sticky_overflow: Overflow = Overflow.OTHER
    adaptive: AdaptiveMode = AdaptiveMode.OFF
    order: QueueOrder | None = None
    requests: RequestPolicies | None = None
    connections: ConnectionPolicies | None = None

    def places_like(self, other: Policies) -> bool:
        """Return whether pods get requests alike: ``order`` and later fields may differ."""
        mine = (self.load_balancing, self.hash_key, self.sticky, self.sticky_overflow)
        theirs = (other.load_balancing, other.hash_key, other.sticky, other.sticky_overflow)
        return mine == theirs and self.adaptive is other.adaptive

    @property
    def interceptor(self) -> InterceptorRules | None:
        """What an object of the KEDA HTTP add-on asks for; None for other revisions."""
        return None if self.requests is None else self.requests.interceptor

    @property
    def waiting(self) -> WhileWaiting | None:
        """What a waiting client gets; None: nothing until a pod responds."""
        return None if self.requests is None else self.requests.waiting

    @property
    def concern_each(self) -> bool:
        """Whether they concern each request, also one that finds a free pod."""
        decides = None if self.requests is None else self.requests.authorization
        is_asked = decides is not None and (decides.always or bool(decides.response_headers))
        return is_asked or not self.places_like(NO_POLICIES)


#: The policies of a Revision without annotations.
NO_POLICIES: Final = Policies()


@dataclass(frozen=True, slots=True)
class Revision:
    """The throttler's part of a Revision object.

    Attributes:
        uid: identity of the object; a new uid under the same name is another revision.
        container_concurrency: limit of requests in flight at one pod; 0 means no limit.
        timeout: seconds from arrival to the last byte of the response (``timeoutSeconds``), see
            ``whole_timeout``.
        response_start_timeout: seconds from arrival to the first byte of the response; 0 is off.
        idle_timeout: seconds without a byte of the response; 0 is off.
        readiness: the rule that makes a pod usable.
        full_duplex: whether the application usually responds while it still reads the request.
        service: name of the Knative Service; configuration: name of the Configuration.
        probe: how the activator probes a pod.
        probe_why: why it probes that way; sentences for people, empty for a Revision.
        policies: the policies that its annotations select.
        behind_queue_proxy: whether queue-proxy receives the requests of a pod. If not, no rule
            about its probes, its responses and Knative's network settings applies.
        tls: whether pods without queue-proxy serve TLS; certificates are not verified.
        asleep: whether its workload sleeps, so that no pod may get a request or a probe.
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
    probe_why: str = ""
    policies: Policies = NO_POLICIES
    behind_queue_proxy: bool = True
    tls: bool = False
    asleep: bool = False

    @property
    def whole_timeout(self) -> float:
        """Seconds from arrival to the last byte of the response.

        Infinite without queue-proxy: there ``timeout`` ends with the first byte, since a Service
        has WebSockets and event streams that last for hours.
        """
        return self.timeout if self.behind_queue_proxy else inf

    @property
    def probe_suffices(self) -> bool:
        """Whether a passed probe is enough to use a pod that Kubernetes does not list as ready."""
        return self.readiness is ReadinessRule.PROBE


class Endpoint(NamedTuple):
    """The address of one pod, ``ip:port`` (IPv6 in brackets), and the uid of the pod.

    The uid is empty if Endpoints names no target; then the address alone identifies the pod.
    """

    address: str
    uid: str = ""


@dataclass(frozen=True, slots=True)
class ListedEndpoints:
    """All endpoints of a revision that Kubernetes lists. An address is in one of the sets.

    Attributes:
        ready: from ``addresses``; not_ready: from ``notReadyAddresses``.
        terminating: pods that end but still serve. They get no new requests, unless both other
            sets are empty.
        zones: the zone of each address, where it is known.
    """

    ready: frozenset[Endpoint] = field(default_factory=frozenset)
    not_ready: frozenset[Endpoint] = field(default_factory=frozenset)
    terminating: frozenset[Endpoint] = field(default_factory=frozenset)
    zones: Mapping[str, str] = field(default_factory=dict, hash=False, kw_only=True)


class Taken(NamedTuple):
    """The new owner of an address that moved.

    Attributes:
        by: the revision that owns the address; ready: whether the former owner's object lists it as
            ready.
    """

    by: RevisionID
    ready: bool


class ServiceRoute(NamedTuple):
    """How requests without header fields of an ingress reach a Service, or an object of KEDA.

    Attributes:
        created: ``creationTimestamp`` of the Service; of two equal rules, the older has it.
        rules: a request must match one of them; without any, no request gets here by its host.
        port: where the activator listens for this Service alone; 0 for nowhere.
        reconnect: whether new connections would reach the pods directly. Then the activator asks
            clients on ``port`` to reconnect.
        pods: the name of the Service whose EndpointSlices list its pods.
        is_tcp: whether bytes on ``port`` pass as they come. Then no host names the Service.
    """

    created: str = ""
    rules: tuple[RouteRule, ...] = ()
    port: int = 0
    reconnect: bool = False
    pods: str = ""
    is_tcp: bool = False

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts of all rules, each once."""
        return tuple(dict.fromkeys(host for rule in self.rules for host in rule.hosts))


# Where the requests of a revision may go: to its pods, or to the ClusterIP of its Service.
#
# A table over two settings of the network ConfigMap, and the probe responses that a mesh may
# cause. Knative's counterpart: meshMode and usePassthroughLb in
# pkg/activator/net/revision_backends.go, where *enabled* with addressable pods reaches nothing.

#: Seconds of failed probes after which a pod no longer proves that pods can be reached. By default
#: Kubernetes takes half of this to list a broken pod as not ready: three readiness probes, 10 s
#: apart. With a shorter time, a restart would count as a mesh. A longer time delays the ClusterIP
#: when a mesh, or a network policy, is switched on while pods run.
PROOF_LASTS = 60.0


class Reach(NamedTuple):
    """The destinations that requests may have.

    Attributes:
        pods: pods, at their own addresses.
        service: the ClusterIP; if pods is set too, only while no pod is reachable.
        trusted: whether a pod that Kubernetes lists as ready needs no probe.
    """

    pods: bool = True
    service: bool = True
    trusted: bool = False


#: The default: pods at their own addresses, and the ClusterIP while no pod is reachable.
DEFAULT_REACH: Final = Reach()

_A, _E, _D = MeshMode.AUTO, MeshMode.ENABLED, MeshMode.DISABLED

#: Pods without queue-proxy. The ClusterIP may lead back to the activator.
_PLAIN: Final = Reach(pods=True, service=False, trusted=False)
_PLAIN_TRUSTED: Final = _PLAIN._replace(trusted=True)
#: Pods whose workload sleeps, also if Kubernetes lists them as ready.
_ASLEEP: Final = Reach(pods=False, service=False, trusted=False)

#: By mode, and by whether pods are addressable in spite of the mesh. Each request to an addressable
#: pod names its Service in a header field, so the ClusterIP is not needed.
REACH: Final[dict[tuple[MeshMode, bool], Reach]] = {
    (_A, False): Reach(pods=True, service=True, trusted=False),
    (_E, False): Reach(pods=False, service=True, trusted=False),
    (_D, False): Reach(pods=True, service=False, trusted=True),
    (_A, True): Reach(pods=True, service=False, trusted=False),
    (_E, True): Reach(pods=True, service=False, trusted=False),
    (_D, True): Reach(pods=True, service=False, trusted=True),
}


def reach_of(revision: Revision, knative: Reach) -> Reach:
    """Return the destinations that requests of a revision may have.

    Arguments:
        knative: for pods with queue-proxy, by the network ConfigMap.
    """
    if revision.behind_queue_proxy:
        return knative
    if revision.asleep:
        return _ASLEEP
    return _PLAIN_TRUSTED if revision.readiness is ReadinessRule.NO_PROBE else _PLAIN


def looks_like_mesh(status: int | None) -> bool:
    """Return whether a mesh that blocks direct requests may have caused a failed probe.

    A response with any other status came from the pod, so the pod is reachable. Source: Knative
    pkg/activator/net/revision_backends.go.

    Arguments:
        status: of the response; None without a response (refused, lost, timed out).
    """
    return status is None or status in (502, 503)


# The settings in force for a revision: its specification, and where its requests may go.
#
# The revision's throttler changes them; pods, requests and helpers read them. So these need no
# pointer to the throttler itself.


@final
class RevisionConfig:
    """The configuration of one revision; one object for the whole life of its throttler.

    Attributes:
        revision: its specification.
        reach: the destinations that requests may have.
        last_resort: whether Kubernetes lists only pods that terminate and still serve.
        zones: the zones of its pods, by address.
    """

    __slots__ = ("last_resort", "reach", "revision", "zones")

    def __init__(self, revision: Revision, reach: Reach) -> None:
        self.revision = revision
        self.reach = reach
        self.last_resort = False
        self.zones: Mapping[str, str] = {}
