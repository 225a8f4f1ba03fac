"""Reads the annotations of a Service into one typed record: one table, one row per annotation.

docs/reference.md has the table; ``python -m activator.plain.annotations`` prints it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from functools import partial
from typing import Any, Final, NamedTuple

from activator.kpa.rules import Rules
from activator.objects import policies
from activator.objects.fields import Field, Problems
from throttler.model import NO_POLICIES, Policies

PREFIX: Final = "activator.dev/"
ENABLED: Final = f"{PREFIX}enabled"

_SCALE: Final = "scale."
_MOST: Final = 2**31 - 1
_MOST_HOSTS: Final = 256
#: A DNS name in lower case (RFC 1123 section 2.1), perhaps behind ``*.``.
_HOST: Final = re.compile(
    r"(?=.{1,253}$)(\*\.)?[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*"
)
_PORT_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_TARGET: Final = re.compile(
    r"(?:(?P<group>[a-z0-9][a-z0-9.-]{0,252})/(?P<version>v[a-z0-9]{1,62})/)?"
    r"(?P<kind>[A-Za-z][A-Za-z0-9]{0,62})/(?P<name>[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?)"
)
#: The request target of an HTTP probe: visible ASCII, as kubelet sends it.
_PATH: Final = re.compile(r"/[!-~]{0,1023}")
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
    are endpoints of the Service while its pods cannot take requests.
    """

    SHARED = "shared"
    TAKEOVER = "takeover"


class ReadinessPolicy(Enum):
    """What makes a pod usable: the activator's probe, or also Kubernetes' list of ready pods."""

    AUTO = "auto"
    PROBE = "probe"
    KUBERNETES = "kubernetes"


class Target(NamedTuple):
    """The object that is scaled; ``group`` and ``version`` are empty if the kind implies them."""

    group: str
    version: str
    kind: str
    name: str

    def __str__(self) -> str:
        return "/".join(part for part in self if part)


class ProbeWord(Enum):
    """The protocol of a probe. NONE: the activator does not probe, Kubernetes decides alone."""

    HTTP = "http"
    TCP = "tcp"
    GRPC = "grpc"
    NONE = "none"


class ChosenProbe(NamedTuple):
    """The probe that an annotation asks for; ``argument`` is a path, or a gRPC service."""

    word: ProbeWord
    argument: str = ""


@dataclass(frozen=True, slots=True)
class Annotations:
    """What the annotations of a Service ask for.

    Attributes:
        target: the object that is scaled; None for the one that the selector matches.
        hosts: hosts of the Service beside its names in the cluster, in lower case.
        port: name or number of the Service port; empty for the default.
        container_concurrency: requests that one pod may have at a time; 0 for no limit.
        timeout, response_start_timeout, idle_timeout: seconds, as in a Revision.
        readiness: what makes a pod usable.
        probe: the activator's probe; None for the one of the container.
        route: how requests get to the activator.
        owner: what scales the workload.
        scale: the numbers of the autoscaler.
        policies: the load balancing policies.
    """

    target: Target | None = None
    hosts: tuple[str, ...] = ()
    port: str = ""
    container_concurrency: int = 0
    timeout: float = 300.0
    response_start_timeout: float = 0.0
    idle_timeout: float = 0.0
    readiness: ReadinessPolicy = ReadinessPolicy.AUTO
    probe: ChosenProbe | None = None
    route: Route = Route.SHARED
    owner: Owner = Owner.SELF
    scale: Rules = Rules()  # noqa: RUF009  # frozen, so all may share it
    policies: Policies = NO_POLICIES


def is_enabled(metadata: Field) -> bool:
    """Return whether an object opts in.

    Raises:
        ManifestError: the annotation has another value than ``true`` and ``false``.
    """
    field = metadata["annotations"].at(ENABLED)
    return _one_of({"true": True, "false": False, "": False})(field) or False


def parse(metadata: Field) -> Annotations:
    """Return what the annotations of a Service ask for.

    Arguments:
        metadata: of the Service.

    Raises:
        ManifestError: values are not allowed, or two contradict each other. The text names each
            wrong annotation, its value and the allowed values.
    """
    problems = Problems()
    found = read(metadata, problems)
    problems.fail()
    return found


def read(metadata: Field, problems: Problems) -> Annotations:
    """Return what the annotations of a Service ask for, with the default for each wrong value.

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
        if (value := problems.read(partial(row.read, annotations.at(PREFIX + name)))) is not None
    }
    scale = {
        name[len(_SCALE) :]: found.pop(name) for name in list(found) if name.startswith(_SCALE)
    }
    if concurrency := found.get("container_concurrency"):
        scale.setdefault("target", float(concurrency))
    least, most = scale.get("min_scale", 0), scale.get("max_scale", 0)
    if 0 < most < least:
        limit = annotations.at(f"{PREFIX}max-scale")
        problems.read(lambda: limit.expected(f"0 or at least min-scale, which is {least}"))
        del scale["min_scale"], scale["max_scale"]
    chosen = problems.read(partial(policies.parse, annotations)) or NO_POLICIES
    return Annotations(**found, scale=Rules(**scale), policies=chosen)


def unknown(metadata: Field) -> Mapping[str, str]:
    """Return the annotations with the project's prefix that nothing reads.

    Returns:
        For each name the most similar known name; empty where none is similar.
    """
    names = metadata["annotations"].mapping()
    ours = [name for name in names if isinstance(name, str) and name.startswith(PREFIX)]
    return {
        name: PREFIX + near[0] if near else ""
        for name in ours
        if (word := name[len(PREFIX) :]) not in _KNOWN
        for near in [get_close_matches(word, _KNOWN, 1)]
    }


# -- values ---------------------------------------------------------------------------------------

#: Returns the value of an annotation; None if it is absent or empty.
_Read = Callable[[Field], Any]


def _text(field: Field) -> str:
    if field.value is not None and not isinstance(field.value, str):
        field.expected("a string in quotes")
    return field.text().strip()


def _one_of(values: Mapping[str, Any]) -> _Read:
    def read(field: Field) -> Any:
        text = _text(field)
        if text and text not in values:
            field.expected(f"one of {', '.join(filter(None, values))}")
        return values.get(text) if field.value is not None else None

    return read


def _whole(minimum: int) -> _Read:
    def read(field: Field) -> int | None:
        text = _text(field)
        if not text:
            return None
        # int() would also take signs, blanks and underscores.
        if not (text.isascii() and text.isdigit() and len(text) <= 10) or not (
            minimum <= int(text) <= _MOST
        ):
            field.expected(f"an integer from {minimum} to {_MOST}")
        return int(text)

    return read


def _seconds(field: Field) -> float | None:
    whole = _whole(0)(field)
    return None if whole is None else float(whole)


def _concurrency(field: Field) -> float | None:
    text = _text(field)
    if not text:
        return None
    if not re.fullmatch(r"\d{1,9}(\.\d{1,6})?", text, re.ASCII) or float(text) < 0.01:
        field.expected("a number from 0.01 to 999999999")
    return float(text)


def _hosts(field: Field) -> tuple[str, ...] | None:
    hosts = [host.strip().lower().rstrip(".") for host in _text(field).split(",")]
    found = tuple(dict.fromkeys(filter(None, hosts)))
    if len(found) > _MOST_HOSTS or not all(map(_HOST.fullmatch, found)):
        field.expected(f"up to {_MOST_HOSTS} DNS names, as in hello.example.com,*.example.com")
    return found or None


def _port(field: Field) -> str | None:
    text = _text(field)
    if text and not _PORT_NAME.fullmatch(text):
        field.expected("the name or the number of a port of the Service")
    return text or None


def _target(field: Field) -> Target | None:
    text = _text(field)
    if not text:
        return None
    found = _TARGET.fullmatch(text)
    if found is None:
        field.expected("KIND/NAME or GROUP/VERSION/KIND/NAME, as in deployment/hello")
    return Target(found["group"] or "", found["version"] or "", found["kind"], found["name"])


def _probe(field: Field) -> ChosenProbe | None:
    text = _text(field)
    if not text:
        return None
    kind, _, argument = text.partition(":")
    match kind:
        case "tcp" if not argument:
            return ChosenProbe(ProbeWord.TCP)
        case "none" if not argument:
            return ChosenProbe(ProbeWord.NONE)
        case "http" if _PATH.fullmatch(argument):
            return ChosenProbe(ProbeWord.HTTP, argument)
        case "grpc" if not argument or _GRPC_SERVICE.fullmatch(argument):
            return ChosenProbe(ProbeWord.GRPC, argument)
    field.expected("http:/PATH, tcp, grpc, grpc:SERVICE or none")


class Row(NamedTuple):
    """One annotation.

    Attributes:
        attribute: the attribute of ``Annotations``; that of its ``scale`` behind ``scale.``.
        read: returns the value; None for the default.
        values, default, meaning: for people.
    """

    attribute: str
    read: _Read
    values: str
    default: str
    meaning: str


def _enum(values: type[Enum]) -> _Read:
    return _one_of({str(each.value): each for each in values})


def _words(values: type[Enum]) -> str:
    return ", ".join(f"`{each.value}`" for each in values)


#: All annotations but ``enabled``, by name without the prefix.
TABLE: Final[Mapping[str, Row]] = {
    "target": Row(
        *("target", _target, "`KIND/NAME` or `GROUP/VERSION/KIND/NAME`"),
        "the one Deployment or StatefulSet that the selector matches",
        "The object that is scaled. It has a `scale` subresource.",
    ),
    "hosts": Row(
        *("hosts", _hosts, "DNS names, separated by commas; `*.` may come first", ""),
        "More hosts of the Service, for traffic through the shared port.",
    ),
    "port": Row(
        *("port", _port, "name or number of a port of the Service"),
        "the only port, or the one named `http`, `http1`, `h2c`, `http2` or `grpc`",
        "The port whose requests are buffered.",
    ),
    "container-concurrency": Row(
        *("container_concurrency", _whole(0), "integer from 0", "`0`"),
        "Requests that one pod has at a time; 0 for no limit.",
    ),
    "timeout-seconds": Row(
        *("timeout", _seconds, "integer from 0", "`300`"),
        "Seconds from the arrival of a request to the end of its response.",
    ),
    "response-start-timeout-seconds": Row(
        *("response_start_timeout", _seconds, "integer from 0", "`0`"),
        "Seconds from the arrival of a request to the start of its response; 0 for no limit.",
    ),
    "idle-timeout-seconds": Row(
        *("idle_timeout", _seconds, "integer from 0", "`0`"),
        "Seconds without a byte of the response; 0 for no limit.",
    ),
    "readiness-policy": Row(
        *("readiness", _enum(ReadinessPolicy), _words(ReadinessPolicy), "`auto`"),
        "What makes a pod usable: the activator's probe, or also Kubernetes' list.",
    ),
    "probe": Row(
        *("probe", _probe, "`http:/PATH`, `tcp`, `grpc`, `grpc:SERVICE`, `none`"),
        "the readiness probe of the container, if it is on that port; else `tcp`",
        "How the activator probes a pod. With `none`, Kubernetes' list decides alone.",
    ),
    "route": Row(
        *("route", _enum(Route), _words(Route), "`shared`"),
        "How requests get to the activator.",
    ),
    "owner": Row(
        *("owner", _enum(Owner), _words(Owner), "`self`"),
        "What scales the workload above one replica, and down again.",
    ),
    "min-scale": Row(
        *("scale.min_scale", _whole(0), "integer from 0", "`0`"),
        "Replicas that the workload has even without a request.",
    ),
    "max-scale": Row(
        *("scale.max_scale", _whole(0), "integer from 0", "`0`"),
        "Replicas that the workload never exceeds; 0 for no limit.",
    ),
    "target-concurrency": Row(
        *("scale.target", _concurrency, "number from 0.01", "container-concurrency, else `100`"),
        "Concurrent requests that one pod is meant for.",
    ),
    "idle-seconds": Row(
        *("scale.idle", _seconds, "integer from 0", "`300`"),
        "Seconds from the end of the last request to scale to zero.",
    ),
    "initial-scale": Row(
        *("scale.initial_scale", _whole(0), "integer from 0", "`1`"),
        "Replicas that a cold start asks for; 0 counts as 1.",
    ),
}

#: The annotations that some module reads.
_KNOWN: Final = (
    "enabled",
    *(name.removeprefix(PREFIX) for name in (policies.LOAD_BALANCING, policies.HASH_KEY)),
    *TABLE,
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
