"""Reads the annotations of a Service into one typed record: one table, one row per annotation.

docs/reference.md has the table; ``python -m activator.plain.annotations`` prints it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, Final, NamedTuple

from activator.kpa.decision import ScaleRules
from activator.objects import policies
from activator.objects.fields import Field, Problems
from throttler.model import NO_POLICIES, Policies, ProbeKind
from throttler.request_policies import ConnectionPolicies, HeaderRule, ProxyHeader

# Reads the value of one annotation: a word, a number, hosts, a port, an object or a probe.
#
# Each reader returns None for an absent or empty annotation. It raises ManifestError for a value
# that is not allowed; the text names the allowed values.

_MOST: Final = 2**31 - 1
_MOST_HOSTS: Final = 256
_MOST_HEADERS: Final = 16
#: A DNS name in lower case (RFC 1123 section 2.1), perhaps behind ``*.``.
_HOST: Final = re.compile(
    r"(?=.{1,253}$)(\*\.)?[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*"
)
#: The name of a port, or of a Service.
_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
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

_SCALE: Final = "scale."
_CONNECTIONS: Final = "connections."
#: Annotations whose default may be another workload or port than the one that is meant.
_ESSENTIAL: Final = ("target", "port", "pods-service")
PROTOCOL: Final = f"{PREFIX}protocol"
#: The annotations that have a meaning only with protocol ``tcp``.
OF_CONNECTIONS: Final = (
    *("wake-after-milliseconds", "keep-awake", "send-proxy", "warm-path", "listen-port"),
)
#: The annotations of this table that have none with it.
OF_REQUESTS: Final = (
    *("hosts", "paths", "headers", "response-start-timeout-seconds", "idle-timeout-seconds"),
)


# -- the table -------------------------------------------------------------------------------------


class AnnotationRow(NamedTuple):
    """One annotation.

    Attributes:
        attribute: the attribute of ``Annotations``, perhaps with one of its parts behind a dot.
        read: returns the value; None for the default.
        values, default, meaning: for people.
    """

    attribute: str
    read: Read
    values: str
    default: str
    meaning: str


def _words(values: type[Enum]) -> str:
    return ", ".join(f"`{each.value}`" for each in values if each.value)


#: All annotations but ``enabled``, by name without the prefix.
TABLE: Final[Mapping[str, AnnotationRow]] = {
    "target": AnnotationRow(
        *("target", target, "`KIND/NAME` or `GROUP/VERSION/KIND/NAME`"),
        "the one Deployment or StatefulSet that the selector matches",
        "The object that is scaled. It has a `scale` subresource.",
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
        *("is_tcp", one_of({"http": False, "tcp": True}), "`http`, `tcp`"),
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
        *("is_direct", one_of({"activators": False, "direct": True}), "`activators`, `direct`"),
        "`activators`",
        "With `tcp` and route `front`: whether new connections go to ready pods directly. `direct` "
        "needs `min-scale` of at least 1.",
    ),
    "listen-port": AnnotationRow(
        *("listen_port", whole(1, 65_535), "integer from 1 to 65535", ""),
        "With `tcp`, only for `activator local`: the port on which the activator listens for the "
        "Service.",
    ),
    "container-concurrency": AnnotationRow(
        *("container_concurrency", whole(0), "integer from 0", "`0`"),
        "Requests that one pod has at a time; 0 for no limit.",
    ),
    "timeout-seconds": AnnotationRow(
        *("timeout", seconds, "integer from 0", "`300`"),
        "Seconds from the arrival of a request to the first byte of its response; 0 for no limit.",
    ),
    "response-start-timeout-seconds": AnnotationRow(
        *("response_start_timeout", seconds, "integer from 0", "`0`"),
        "Seconds from the arrival of a request to the start of its response; 0 for no limit.",
    ),
    "idle-timeout-seconds": AnnotationRow(
        *("idle_timeout", seconds, "integer from 0", "`0`"),
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
    "initial-scale": AnnotationRow(
        *("scale.initial_scale", whole(0), "integer from 0", "`1`"),
        "Replicas that a cold start asks for; 0 counts as 1. With owner `self` none of them goes "
        "until 60 s after all were ready, or until the Service sleeps.",
    ),
}

#: The annotations that some module reads.
KNOWN: Final = (ENABLED, *policies.ANNOTATIONS, *(PREFIX + name for name in TABLE))


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
        timeout, response_start_timeout, idle_timeout: seconds; 0 for no limit.
        readiness: what makes a pod usable.
        probe: the activator's probe; None for the one of the container.
        route: how requests get to the activator.
        pods_service: with route ``front``: the Service whose selector finds the pods.
        owner: what scales the workload.
        scale: the numbers of the autoscaler.
        policies: which pod gets a request, how many requests a pod gets, and which is next.
        is_tcp: whether bytes pass as they come; None if the Service's port decides.
        connections: the policies of connections, if ``is_tcp``.
        is_direct: whether new connections go to ready pods directly.
        listen_port: where ``activator local`` listens for the Service; 0 for nowhere.
    """

    target: NamedTarget | None = None
    hosts: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    headers: tuple[HeaderRule, ...] = ()
    port: str = ""
    container_concurrency: int = 0
    timeout: float = 300.0
    response_start_timeout: float = 0.0
    idle_timeout: float = 0.0
    readiness: ReadinessPolicy = ReadinessPolicy.AUTO
    probe: ChosenProbe | None = None
    route: Route = Route.SHARED
    pods_service: str = ""
    owner: Owner = Owner.SELF
    scale: ScaleRules = ScaleRules()  # noqa: RUF009  # frozen, so all may share it
    policies: Policies = NO_POLICIES
    is_tcp: bool | None = None
    connections: ConnectionPolicies = ConnectionPolicies()  # noqa: RUF009  # frozen, as above
    is_direct: bool = False
    listen_port: int = 0

    @property
    def is_bypassed(self) -> bool:
        """Whether clients connect to ready pods, so that the activators see no such request.

        With route ``front`` they do, unless each request needs an activator. A connection may last
        for hours, so it stays in the path of the activators.
        """
        if self.route is not Route.FRONT:
            return self.route is Route.TAKEOVER
        if self.is_tcp:
            return self.is_direct
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
    scale, connections = (
        {name[len(part) :]: found.pop(name) for name in list(found) if name.startswith(part)}
        for part in (_SCALE, _CONNECTIONS)
    )
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
        policies=chosen,
        connections=ConnectionPolicies(**connections),
    )


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
