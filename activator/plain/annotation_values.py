"""Reads the value of one annotation: a word, a number, hosts, a port, an object or a probe.

Each reader returns None for an absent or empty annotation. It raises ManifestError for a value that
is not allowed; the text names the allowed values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final, NamedTuple

from activator.objects.fields import Field

_MOST: Final = 2**31 - 1
_MOST_HOSTS: Final = 256
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


def whole(minimum: int) -> Read:
    """Return a reader of integers from ``minimum`` on."""

    def read(field: Field) -> int | None:
        text = text_of(field)
        if not text:
            return None
        # int() would also take signs, blanks and underscores.
        if not (text.isascii() and text.isdigit() and len(text) <= 10) or not (
            minimum <= int(text) <= _MOST
        ):
            field.expected(f"an integer from {minimum} to {_MOST}")
        return int(text)

    return read


def seconds(field: Field) -> float | None:
    """Read whole seconds."""
    number = whole(0)(field)
    return None if number is None else float(number)


def concurrency(field: Field) -> float | None:
    """Read a number of requests, perhaps with decimals."""
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


def target(field: Field) -> Target | None:
    """Read the name of the object that is scaled."""
    text = text_of(field)
    if not text:
        return None
    found = _TARGET.fullmatch(text)
    if found is None:
        field.expected("KIND/NAME or GROUP/VERSION/KIND/NAME, as in deployment/hello")
    return Target(found["group"] or "", found["version"] or "", found["kind"], found["name"])


def probe(field: Field) -> ChosenProbe | None:
    """Read how the activator probes a pod."""
    text = text_of(field)
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


def enum_of(values: type[Enum], wrong: Enum | None = None) -> Read:
    """Return a reader of the words of an enum; ``wrong`` as for ``one_of``."""
    return one_of({each.value: each for each in values if each.value}, wrong)
