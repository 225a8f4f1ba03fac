"""Reads the annotations of a Service into one typed record: one table, one row per annotation.

docs/reference.md has the table; ``python -m tests.activator.plain.reference`` prints it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import Any, Final, NamedTuple

from activator.kpa.decision import ScaleRules
from activator.objects import policies
from activator.objects.fields import Field, Problems
from activator.objects.readers import Members, Number, Reader, Text, enum_of, members, switch, words
from activator.plain import awake_hours
from throttler.model import NO_POLICIES, Policies, ProbeKind
from throttler.request_policies import ConnectionPolicies, HeaderRule, ProxyHeader

_MOST: Final = 2**31 - 1
_MOST_HOSTS: Final = 256
#: A part of a DNS name (RFC 1123 section 2.1), in lower case or not.
_PART: Final = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#: The name of a port, or of a Service.
_LABEL: Final = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_TARGET: Final = (
    "(?:[a-z0-9][a-z0-9.-]{0,252}/v[a-z0-9]{1,62}/)?"
    "[A-Za-z][A-Za-z0-9]{0,62}/[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?"
)
#: The request target of an HTTP probe is visible ASCII, as kubelet sends it.
_PROBE: Final = "(?:tcp|none|grpc):?|grpc:[A-Za-z0-9_.-]{1,253}|http:/[!-~]*"
#: A name of a field, perhaps with one of its values.
_FIELD: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}[ \t]*(?:: *(?:[!-~](?:[ -~]*[!-~])?)?)?"
#: The type of a condition may have a prefix, as in ``cnpg.io/hibernation``.
_CONDITION: Final = "[A-Za-z0-9][A-Za-z0-9./_-]{0,315}=(?:True|False|Unknown)"
_URL: Final = 'https?://[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?(?::[1-9][0-9]{0,4})?/[!"$-~]*'
#: From 1m on, and below 1000.
_CPU: Final = r"(?:[1-9][0-9]{0,5}m|[1-9][0-9]{0,2}(?:\.[0-9]{1,3})?|0\.0{0,2}[1-9][0-9]{0,2})"
#: The smallest CPU limit of kernels, in thousandths.
LEAST_LIMIT: Final = 10
#: Characters of a merge patch.
_MOST_PATCH: Final = 4096
#: Objects and lists in it. Python reads no JSON of 1,000 levels.
_MOST_PARTS: Final = 200
#: What a patch of a waker must leave alone: which object it is, and who keeps it.
_OWN: Final = ("apiVersion", "kind")
_OWN_METADATA: Final = (
    *("finalizers", "name", "namespace", "ownerReferences", "resourceVersion", "uid"),
)


class Owner(Enum):
    """Which component scales a workload above one replica, and down again."""

    SELF = "self"
    KEDA = "keda"
    HPA = "hpa"
    NONE = "none"


class Route(Enum):
    """How requests get to the activator.

    SHARED: an ingress sends them to the activator's Service. TAKEOVER: the activator's addresses
    are endpoints of the Service while its pods cannot take requests. FRONT: the Service has no
    selector, and all its endpoints come from the scaler: activators or pods, never both.
    UNREADABLE: the annotation is wrong; as SHARED, but the scaler leaves the endpoints as they are.
    """

    SHARED = "shared"
    TAKEOVER = "takeover"
    FRONT = "front"
    UNREADABLE = ""

    @property
    def has_slices(self) -> bool:
        """Whether the scaler writes EndpointSlices for the Service."""
        return self in (Route.TAKEOVER, Route.FRONT)


class ReadinessPolicy(Enum):
    """What makes a pod usable: the activator's probe, or also Kubernetes' list of ready pods."""

    AUTO = "auto"
    PROBE = "probe"
    KUBERNETES = "kubernetes"


class WakerName(Enum):
    """How the workload sleeps and wakes; ``activator.scale.wakers`` has one file each."""

    SCALE = "scale"
    PATCH = "patch"
    HTTP = "http"
    RESIZE = "resize"


class NamedCondition(NamedTuple):
    """A condition of an object's status, as in ``Ready=True``."""

    type: str
    status: str

    def __str__(self) -> str:
        return f"{self.type}={self.status}"


class Cpu(NamedTuple):
    """Request and limit of a container in thousandths of a CPU; 0 for none."""

    request: int
    limit: int


class AsleepWhen(NamedTuple):
    """What the JSON object of a response has while its server sleeps; ``value`` is JSON."""

    member: str
    value: str


@dataclass(frozen=True, slots=True)
class Timeouts:
    """The limits of time of a request, in seconds; 0 for no limit.

    Attributes:
        total: from its arrival to the end of its response; of a connection, only the wait.
        response_start: until its response begins.
        idle: without a byte of its response.
    """

    total: float = 300.0
    response_start: float = 0.0
    idle: float = 0.0


@dataclass(frozen=True, slots=True)
class TcpWords:
    """What a Service asks for about connections whose bytes pass as they come.

    Attributes:
        chosen: whether bytes pass so.
        policies: when a connection is load, and its first bytes.
        is_direct: whether new connections go to ready pods directly.
        listen_port: where ``activator local`` listens for the Service; 0 for nowhere.
    """

    chosen: bool = False
    policies: ConnectionPolicies = ConnectionPolicies()  # noqa: RUF009  # frozen, all may share it
    is_direct: bool = False
    listen_port: int = 0


@dataclass(frozen=True, slots=True)
class WakerWords:
    """The words of a waker.

    Attributes:
        name: which waker; None for the one of the target's kind.
        sleep_patch, wake_patch: merge patches of the target, as JSON; empty for the kind's.
        awake_condition: what the target must show before it counts as awake; None for nothing.
        sleep_url, wake_url, state_url: paths of each pod, or URLs; empty for the profile's.
        asleep_when: what ``state_url`` responds while the pods sleep; None for the profile's.
        profile: whether the profile is ``vllm-sleep``.
        parked_cpu: what each container of a parked pod keeps; None for the default.
        startup_cpu: the CPU limit of pods that start, in thousandths; 0 for the template's.
    """

    name: WakerName | None = None
    sleep_patch: str = ""
    wake_patch: str = ""
    awake_condition: NamedCondition | None = None
    sleep_url: str = ""
    wake_url: str = ""
    state_url: str = ""
    asleep_when: AsleepWhen | None = None
    profile: bool = False
    parked_cpu: Cpu | None = None
    startup_cpu: int = 0


#: The words of nearly all Services: one object, so that they are quick to tell from others.
NO_WORDS: Final = WakerWords()


class NamedTarget(NamedTuple):
    """The object that is scaled; ``group`` and ``version`` are empty if the kind implies them."""

    group: str
    version: str
    kind: str
    name: str

    def __str__(self) -> str:
        return "/".join(part for part in self if part)


class ChosenProbe(NamedTuple):
    """The probe that an annotation asks for; ``argument`` is a path, or a gRPC service."""

    kind: ProbeKind
    argument: str = ""


# -- values ----------------------------------------------------------------------------------------


def whole(minimum: int, most: int = _MOST) -> Reader[int]:
    """Return a reader of integers from ``minimum`` to ``most``."""
    return Reader(Number(minimum, most), f"an integer from {minimum} to {most}", int)


def _target(text: str) -> NamedTarget:
    *group, kind, name = text.split("/")
    return NamedTarget._make([*(group or ("", "")), kind, name])


def _header(text: str) -> HeaderRule:
    name, colon, value = map(str.strip, text.partition(":"))
    return HeaderRule(name.lower().encode(), value.encode() if colon else None)


def _probe(text: str) -> ChosenProbe:
    kind, _, argument = text.partition(":")
    return ChosenProbe(ProbeKind(kind), argument)


def _patch(text: str) -> str:
    if text.count("{") + text.count("[") > _MOST_PARTS:
        raise ValueError(f"more than {_MOST_PARTS} objects and lists")
    found = json.loads(text, parse_constant=_no_constant)
    metadata = found.get("metadata", {})
    named = [name for name in _OWN if name in found]
    if isinstance(metadata, dict):
        named += [f"metadata.{name}" for name in _OWN_METADATA if name in metadata]
    else:
        named.append("metadata as a whole")
    if named or not found:
        raise ValueError(f"a patch must not change {', '.join(named)}" if named else "it is empty")
    return json.dumps(found, sort_keys=True, separators=(",", ":"))


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _asleep_when(text: str) -> AsleepWhen:
    member, _, value = map(str.strip, text.partition("="))
    is_json = re.fullmatch(r"true|false|null|-?\d{1,15}(\.\d{1,6})?", value, re.ASCII)
    return AsleepWhen(member, value if is_json else json.dumps(value.strip('"')))


def _cpu(text: str) -> int:
    return int(text[:-1]) if text.endswith("m") else round(float(text) * 1000)


def _parked_cpu(text: str) -> Cpu:
    request, *limit = map(_cpu, text.split("/"))
    found = Cpu(request, *(limit or [max(request, LEAST_LIMIT)]))
    if found.request > found.limit:
        raise ValueError("the limit is below the request")
    return found


SECONDS: Final = Reader(
    Number(0, _MOST), f"a number of seconds, an integer from 0 to {_MOST}, such as 60", float
)
#: Up to 10 s, in seconds.
MILLISECONDS: Final = Reader(
    Number(0, 10_000), "an integer from 0 to 10000", lambda text: int(text) / 1000
)
#: Of requests, or of requests per second.
CONCURRENCY: Final = Reader(
    Number(0.01, 999_999_999, decimals=6), "a number from 0.01 to 999999999", float
)
HOSTS: Final = members(
    Text(rf"(?:\*\.)?{_PART}(?:\.{_PART})*\.?", 253),
    _MOST_HOSTS,
    "DNS names, as in hello.example.com,*.example.com",
    lambda host: host.lower().rstrip("."),
)
PATHS: Final = members(
    Text(r"/[^?#%,\x00-\x1f\x7f]*"),
    _MOST_HOSTS,
    "paths, as in /api,/v2",
    lambda path: path.strip("/"),
)
HEADERS: Final = members(Text(_FIELD), 16, "header fields, as in x-beta,x-version: 2", _header)
#: Times of the clock in a time zone.
HOURS: Final = Reader(
    Members(Text(awake_hours.SPAN), awake_hours.MOST_SPANS, ";"),
    "spans as in Mon-Fri 08:00-18:00 Europe/Berlin",
    awake_hours.parse,
)
TARGET: Final = Reader(
    Text(_TARGET), "KIND/NAME or GROUP/VERSION/KIND/NAME, as in deployment/hello", _target
)
_PORT: Final = Reader(Text(_LABEL), "the name or the number of a port of the Service", str)
_SERVICE: Final = Reader(Text(_LABEL), "the name of a Service in the same namespace", str)
SERVICES: Final = members(
    Text(f"(?:{_LABEL}/)?{_LABEL}"), 32, "Services, as in backend,other-namespace/cache", str
)
NAMESPACES: Final = members(Text(_LABEL), 32, "namespaces, separated by commas", str)
PROBE: Final = Reader(Text(_PROBE), "http:/PATH, tcp, grpc, grpc:SERVICE or none", _probe)
PATCH: Final = Reader(
    Text(r"\{(?s:.+)\}", _MOST_PATCH),
    f'a JSON object of at most {_MOST_PATCH} characters, as in {{"spec": {{"stop": true}}}}',
    _patch,
)
CONDITION: Final = Reader(
    Text(_CONDITION),
    "TYPE=STATUS, as in Ready=True; STATUS is True, False or Unknown",
    lambda text: NamedCondition(*text.split("=")),
)
URL: Final = Reader(
    Text(f"/[!-~]*|{_URL}"), "a path of the pods, as in /sleep, or http://SERVICE[:PORT]/PATH", str
)
ASLEEP_WHEN: Final = Reader(
    Text(r"[A-Za-z0-9_.-]{1,63}[ \t]*=(?s:.+)"),
    "MEMBER = VALUE of a JSON object, as in is_sleeping = true",
    _asleep_when,
)
CPU: Final = Reader(Text(_CPU), "CPU below 1000, as in 500m or 2", _cpu)
PARKED_CPU: Final = Reader(
    Text(f"{_CPU}(?:/{_CPU})?"), "REQUEST or REQUEST/LIMIT, as in 1m/10m", _parked_cpu
)

PREFIX: Final = policies.PREFIX
ENABLED: Final = f"{PREFIX}enabled"
ENABLES: Final = switch()

PROTOCOL: Final = f"{PREFIX}protocol"
#: The annotations that have a meaning only with protocol ``tcp``.
OF_CONNECTIONS: Final = (
    *("wake-after-milliseconds", "keep-awake", "send-proxy", "warm-path", "listen-port"),
)
#: The annotations for requests of HTTP alone, except the ones whose value decides.
OF_REQUESTS: Final = (
    *policies.OF_HTTP,
    *(f"{PREFIX}{name}" for name in ("hosts", "paths", "headers")),
    *(f"{PREFIX}{name}" for name in ("response-start-timeout-seconds", "idle-timeout-seconds")),
)
#: The asleep mark: no activator sends a request to a pod of a Service that has it. Its value has
#: the annotations that wake the workload, see ``activator.scale.asleep``.
ASLEEP: Final = f"{PREFIX}asleep"

_WAKER: Final = "waker."


# -- the table -------------------------------------------------------------------------------------


class AnnotationRow(NamedTuple):
    """One annotation.

    Attributes:
        attribute: the attribute of ``Annotations``; one of its ``scale``, ``waker``,
            ``timeouts`` or ``tcp`` with that prefix; of policies of connections ``connections``.
        read: reads the value, and has the expression of the admission policy.
        values, default, meaning: for people.
    """

    attribute: str
    read: Reader[Any]
    values: str
    default: str
    meaning: str


def _words(values: type[Enum]) -> str:
    return ", ".join(f"`{each.value}`" for each in values if each.value)


_PROTOCOLS: Final = replace(
    words({"http": False, "tcp": True}),
    allowed="one of http, tcp (a name such as postgresql belongs in appProtocol of the port)",
)

#: All annotations but ``enabled``, by name without the prefix.
TABLE: Final[Mapping[str, AnnotationRow]] = {
    "target": AnnotationRow(
        *("target", TARGET, "`KIND/NAME` or `GROUP/VERSION/KIND/NAME`"),
        "the one Deployment or StatefulSet that the selector matches",
        "The object that is scaled. With the waker `scale` it has a `scale` subresource.",
    ),
    "waker": AnnotationRow(
        *("waker.name", enum_of(WakerName), _words(WakerName), "that of the target's kind"),
        "How the workload sleeps and wakes, see [anything can sleep](how-to/wakers.md).",
    ),
    "sleep-patch": AnnotationRow(
        *("waker.sleep_patch", PATCH, "JSON object", "that of the target's kind"),
        "With waker `patch`: the merge patch that puts the target to sleep.",
    ),
    "wake-patch": AnnotationRow(
        *("waker.wake_patch", PATCH, "JSON object", "that of the target's kind"),
        "With waker `patch`: the merge patch that wakes the target.",
    ),
    "awake-condition": AnnotationRow(
        *("waker.awake_condition", CONDITION, "`TYPE=STATUS`", ""),
        "With waker `patch`: the condition without which the target is not awake yet.",
    ),
    "parked-cpu": AnnotationRow(
        *("waker.parked_cpu", PARKED_CPU, "CPU, as `REQUEST` or `REQUEST/LIMIT`", "`1m/10m`"),
        "With waker `resize`: what each container of a parked pod keeps, at most.",
    ),
    "startup-cpu": AnnotationRow(
        *("waker.startup_cpu", CPU, "CPU, as in `2` or `500m`", ""),
        "The CPU limit of a container until its pod is ready, where it has a smaller one.",
    ),
    "sleep-url": AnnotationRow(
        *("waker.sleep_url", URL, "path of each pod, or `http://SERVICE[:PORT]/PATH`"),
        "that of the profile",
        "With waker `http`: the scaler sends a POST there, to put the pods to sleep.",
    ),
    "wake-url": AnnotationRow(
        *("waker.wake_url", URL, "as `sleep-url`", "that of the profile"),
        "With waker `http`: the scaler sends a POST there, to wake the pods.",
    ),
    "state-url": AnnotationRow(
        *("waker.state_url", URL, "as `sleep-url`", "that of the profile"),
        "With waker `http`: a GET there responds with a JSON object.",
    ),
    "asleep-when": AnnotationRow(
        *("waker.asleep_when", ASLEEP_WHEN, "`MEMBER = VALUE`", "that of the profile"),
        "With waker `http`: what that object has while the pods sleep, as in `is_sleeping = true`.",
    ),
    "hosts": AnnotationRow(
        *("hosts", HOSTS, "DNS names, separated by commas; `*.` may come first", ""),
        "More hosts of the Service, for traffic through the shared port.",
    ),
    "paths": AnnotationRow(
        *("paths", PATHS, "prefixes of paths, separated by commas", ""),
        "Of the requests for `hosts`, only those below one of these paths, by whole segments. The "
        "longest path of a host counts.",
    ),
    "headers": AnnotationRow(
        *("headers", HEADERS, "`NAME` or `NAME: VALUE`, separated by commas", ""),
        "Of the requests for `hosts`, only the ones that have all of these header fields. More "
        "fields count before fewer. A value has no comma.",
    ),
    "port": AnnotationRow(
        *("port", _PORT, "name or number of a port of the Service"),
        "the only port, or the one named `http`, `http1`, `h2c`, `http2` or `grpc`",
        "The port whose requests are buffered.",
    ),
    "protocol": AnnotationRow(
        *("tcp.chosen", _PROTOCOLS, "`http`, `tcp`"),
        "`tcp` if `appProtocol` of the port names such a protocol, as `postgresql`; else `http`",
        "With `tcp`, the bytes of each connection pass as they come. A connection counts as one "
        "request.",
    ),
    "wake-after-milliseconds": AnnotationRow(
        *("connections.wake_after", MILLISECONDS, "integer from 0 to 10000", "`100`"),
        "With `tcp`: a client that has sent no byte wakes the workload after this time.",
    ),
    "keep-awake": AnnotationRow(
        *("connections.by_bytes", words({"connections": False, "bytes": True})),
        *("`connections`, `bytes`", "`connections`"),
        "With `tcp`: the connections that are load, all open ones or only the ones on which bytes "
        "pass. With `bytes`, idle connections end when the workload sleeps.",
    ),
    "send-proxy": AnnotationRow(
        *("connections.send_proxy", enum_of(ProxyHeader), _words(ProxyHeader), "none"),
        "With `tcp`: the PROXY header that a pod gets before the first byte.",
    ),
    "warm-path": AnnotationRow(
        *("tcp.is_direct", words({"activators": False, "direct": True})),
        *("`activators`, `direct`", "`activators`"),
        "With `tcp` and route `front`: whether new connections go to ready pods directly. `direct` "
        "needs `min-scale` of at least 1.",
    ),
    "listen-port": AnnotationRow(
        *("tcp.listen_port", whole(1, 65_535), "integer from 1 to 65535", ""),
        "With `tcp`, only for `activator local`: the port on which the activator listens for the "
        "Service.",
    ),
    "container-concurrency": AnnotationRow(
        *("container_concurrency", whole(0), "integer from 0", "`0`"),
        "Requests that one pod has at a time; 0 for no limit.",
    ),
    "timeout-seconds": AnnotationRow(
        *("timeouts.total", SECONDS, "integer from 0", "`300`"),
        "Seconds from the arrival of a request to the first byte of its response; 0 for no limit.",
    ),
    "response-start-timeout-seconds": AnnotationRow(
        *("timeouts.response_start", SECONDS, "integer from 0", "`0`"),
        "Seconds from the arrival of a request to the start of its response; 0 for no limit.",
    ),
    "idle-timeout-seconds": AnnotationRow(
        *("timeouts.idle", SECONDS, "integer from 0", "`0`"),
        "Seconds without a byte of the response; 0 for no limit.",
    ),
    "readiness-policy": AnnotationRow(
        *("readiness", enum_of(ReadinessPolicy), _words(ReadinessPolicy), "`auto`"),
        "What makes a pod usable: the activator's probe, or also Kubernetes' list.",
    ),
    "probe": AnnotationRow(
        *("probe", PROBE, "`http:/PATH`, `tcp`, `grpc`, `grpc:SERVICE`, `none`"),
        "the readiness probe of the container, if it is on that port; else `tcp`",
        "How the activator probes a pod. With `none`, Kubernetes' list decides alone.",
    ),
    "route": AnnotationRow(
        *("route", enum_of(Route, Route.UNREADABLE), _words(Route), "`shared`"),
        "How requests get to the activator.",
    ),
    "pods-service": AnnotationRow(
        *("pods_service", _SERVICE, "name of a Service in the namespace", ""),
        "With route `front`: the Service whose selector finds the pods.",
    ),
    "owner": AnnotationRow(
        *("owner", enum_of(Owner, Owner.NONE), _words(Owner), "`self`"),
        "What scales the workload above one replica, and down again.",
    ),
    "min-scale": AnnotationRow(
        *("scale.min_scale", whole(0), "integer from 0", "`0`"),
        "Replicas that the workload has even without a request.",
    ),
    "max-scale": AnnotationRow(
        *("scale.max_scale", whole(0), "integer from 0", "`0`"),
        "Replicas that the workload never exceeds; 0 for no limit.",
    ),
    "target-concurrency": AnnotationRow(
        *("scale.target", CONCURRENCY, "number from 0.01", "container-concurrency, else `100`"),
        "Concurrent requests that one pod is meant for.",
    ),
    "target-rate": AnnotationRow(
        *("scale.target_rate", CONCURRENCY, "number from 0.01", "no limit"),
        "Requests per second that one pod is meant for, with owner `self`, beside "
        "`target-concurrency`. The larger number of pods counts.",
    ),
    "idle-seconds": AnnotationRow(
        *("scale.idle", SECONDS, "integer from 0", "`300`"),
        "Seconds from the end of the last request to scale to zero.",
    ),
    "activation-scale": AnnotationRow(
        *("scale.activation_scale", whole(1), "integer from 1", "`1`"),
        "Replicas that the workload has at least while it is awake; with another owner than "
        "`self`, only a cold start asks for them.",
    ),
    "awake": AnnotationRow(
        *("awake", HOURS, "`DAYS HH:MM-HH:MM ZONE`, separated by semicolons", ""),
        "When the workload stays awake without requests, as in `Mon-Fri 08:00-18:00 "
        "Europe/Berlin`. Without a time zone: UTC. Not with owner `none`.",
    ),
    "wake-with": AnnotationRow(
        *("wake_with", SERVICES, "`NAME` or `NAMESPACE/NAME`, separated by commas", ""),
        "Services that a request to this sleeping one wakes, too. One of another namespace must "
        "allow it by `wake-from`.",
    ),
    "wake-from": AnnotationRow(
        *("wake_from", NAMESPACES, "namespaces, separated by commas", ""),
        "Other namespaces whose Services may name this one in `wake-with`.",
    ),
    "dry-run": AnnotationRow(
        *("dry_run", switch(), "`true`, `false`", "`false`"),
        "Changes no replicas of an awake workload. The scaler shows when it would sleep.",
    ),
    "initial-scale": AnnotationRow(
        *("scale.initial_scale", whole(0), "integer from 0", "`1`"),
        "Replicas that a cold start asks for; 0 counts as 1. With owner `self` none of them goes "
        "until 60 s after all were ready, or until the Service sleeps.",
    ),
}

#: The annotations that say how a workload sleeps and wakes; the asleep mark keeps them.
WAKER_WORDS: Final = (
    "target",
    *(
        name
        for name, row in TABLE.items()
        if row.attribute.startswith(_WAKER) and name != "startup-cpu"  # of pods that are awake
    ),
    policies.PROFILE.removeprefix(PREFIX),
)
#: Annotations whose default may be another workload, act, port or protocol than the one that is
#: meant.
_ESSENTIAL: Final = (*WAKER_WORDS, "port", "pods-service", "protocol")

#: The reader of each annotation of a Service, by its full name.
READERS: Final[Mapping[str, Reader[Any]]] = {
    ENABLED: ENABLES,
    **{PREFIX + name: row.read for name, row in TABLE.items()},
    **policies.READERS,
}
#: The annotations that some module reads.
KNOWN: Final = (ASLEEP, *READERS)

SINCE_TCP: Final = f"since {PROTOCOL} is tcp"
#: What a TCP Service may have for the annotations about requests of HTTP, also for people.
WITH_TCP: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    **dict.fromkeys(OF_REQUESTS, (("",), "no such annotation")),
    **dict.fromkeys(policies.KEYS, (("", "client-ip"), "client-ip")),
}
MOST_SCALE: Final = f"{PREFIX}max-scale"
SCALE_LIMIT: Final = "0 or at least min-scale, which is "


# -- the record, and its reader --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Annotations:
    """What the annotations of a Service ask for.

    Attributes:
        target: the object that is scaled; None for the one that the selector matches.
        hosts: hosts of the Service beside its names in the cluster, in lower case.
        paths, headers: requests for these hosts must match one of the paths, and all headers.
        port: name or number of the Service port; empty for the default.
        container_concurrency: requests that one pod may have at a time; 0 for no limit.
        timeouts: the limits of time of a request.
        readiness: what makes a pod usable.
        probe: the activator's probe; None for the one of the container.
        route: how requests get to the activator.
        pods_service: with route ``front``: the Service whose selector finds the pods.
        owner: what scales the workload.
        scale: the numbers of the autoscaler.
        waker: how the workload sleeps and wakes.
        wake_with: Services to wake with this one, as ``NAME`` or ``NAMESPACE/NAME``.
        wake_from: other namespaces whose Services may wake this one.
        awake: when the workload has a replica also without a request.
        dry_run: whether nothing is put to sleep, and only counted.
        policies: which pod gets a request, how many requests a pod gets, and which is next.
        tcp: whether bytes pass as they come, and how.
    """

    target: NamedTarget | None = None
    hosts: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    headers: tuple[HeaderRule, ...] = ()
    port: str = ""
    container_concurrency: int = 0
    timeouts: Timeouts = Timeouts()
    readiness: ReadinessPolicy = ReadinessPolicy.AUTO
    probe: ChosenProbe | None = None
    route: Route = Route.SHARED
    pods_service: str = ""
    owner: Owner = Owner.SELF
    scale: ScaleRules = ScaleRules()  # noqa: RUF009  # frozen, so all may share it
    waker: WakerWords = NO_WORDS
    wake_with: tuple[str, ...] = ()
    wake_from: tuple[str, ...] = ()
    awake: awake_hours.AwakeHours = awake_hours.NEVER
    dry_run: bool = False
    policies: Policies = NO_POLICIES
    tcp: TcpWords = TcpWords()

    @property
    def is_bypassed(self) -> bool:
        """Whether clients connect to ready pods, so that the activators see no such request.

        With route ``front`` they do, unless each request needs an activator. A connection may last
        for hours, so it stays in the path of the activators.
        """
        if self.route is not Route.FRONT:
            return self.route is Route.TAKEOVER
        if self.tcp.chosen:
            return self.tcp.is_direct
        return not (self.container_concurrency or self.policies.concern_each)

    def with_a_replica(self) -> Annotations:
        """Return the same, with at least one replica at all times."""
        least = max(self.scale.min_scale, 1)
        return replace(self, scale=replace(self.scale, min_scale=least))


def is_enabled(metadata: Field) -> bool:
    """Return whether an object opts in.

    Raises:
        ManifestError: the annotation has another value than ``true`` and ``false``.
    """
    return ENABLES(metadata["annotations"].at(ENABLED)) or False


def read(metadata: Field, problems: Problems, since: str = "") -> Annotations:
    """Return what the annotations of a Service ask for, with a safe default for each wrong value.

    Arguments:
        metadata: of the Service.
        since: why its protocol is TCP, if no annotation chooses one; empty for HTTP.
        problems: gets an error for each wrong value, and for values that contradict each other.

    Raises:
        ManifestError: the annotations are no object.
    """
    annotations = metadata["annotations"]
    protocol = str(annotations.at(PROTOCOL).value or "").strip()
    why = {"tcp": SINCE_TCP, "": since}.get(protocol, "")
    if why:
        annotations = _of_connections(annotations, why, problems)
    found = {
        row.attribute: value
        for name, row in TABLE.items()
        for field in [annotations.at(PREFIX + name)]
        if (value := problems.read(partial(row.read, field), essential=name in _ESSENTIAL))
        is not None
    }
    scale, waker = _within("scale.", found), _within(_WAKER, found)
    connections = ConnectionPolicies(**_within("connections.", found))
    tcp = TcpWords(**{**_within("tcp.", found), "chosen": bool(why)}, policies=connections)
    timeouts = Timeouts(**_within("timeouts.", found))
    if concurrency := found.get("container_concurrency"):
        scale.setdefault("target", float(concurrency))
    least, most = scale.get("min_scale", 0), scale.get("max_scale", 0)
    if 0 < most < least:
        limit = annotations.at(MOST_SCALE)
        problems.read(lambda: limit.expected(f"{SCALE_LIMIT}{least}"))
        del scale["min_scale"], scale["max_scale"]
    if () in (found.get("paths"), found.get("headers")):
        found.pop("hosts", None)  # a wrong rule must not take all requests of the hosts
    if found.get("route") is Route.UNREADABLE:
        found["owner"] = Owner.NONE  # the activators may not see the load, which asks for replicas
    chosen = problems.read(partial(policies.parse, annotations)) or NO_POLICIES
    if str(annotations.at(policies.PROFILE).value).strip() == policies.VLLM_SLEEP:
        waker["profile"] = True
    return Annotations(
        **found,
        scale=ScaleRules(**scale),
        waker=WakerWords(**waker) if waker else NO_WORDS,
        policies=replace(chosen, connections=connections) if why else chosen,
        tcp=tcp,
        timeouts=timeouts,
    )


def _of_connections(annotations: Field, why: str, problems: Problems) -> Field:
    """Return the annotations without those about requests of HTTP, which are errors."""
    known = dict(annotations.mapping())
    for name, (allowed, wanted) in WITH_TCP.items():
        field = annotations.at(name)
        if field.value is not None and str(field.value).strip() not in allowed:
            problems.read(partial(field.expected, f"{wanted}, {why}"))
            del known[name]
    return Field(known, annotations.subject, annotations.path)


def _within(prefix: str, found: dict[str, Any]) -> dict[str, Any]:
    """Remove and return the values of one attribute's own attributes."""
    return {
        name.removeprefix(prefix): found.pop(name)
        for name in list(found)
        if name.startswith(prefix)
    }
