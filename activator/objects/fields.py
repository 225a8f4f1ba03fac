"""Reads untrusted JSON values one field at a time, and addresses; errors name the wrong field.

All objects of a cluster or a file pass through this module. So a broken object leads to one typed
error that names object and field, never to a ``KeyError``. The module must not know the meaning of
fields; the parsers of each kind do. Knative's counterpart is the API server, which rejects such
objects before Knative gets them.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, NoReturn, TypeVar

# Reads IP addresses and ports of objects, and writes them in the form for a connection.

# Checking an address costs a microsecond, and an event repeats all unchanged addresses.
_CHECKED_ADDRESSES = 16_384

_MAX_PORT = 65_535
#: An API server sends no larger values of most fields, which have 32 bits.
_MAX_INTEGER = 2**31 - 1

_QUANTITY = re.compile(
    r"([+-]?(?:\d{1,18}(?:\.\d{0,18})?|\.\d{1,18}))(?:[eE]([+-]?\d{1,2})|([numkMGTPE]|[KMGTPE]i)?)"
)
_DECIMAL = {suffix: 1000.0 ** (at - 3) for at, suffix in enumerate("num\0kMGTPE")}

T = TypeVar("T")


@lru_cache(maxsize=1024, typed=True)
def shared(value: T) -> T:
    """Return the first of equal values: the objects of a cluster have few different ones."""
    return value


@lru_cache(maxsize=_CHECKED_ADDRESSES)
def host(ip: str) -> str:
    """Return the address in its form before a port: IPv6 in brackets; empty for no address."""
    try:
        ipaddress.ip_address(ip)
    except ValueError:
        return ""
    return f"[{ip}]" if ":" in ip else ip


@lru_cache(maxsize=_CHECKED_ADDRESSES)
def may_be_pod(ip: str) -> bool:
    """Return whether a text is an IP address that a pod can have.

    The API server refuses unspecified, link-local and multicast addresses in EndpointSlices, and
    loopback addresses too. Pods of a folder may have loopback addresses. Source:
    ValidateNonSpecialIP in Kubernetes pkg/apis/core/validation.
    """
    if not host(ip):
        return False
    address = ipaddress.ip_address(ip)
    # The kernel sends a mapped address to the IPv4 address in it.
    known = getattr(address, "ipv4_mapped", None) or address
    return not (known.is_unspecified or known.is_link_local or known.is_multicast)


def ip_of(field: Field) -> str:
    """Return the IP address unchanged, since all activators must sort the same strings.

    Raises:
        ManifestError: the field has no IP address.
    """
    text = field.text()
    if not host(text):
        field.expected("an IP address")
    return text


def port_named(ports: Field, name: str) -> int:
    """Return the first port of a name, which Knative uses.

    Arguments:
        ports: a list of objects with ``name`` and ``port``.
        name: the name.

    Returns:
        Its number; 0 if no port has that name, or if the port has no number.

    Raises:
        ManifestError: the list, or a port up to that one, is wrong.
    """
    for port in ports.items():
        if port["name"].text() == name:
            return port["port"].port()
    return 0


# Names travel into log lines, headers and URLs. Kubernetes allows at most 253 characters of a
# smaller alphabet (RFC 1123 subdomains; RBAC objects and labels widen it to this one).
_NAME = re.compile(r"[A-Za-z0-9._:-]{1,253}")

#: Half a surrogate pair: an escape of JSON or YAML can make one, but UTF-8 has none.
_HALF = re.compile("[\ud800-\udfff]")

# A wrong value is quoted in the message; a wrong value of 1 MiB must not be.
_SHOWN_CHARACTERS = 60

# Python refuses to print integers of more than 4,300 digits; no error needs one of 20 digits.
_SHOWN_INTEGER = 10**18

DEFAULT_NAMESPACE = "default"


class ManifestError(ValueError):
    """An unusable object; the error names object, field and problem.

    The caller ignores the object and reports the error; the object's last good state stays.

    Attributes:
        subject: the object, as in ``Endpoints default/foo``.
        path: the field, as in ``subsets[1].addresses[0].ip``; empty for the object as a whole.
        problem: the expected value, and the value found.
        instead: the value with a safe default for each wrong field, for an object without a last
            good state; None if the object cannot be used.
    """

    def __init__(self, subject: str, path: str, problem: str, instead: Any = None) -> None:
        self.subject = subject
        self.path = path
        self.problem = problem
        self.instead = instead
        super().__init__(": ".join(part for part in (subject, path, problem) if part))


class ObjectKey(NamedTuple):
    """The identity of an object: kind, namespace and name."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


def show(value: object) -> str:
    """Return a short description of a wrong value: printable ASCII of bounded length."""
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple | set | frozenset):
        return "a list"
    if isinstance(value, int) and abs(value) > _SHOWN_INTEGER:
        return "a huge number"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) and len(value) > _SHOWN_CHARACTERS:
        return ascii(value[:_SHOWN_CHARACTERS]) + "..."
    return ascii(value)[: 2 * _SHOWN_CHARACTERS]


@dataclass(frozen=True, slots=True)
class Field:
    """A value and its path in the object.

    A missing member and an explicit ``null`` are the same, as in Kubernetes.
    """

    value: object
    subject: str
    path: str = ""

    def fail(self, problem: str, instead: object = None) -> NoReturn:
        """Raise ``ManifestError`` for this field, with a safe default for its value."""
        raise ManifestError(self.subject, self.path, problem, instead)

    def expected(self, what: str, instead: object = None) -> NoReturn:
        """Raise ``ManifestError``: the value is not what the caller expects."""
        self.fail(f"expected {what}, got {show(self.value)}", instead)

    def __getitem__(self, key: str) -> Field:
        """Return the member ``key`` of this object; a missing object has no members."""
        path = f"{self.path}.{key}" if self.path else key
        return Field(self.mapping().get(key), self.subject, path)

    def at(self, key: str) -> Field:
        """Return the member ``key`` of an object with dots in its keys, such as labels."""
        return Field(self.mapping().get(key), self.subject, f"{self.path}[{key}]")

    def item(self, index: int, value: object) -> Field:
        """Return the element ``index`` of this list."""
        return Field(value, self.subject, f"{self.path}[{index}]")

    def mapping(self) -> Mapping[object, object]:
        """Return this object; empty if missing. Raises ``ManifestError`` for other types."""
        if self.value is None:
            return {}
        if not isinstance(self.value, dict):
            self.expected("an object")
        return self.value

    def sequence(self) -> list[object]:
        """Return this list; empty if missing. Raises ``ManifestError`` for other types."""
        if self.value is None:
            return []
        if not isinstance(self.value, list):
            self.expected("a list")
        return self.value

    def items(self) -> Iterator[Field]:
        """Yield the elements of this list as fields. Raises ``ManifestError`` for a non-list."""
        for index, value in enumerate(self.sequence()):
            yield self.item(index, value)

    def text(self, default: str = "") -> str:
        """Return this string; ``default`` if missing. Raises ``ManifestError``."""
        if self.value is None:
            return default
        if not isinstance(self.value, str):
            # YAML reads the words on, off, yes and no as booleans.
            self.expected("a string in quotes" if isinstance(self.value, bool) else "a string")
        if not self.value.isascii() and _HALF.search(self.value):
            self.expected("a string in UTF-8")
        return self.value

    def name(self) -> str:
        """Return this string, which must be a valid name. Raises ``ManifestError``."""
        text = self.text()
        if not _NAME.fullmatch(text):
            self.expected("a name")
        return text

    def one_of(self, words: Collection[str], *, strip: bool = False) -> str:
        """Return this word; empty if missing or blank. Raises ``ManifestError`` for another word.

        Arguments:
            strip: whether white space around the word does not count.
        """
        text = self.text().strip() if strip else self.text()
        if not text.strip():
            return ""
        if text not in words:
            self.expected(f"one of {', '.join(words)}")
        return text

    def boolean(self, *, default: bool) -> bool:
        """Return this boolean; ``default`` if missing. Raises ``ManifestError``."""
        if self.value is None:
            return default
        if not isinstance(self.value, bool):
            self.expected("true or false")
        return self.value

    def whole(self, *, minimum: int = 0, maximum: int = _MAX_INTEGER, default: int) -> int:
        """Return this integer; ``default`` if missing. Raises ``ManifestError``."""
        if self.value is None:
            return default
        # JSON true is no number, although Python's is.
        if type(self.value) is not int or not minimum <= self.value <= maximum:
            self.expected(f"an integer from {minimum} to {maximum}")
        return self.value

    def quantity(self, default: float = 0.0) -> float:
        """Return this quantity of a resource, as in ``250m`` or ``1Gi``.

        A number is allowed, as the API server allows it. Raises ``ManifestError`` for other values.
        Source: Quantity in the Kubernetes API reference.
        """
        if self.value is None:
            return default
        is_number = type(self.value) in (int, float)
        found = _QUANTITY.fullmatch(str(self.value) if is_number else self.text())
        if found is None:
            self.expected("a quantity, as in 250m or 1Gi")
        number, exponent, suffix = found.groups()
        suffix = suffix or ""
        unit = 1024 ** "KMGTPE".index(suffix[0]) * 1024 if suffix[1:] else _DECIMAL.get(suffix, 1.0)
        return float(number) * 10.0 ** int(exponent or 0) * unit

    def port(self, default: int = 0) -> int:
        """Return this number of a port. Raises ``ManifestError`` for another value."""
        return self.whole(minimum=1, maximum=_MAX_PORT, default=default)

    def texts(self) -> dict[str, str]:
        """Return the texts of this object. Raises ``ManifestError`` for other values."""
        return {str(name): self.at(str(name)).text() for name in self.mapping()}


class Problems:
    """Collects the errors of several fields of one object, so that one report names all of them.

    Attributes:
        is_usable: whether no essential field is wrong.
    """

    def __init__(self) -> None:
        self._errors: list[ManifestError] = []
        self.is_usable = True

    def __bool__(self) -> bool:
        return bool(self._errors)

    def read(self, read: Callable[[], T | None], *, essential: bool = False) -> T | None:
        """Return what a function reads, or the safe default of the ``ManifestError`` it raises.

        Arguments:
            read: the function; its error is kept.
            essential: whether an object cannot be used with a wrong value.
        """
        try:
            return read()
        except ManifestError as error:
            self._errors.append(error)
            self.is_usable &= not essential
            found: T | None = error.instead
            return found

    def settle(self, value: T) -> T:
        """Return a value if all its fields are right; else raise one error for all of them.

        Arguments:
            value: what was read, with a safe default for each wrong field; the error has it too.
        """
        if not self._errors:
            return value
        first, *others = self._errors
        more = (f"{error.path}: {error.problem}" for error in others)
        problem = "; ".join((first.problem, *more))
        raise ManifestError(first.subject, first.path, problem, value if self.is_usable else None)


def root(obj: object, kind: str) -> Field:
    """Return an object as a field, whose subject has the object's known names.

    Arguments:
        obj: the object as decoded from JSON or YAML.
        kind: its kind, for messages.
    """
    metadata = obj.get("metadata") if isinstance(obj, dict) else None
    name = metadata.get("name") if isinstance(metadata, dict) else None
    namespace = metadata.get("namespace") if isinstance(metadata, dict) else None
    where = namespace if isinstance(namespace, str) and _NAME.fullmatch(namespace) else "?"
    which = name if isinstance(name, str) and _NAME.fullmatch(name) else "?"
    if namespace is None:
        where = DEFAULT_NAMESPACE
    return Field(obj, f"{kind} {where}/{which}")


def identify(obj: object, kind: str) -> ObjectKey:
    """Return the key of an object; the namespace is ``default`` if the object has none.

    Arguments:
        obj: the object as decoded from JSON or YAML.
        kind: its kind, which list items do not repeat.

    Raises:
        ManifestError: the object is no mapping, or has no valid name or namespace.
    """
    metadata = root(obj, kind)["metadata"]
    namespace = metadata["namespace"]
    return ObjectKey(
        kind,
        DEFAULT_NAMESPACE if namespace.value is None else namespace.name(),
        metadata["name"].name(),
    )
