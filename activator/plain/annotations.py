"""Reads the annotations of a Service into one typed record: one table, one row per annotation.

docs/reference.md has the table; ``python -m activator.plain.annotations`` prints it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import Any, Final, NamedTuple

from activator.kpa.decision import ScaleRules
from activator.objects import policies
from activator.objects.fields import Field, Problems
from activator.plain import awake_hours
from throttler.model import NO_POLICIES, Policies, ProbeKind
from throttler.request_policies import ConnectionPolicies, HeaderRule, ProxyHeader

# Reads the value of one annotation: a word, a number, hosts, a port, an object or a probe.
#
# Each reader returns None for an absent or empty annotation. It raises ManifestError for a value
# that is not allowed; the text names the allowed values.

_MOST: Final = 2**31 - 1
_MOST_HOSTS: Final = 256
_MOST_HEADERS: Final = 16
_MOST_NAMES: Final = 32
#: A DNS name in lower case (RFC 1123 section 2.1), perhaps behind ``*.``.
_HOST: Final = re.compile(
    r"(?=.{1,253}$)(\*\.)?[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*"
)
#: The name of a port, or of a Service.
_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
#: The name of a Service, perhaps behind its namespace.
_SERVICE: Final = re.compile(rf"(?:{_LABEL.pattern}/)?{_LABEL.pattern}")
_TARGET: Final = re.compile(
    r"(?:(?P<group>[a-z0-9][a-z0-9.-]{0,252})/(?P<version>v[a-z0-9]{1,62})/)?"
    r"(?P<kind>[A-Za-z][A-Za-z0-9]{0,62})/(?P<name>[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?)"
)
#: The request target of an HTTP probe: visible ASCII, as kubelet sends it.
_PATH: Final = re.compile(r"/[!-~]{0,1023}")
#: A prefix of a path, decoded.
_PREFIX_PATH: Final = re.compile(r"/[^?#%,\x00-\x1f\x7f]{0,1023}")
#: A name of a field, perhaps with one of its values.
_FIELD: Final = re.compile(r"([!#$%&'*+.^_`|~0-9a-z-]{1,64})(?:: *([!-~](?:[ -~]*[!-~])?)?)?")
#: The type of a condition may have a prefix, as in ``cnpg.io/hibernation``.
_CONDITION: Final = re.compile(r"([A-Za-z0-9][A-Za-z0-9./_-]{0,315})=(True|False|Unknown)")
_URL: Final = re.compile(
    r"https?://[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?(:[1-9][0-9]{0,4})?/[!\"$-~]{0,1023}"
)
#: Thousandths of a CPU. Kernels have no smaller limit than 10.
_MOST_CPU: Final = 1_000_000
LEAST_LIMIT: Final = 10
#: Bytes of a merge patch.
_MOST_PATCH: Final = 4096
#: What a patch of a waker must leave alone: which object it is, and who keeps it.
_OWN: Final = ("apiVersion", "kind")
_OWN_METADATA: Final = (
    *("finalizers", "name", "namespace", "ownerReferences", "resourceVersion", "uid"),
)
_GRPC_SERVICE: Final = re.compile(r"[A-Za-z0-9_.-]{1,253}")


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
        chosen: whether bytes pass so; None if the Service's port decides.
        policies: when a connection is load, and its first bytes.
        is_direct: whether new connections go to ready pods directly.
        listen_port: where ``activator local`` listens for the Service; 0 for nowhere.
    """

    chosen: bool | None = None
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


class Chain(NamedTuple):
    """The Services that wake together.

    Attributes:
        wake_with: Services to wake with this one, as ``NAME`` or ``NAMESPACE/NAME``.
        wake_from: other namespaces whose Services may wake this one.
    """

    wake_with: tuple[str, ...] = ()
    wake_from: tuple[str, ...] = ()


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


#: Returns the value of an annotation; None if it is absent or empty.
Read = Callable[[Field], Any]


def text_of(field: Field) -> str:
    """Return the text of an annotation without white space around it."""
    if field.value is not None and not isinstance(field.value, str):
        field.expected("a string in quotes")
    return field.text().strip()


def one_of(values: Mapping[str, Any], wrong: object = None) -> Read:
    """Return a reader of words.

    Arguments:
        values: the value of each word.
        wrong: the safe default for another word; None for that of an absent annotation.
    """

    def read(field: Field) -> Any:
        text = text_of(field)
        if text and text not in values:
            field.expected(f"one of {', '.join(filter(None, values))}", wrong)
        return values.get(text) if field.value is not None else None

    return read


def whole(minimum: int, maximum: int = _MOST) -> Read:
    """Return a reader of integers from ``minimum`` to ``maximum``."""

    def read(field: Field) -> int | None:
        text = text_of(field)
        if not text:
            return None
        # int() would also take signs, blanks and underscores.
        if not (text.isascii() and text.isdigit() and len(text) <= 10) or not (
            minimum <= int(text) <= maximum
        ):
            field.expected(f"an integer from {minimum} to {maximum}")
        return int(text)

    return read


def seconds(field: Field) -> float | None:
    """Read whole seconds."""
    number = whole(0)(field)
    return None if number is None else float(number)


def milliseconds(field: Field) -> float | None:
    """Read up to 10 s in whole milliseconds; return seconds."""
    number = whole(0, 10_000)(field)
    return None if number is None else number / 1000


def concurrency(field: Field) -> float | None:
    """Read a number of requests, or of requests per second, perhaps with decimals."""
    text = text_of(field)
    if not text:
        return None
    if not re.fullmatch(r"\d{1,9}(\.\d{1,6})?", text, re.ASCII) or float(text) < 0.01:
        field.expected("a number from 0.01 to 999999999")
    return float(text)


def hosts(field: Field) -> tuple[str, ...] | None:
    """Read hosts, in lower case and each once."""
    names = [host.strip().lower().rstrip(".") for host in text_of(field).split(",")]
    found = tuple(dict.fromkeys(filter(None, names)))
    if len(found) > _MOST_HOSTS or not all(map(_HOST.fullmatch, found)):
        field.expected(f"up to {_MOST_HOSTS} DNS names, as in hello.example.com,*.example.com")
    return found or None


def paths(field: Field) -> tuple[str, ...] | None:
    """Read prefixes of paths, without slashes at their ends."""
    found = list(filter(None, map(str.strip, text_of(field).split(","))))
    if len(found) > _MOST_HOSTS or not all(map(_PREFIX_PATH.fullmatch, found)):
        field.expected(f"up to {_MOST_HOSTS} paths, as in /api,/v2", ())
    return tuple(path.strip("/") for path in found) or None


def headers(field: Field) -> tuple[HeaderRule, ...] | None:
    """Read header fields, each with or without a value."""
    rules: list[HeaderRule] = []
    for each in filter(None, map(str.strip, text_of(field).split(","))):
        name, colon, value = each.partition(":")
        found = _FIELD.fullmatch(f"{name.strip().lower()}{colon}{value}")
        if found is None or len(rules) == _MOST_HEADERS:
            field.expected(f"up to {_MOST_HEADERS} header fields, as in x-beta,x-version: 2", ())
        rules.append(HeaderRule(found[1].encode(), (found[2] or "").encode() if colon else None))
    return tuple(dict.fromkeys(rules)) or None


def hours(field: Field) -> awake_hours.AwakeHours | None:
    """Read when a workload stays awake."""
    text = text_of(field)
    try:
        return awake_hours.parse(text) if text else None
    except ValueError as error:
        field.expected(f"spans as in Mon-Fri 08:00-18:00 Europe/Berlin ({error})")


def names(pattern: re.Pattern[str], allowed: str) -> Read:
    """Return a reader of names, separated by commas, each once."""

    def read(field: Field) -> tuple[str, ...] | None:
        found = tuple(dict.fromkeys(filter(None, map(str.strip, text_of(field).split(",")))))
        if len(found) > _MOST_NAMES or not all(map(pattern.fullmatch, found)):
            field.expected(f"up to {_MOST_NAMES} {allowed}")
        return found or None

    return read


def port(field: Field) -> str | None:
    """Read the name or the number of a port."""
    return _label(field, "the name or the number of a port of the Service")


def service(field: Field) -> str | None:
    """Read the name of a Service in the same namespace."""
    return _label(field, "the name of a Service in the same namespace")


def _label(field: Field, allowed: str) -> str | None:
    text = text_of(field)
    if text and not _LABEL.fullmatch(text):
        field.expected(allowed)
    return text or None


def target(field: Field) -> NamedTarget | None:
    """Read the name of the object that is scaled."""
    text = text_of(field)
    if not text:
        return None
    found = _TARGET.fullmatch(text)
    if found is None:
        field.expected("KIND/NAME or GROUP/VERSION/KIND/NAME, as in deployment/hello")
    return NamedTarget(found["group"] or "", found["version"] or "", found["kind"], found["name"])


def merge_patch(field: Field) -> str | None:
    """Read a merge patch, and return it as JSON with sorted names."""
    text = text_of(field)
    if not text:
        return None
    try:
        is_long = len(text.encode()) > _MOST_PATCH
        found = None if is_long else json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not found:
        field.expected(
            f'a JSON object of at most {_MOST_PATCH} bytes, as in {{"spec": {{"stop": true}}}}'
        )
    metadata = found.get("metadata")
    named = [name for name in _OWN if name in found]
    if isinstance(metadata, dict):
        named += [f"metadata.{name}" for name in _OWN_METADATA if name in metadata]
    elif "metadata" in found:
        named.append("metadata as a whole")
    if named:
        field.fail(f"a patch must not change {', '.join(named)}")
    return json.dumps(found, sort_keys=True, separators=(",", ":"))


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def condition(field: Field) -> NamedCondition | None:
    """Read a condition of an object's status."""
    text = text_of(field)
    found = _CONDITION.fullmatch(text)
    if text and found is None:
        field.expected("TYPE=STATUS, as in Ready=True; STATUS is True, False or Unknown")
    return None if found is None else NamedCondition(found[1], found[2])


def waker_url(field: Field) -> str | None:
    """Read a path of each pod, or a URL."""
    text = text_of(field)
    if text and not (_PATH.fullmatch(text) or _URL.fullmatch(text)):
        field.expected("a path of the pods, as in /sleep, or http://SERVICE[:PORT]/PATH")
    return text or None


def asleep_when(field: Field) -> AsleepWhen | None:
    """Read a member of a JSON object, and its value: JSON without white space, else a text."""
    text = text_of(field)
    member, equals, value = map(str.strip, text.partition("="))
    if text and not (equals and value and re.fullmatch(r"[A-Za-z0-9_.-]{1,63}", member)):
        field.expected("MEMBER = VALUE of a JSON object, as in is_sleeping = true")
    if not text:
        return None
    is_json = re.fullmatch(r"true|false|null|-?\d{1,15}(\.\d{1,6})?", value, re.ASCII)
    return AsleepWhen(member, value if is_json else json.dumps(value.strip('"')))


def cpu(field: Field) -> int | None:
    """Read CPU in thousandths."""
    text = text_of(field)
    found = round(Field(text, field.subject, field.path).quantity() * 1000) if text else None
    if found is not None and not 1 <= found <= _MOST_CPU:
        field.expected("CPU from 1m to 1000, as in 500m or 2")
    return found


def parked_cpu(field: Field) -> Cpu | None:
    """Read the CPU of a parked container: the request, perhaps with the limit."""
    parts = [cpu(replace(field, value=part)) for part in text_of(field).split("/")]
    request, limit = parts[0], parts[-1]
    if request is None:
        return None
    if len(parts) > 2 or limit is None or request > limit:
        field.expected("REQUEST or REQUEST/LIMIT, as in 1m/10m")
    return Cpu(request, limit if len(parts) == 2 else max(request, LEAST_LIMIT))


def probe(field: Field) -> ChosenProbe | None:
    """Read how the activator probes a pod."""
    text = text_of(field)
    if not text:
        return None
    kind, _, argument = text.partition(":")
    match kind:
        case "tcp" if not argument:
            return ChosenProbe(ProbeKind.TCP)
        case "none" if not argument:
            return ChosenProbe(ProbeKind.NONE)
        case "http" if _PATH.fullmatch(argument):
            return ChosenProbe(ProbeKind.HTTP, argument)
        case "grpc" if not argument or _GRPC_SERVICE.fullmatch(argument):
            return ChosenProbe(ProbeKind.GRPC, argument)
    field.expected("http:/PATH, tcp, grpc, grpc:SERVICE or none")


def enum_of(values: type[Enum], wrong: Enum | None = None) -> Read:
    """Return a reader of the words of an enum; ``wrong`` as for ``one_of``."""
    return one_of({each.value: each for each in values if each.value}, wrong)


PREFIX: Final = policies.PREFIX
ENABLED: Final = f"{PREFIX}enabled"

PROTOCOL: Final = f"{PREFIX}protocol"
#: The annotations that have a meaning only with protocol ``tcp``.
OF_CONNECTIONS: Final = (
    *("wake-after-milliseconds", "keep-awake", "send-proxy", "warm-path", "listen-port"),
)
#: The annotations of this table that have none with it.
OF_REQUESTS: Final = (
    *("hosts", "paths", "headers", "response-start-timeout-seconds", "idle-timeout-seconds"),
)
#: The asleep mark: no activator sends a request to a pod of a Service that has it. Its value has
#: the annotations that wake the workload, see ``activator.scale.wakers.mark``.
ASLEEP: Final = f"{PREFIX}asleep"

_SCALE, _WAKER, _CHAIN = "scale.", "waker.", "chain."
_TIMEOUTS, _TCP, _CONNECTIONS = "timeouts.", "tcp.", "connections."


# -- the table -------------------------------------------------------------------------------------


class AnnotationRow(NamedTuple):
    """One annotation.

    Attributes:
        attribute: the attribute of ``Annotations``; one of its ``scale``, ``waker``, ``chain``,
            ``timeouts`` or ``tcp`` with that prefix; of policies of connections ``connections``.
        read: returns the value; None for the default.
        values, default, meaning: for people.
    """

    attribute: str
    read: Read
    values: str
    default: str
    meaning: str


def _is_vllm_sleep(field: Field) -> bool | None:
    """Read whether the profile is that word; ``objects.policies`` refuses wrong ones."""
    return field.value == policies.VLLM_SLEEP or None


def _words(values: type[Enum]) -> str:
    return ", ".join(f"`{each.value}`" for each in values if each.value)


#: All annotations but ``enabled``, by name without the prefix.
TABLE: Final[Mapping[str, AnnotationRow]] = {
    "target": AnnotationRow(
        *("target", target, "`KIND/NAME` or `GROUP/VERSION/KIND/NAME`"),
        "the one Deployment or StatefulSet that the selector matches",
        "The object that is scaled. With the waker `scale` it has a `scale` subresource.",
    ),
    "waker": AnnotationRow(
        *("waker.name", enum_of(WakerName), _words(WakerName), "that of the target's kind"),
        "How the workload sleeps and wakes, see [anything can sleep](how-to/wakers.md).",
    ),
    "sleep-patch": AnnotationRow(
        *("waker.sleep_patch", merge_patch, "JSON object", "that of the target's kind"),
        "With waker `patch`: the merge patch that puts the target to sleep.",
    ),
    "wake-patch": AnnotationRow(
        *("waker.wake_patch", merge_patch, "JSON object", "that of the target's kind"),
        "With waker `patch`: the merge patch that wakes the target.",
    ),
    "awake-condition": AnnotationRow(
        *("waker.awake_condition", condition, "`TYPE=STATUS`", ""),
        "With waker `patch`: the condition without which the target is not awake yet.",
    ),
    "parked-cpu": AnnotationRow(
        *("waker.parked_cpu", parked_cpu, "CPU, as `REQUEST` or `REQUEST/LIMIT`", "`1m/10m`"),
        "With waker `resize`: what each container of a parked pod keeps, at most.",
    ),
    "startup-cpu": AnnotationRow(
        *("waker.startup_cpu", cpu, "CPU, as in `2` or `500m`", ""),
        "The CPU limit of a container until its pod is ready, where it has a smaller one.",
    ),
    "sleep-url": AnnotationRow(
        *("waker.sleep_url", waker_url, "path of each pod, or `http://SERVICE[:PORT]/PATH`"),
        "that of the profile",
        "With waker `http`: the scaler sends a POST there, to put the pods to sleep.",
    ),
    "wake-url": AnnotationRow(
        *("waker.wake_url", waker_url, "as `sleep-url`", "that of the profile"),
        "With waker `http`: the scaler sends a POST there, to wake the pods.",
    ),
    "state-url": AnnotationRow(
        *("waker.state_url", waker_url, "as `sleep-url`", "that of the profile"),
        "With waker `http`: a GET there responds with a JSON object.",
    ),
    "asleep-when": AnnotationRow(
        *("waker.asleep_when", asleep_when, "`MEMBER = VALUE`", "that of the profile"),
        "With waker `http`: what that object has while the pods sleep, as in `is_sleeping = true`.",
    ),
    "profile": AnnotationRow(
        *("waker.profile", _is_vllm_sleep, "`vllm-sleep`", ""),
        "Waker `http` with the words of vLLM's sleep mode, and all that the profile `openai` does.",
    ),
    "hosts": AnnotationRow(
        *("hosts", hosts, "DNS names, separated by commas; `*.` may come first", ""),
        "More hosts of the Service, for traffic through the shared port.",
    ),
    "paths": AnnotationRow(
        *("paths", paths, "prefixes of paths, separated by commas", ""),
        "Of the requests for `hosts`, only those below one of these paths, by whole segments. The "
        "longest path of a host counts.",
    ),
    "headers": AnnotationRow(
        *("headers", headers, "`NAME` or `NAME: VALUE`, separated by commas", ""),
        "Of the requests for `hosts`, only the ones that have all of these header fields. More "
        "fields count before fewer. A value has no comma.",
    ),
    "port": AnnotationRow(
        *("port", port, "name or number of a port of the Service"),
        "the only port, or the one named `http`, `http1`, `h2c`, `http2` or `grpc`",
        "The port whose requests are buffered.",
    ),
    "protocol": AnnotationRow(
        *("tcp.chosen", one_of({"http": False, "tcp": True}), "`http`, `tcp`"),
        "`tcp` if `appProtocol` of the port names such a protocol, as `postgresql`; else `http`",
        "With `tcp`, the bytes of each connection pass as they come. A connection counts as one "
        "request.",
    ),
    "wake-after-milliseconds": AnnotationRow(
        *("connections.wake_after", milliseconds, "integer from 0 to 10000", "`100`"),
        "With `tcp`: a client that has sent no byte wakes the workload after this time.",
    ),
    "keep-awake": AnnotationRow(
        *(
            "connections.by_bytes",
            one_of({"connections": False, "bytes": True}),
            "`connections`, `bytes`",
        ),
        "`connections`",
        "With `tcp`: the connections that are load, all open ones or only the ones on which bytes "
        "pass. With `bytes`, idle connections end when the workload sleeps.",
    ),
    "send-proxy": AnnotationRow(
        *("connections.send_proxy", enum_of(ProxyHeader), _words(ProxyHeader), "none"),
        "With `tcp`: the PROXY header that a pod gets before the first byte.",
    ),
    "warm-path": AnnotationRow(
        *("tcp.is_direct", one_of({"activators": False, "direct": True}), "`activators`, `direct`"),
        "`activators`",
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
        *("timeouts.total", seconds, "integer from 0", "`300`"),
        "Seconds from the arrival of a request to the first byte of its response; 0 for no limit.",
    ),
    "response-start-timeout-seconds": AnnotationRow(
        *("timeouts.response_start", seconds, "integer from 0", "`0`"),
        "Seconds from the arrival of a request to the start of its response; 0 for no limit.",
    ),
    "idle-timeout-seconds": AnnotationRow(
        *("timeouts.idle", seconds, "integer from 0", "`0`"),
        "Seconds without a byte of the response; 0 for no limit.",
    ),
    "readiness-policy": AnnotationRow(
        *("readiness", enum_of(ReadinessPolicy), _words(ReadinessPolicy), "`auto`"),
        "What makes a pod usable: the activator's probe, or also Kubernetes' list.",
    ),
    "probe": AnnotationRow(
        *("probe", probe, "`http:/PATH`, `tcp`, `grpc`, `grpc:SERVICE`, `none`"),
        "the readiness probe of the container, if it is on that port; else `tcp`",
        "How the activator probes a pod. With `none`, Kubernetes' list decides alone.",
    ),
    "route": AnnotationRow(
        *("route", enum_of(Route, Route.UNREADABLE), _words(Route), "`shared`"),
        "How requests get to the activator.",
    ),
    "pods-service": AnnotationRow(
        *("pods_service", service, "name of a Service in the namespace", ""),
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
        *(
            "scale.target",
            concurrency,
            "number from 0.01",
            "container-concurrency, else `100`",
        ),
        "Concurrent requests that one pod is meant for.",
    ),
    "target-rate": AnnotationRow(
        *("scale.target_rate", concurrency, "number from 0.01", "no limit"),
        "Requests per second that one pod is meant for, with owner `self`, beside "
        "`target-concurrency`. The larger number of pods counts.",
    ),
    "idle-seconds": AnnotationRow(
        *("scale.idle", seconds, "integer from 0", "`300`"),
        "Seconds from the end of the last request to scale to zero.",
    ),
    "activation-scale": AnnotationRow(
        *("scale.activation_scale", whole(1), "integer from 1", "`1`"),
        "Replicas that the workload has at least while it is awake; with another owner than "
        "`self`, only a cold start asks for them.",
    ),
    "awake": AnnotationRow(
        *("awake", hours, "`DAYS HH:MM-HH:MM ZONE`, separated by semicolons", ""),
        "When the workload stays awake without requests, as in `Mon-Fri 08:00-18:00 "
        "Europe/Berlin`. Without a time zone: UTC. Not with owner `none`.",
    ),
    "wake-with": AnnotationRow(
        *(
            "chain.wake_with",
            names(_SERVICE, "Services, as in backend,other-namespace/cache"),
            "`NAME` or `NAMESPACE/NAME`, separated by commas",
            "",
        ),
        "Services that a request to this sleeping one wakes, too. One of another namespace must "
        "allow it by `wake-from`.",
    ),
    "wake-from": AnnotationRow(
        *(
            "chain.wake_from",
            names(_LABEL, "namespaces, separated by commas"),
            "namespaces, separated by commas",
            "",
        ),
        "Other namespaces whose Services may name this one in `wake-with`.",
    ),
    "dry-run": AnnotationRow(
        *("dry_run", one_of({"true": True, "false": False}), "`true`, `false`", "`false`"),
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
)
#: Annotations whose default may be another workload, act, port or protocol than the one that is
#: meant.
_ESSENTIAL: Final = (*WAKER_WORDS, "port", "pods-service", "protocol")
#: The annotations that some module reads.
KNOWN: Final = (ENABLED, ASLEEP, *policies.ANNOTATIONS, *(PREFIX + name for name in TABLE))


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
        chain: which Services wake together.
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
    waker: WakerWords = WakerWords()
    chain: Chain = Chain()  # noqa: RUF009  # immutable, so all may share it
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


def is_enabled(metadata: Field) -> bool:
    """Return whether an object opts in.

    Raises:
        ManifestError: the annotation has another value than ``true`` and ``false``.
    """
    field = metadata["annotations"].at(ENABLED)
    return one_of({"true": True, "false": False, "": False})(field) or False


def read(metadata: Field, problems: Problems) -> Annotations:
    """Return what the annotations of a Service ask for, with a safe default for each wrong value.

    Arguments:
        metadata: of the Service.
        problems: gets an error for each wrong value, and for values that contradict each other.

    Raises:
        ManifestError: the annotations are no object.
    """
    annotations = metadata["annotations"]
    found = {
        row.attribute: value
        for name, row in TABLE.items()
        for field in [annotations.at(PREFIX + name)]
        if (value := problems.read(partial(row.read, field), essential=name in _ESSENTIAL))
        is not None
    }
    scale, waker = _within(_SCALE, found), _within(_WAKER, found)
    connections = ConnectionPolicies(**_within(_CONNECTIONS, found))
    tcp = TcpWords(**_within(_TCP, found), policies=connections)
    timeouts = Timeouts(**_within(_TIMEOUTS, found))
    chain = Chain(**_within(_CHAIN, found))
    if concurrency := found.get("container_concurrency"):
        scale.setdefault("target", float(concurrency))
    least, most = scale.get("min_scale", 0), scale.get("max_scale", 0)
    if 0 < most < least:
        limit = annotations.at(f"{PREFIX}max-scale")
        problems.read(lambda: limit.expected(f"0 or at least min-scale, which is {least}"))
        del scale["min_scale"], scale["max_scale"]
    if () in (found.get("paths"), found.get("headers")):
        found.pop("hosts", None)  # a wrong rule must not take all requests of the hosts
    if found.get("route") is Route.UNREADABLE:
        found["owner"] = Owner.NONE  # the activators may not see the load, which asks for replicas
    chosen = problems.read(partial(policies.parse, annotations)) or NO_POLICIES
    return Annotations(
        **found,
        scale=ScaleRules(**scale),
        waker=WakerWords(**waker),
        chain=chain,
        policies=chosen,
        tcp=tcp,
        timeouts=timeouts,
    )


def _within(prefix: str, found: dict[str, Any]) -> dict[str, Any]:
    """Remove and return the values of one attribute's own attributes."""
    return {
        name.removeprefix(prefix): found.pop(name)
        for name in list(found)
        if name.startswith(prefix)
    }


def reference() -> str:
    """Return the table of all annotations, in Markdown."""
    rows = [
        f"| `{PREFIX}{name}` | {row.values} | {row.default} | {row.meaning} |"
        for name, row in TABLE.items()
    ]
    first = f"| `{ENABLED}` | `true`, `false` | `false` | Opts the Service in. |"
    return "\n".join(
        ["| annotation | values | default | meaning |", "|---|---|---|---|", first, *rows]
    )


if __name__ == "__main__":
    print(reference())
