"""Reads untrusted JSON values one field at a time, and says which field was wrong.

Everything that a cluster or a file hands us goes through here, so that a broken object ends in one
typed error naming object and field, never in a ``KeyError`` somewhere below.
It must not know what the fields mean: that is for the parsers of each kind.
Knative's counterpart is the API server, which refuses such objects before Knative sees them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

# Names travel into log lines, headers and URLs. Kubernetes allows at most 253 characters of a
# smaller alphabet (RFC 1123 subdomains; RBAC objects and labels widen it to this one).
_NAME = re.compile(r"[A-Za-z0-9._:-]{1,253}")

# A wrong value is quoted in the message; a wrong value of 1 MiB must not be.
_SHOWN_CHARACTERS = 60

# Python refuses to print integers of more than 4,300 digits; nobody needs to see one of 20.
_SHOWN_INTEGER = 10**18

DEFAULT_NAMESPACE = "default"


class ManifestError(ValueError):
    """An object that cannot be used: which object, which field, what was wrong with it.

    The object must be ignored and the error shown; the last good state of the object stays.

    Attributes:
        subject: the object, as in ``Endpoints default/foo``.
        path: the field, as in ``subsets[1].addresses[0].ip``; empty for the object as a whole.
        problem: what was expected and what was found.
    """

    def __init__(self, subject: str, path: str, problem: str) -> None:
        self.subject = subject
        self.path = path
        self.problem = problem
        super().__init__(": ".join(part for part in (subject, path, problem) if part))


class ObjectKey(NamedTuple):
    """What makes an object the same object: kind, namespace and name."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


def show(value: object) -> str:
    """Describes a wrong value in a few words.

    Returns:
        Printable ASCII of bounded length, whatever the value is.
    """
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
    """A value, and the way that led to it.

    A missing member and an explicit ``null`` are the same, as they are to Kubernetes.
    """

    value: object
    subject: str
    path: str = ""

    def fail(self, problem: str) -> NoReturn:
        """Raises ``ManifestError`` for this field."""
        raise ManifestError(self.subject, self.path, problem)

    def expected(self, what: str) -> NoReturn:
        """Raises ``ManifestError``: something else than ``what`` was found here."""
        self.fail(f"expected {what}, got {show(self.value)}")

    def __getitem__(self, key: str) -> Field:
        """The member ``key`` of this object; of a missing object every member is missing."""
        path = f"{self.path}.{key}" if self.path else key
        return Field(self.mapping().get(key), self.subject, path)

    def at(self, key: str) -> Field:
        """The member ``key`` where keys hold dots, such as those of labels."""
        return Field(self.mapping().get(key), self.subject, f"{self.path}[{key}]")

    def item(self, index: int, value: object) -> Field:
        """The element ``index`` of this list."""
        return Field(value, self.subject, f"{self.path}[{index}]")

    def mapping(self) -> Mapping[object, object]:
        """This object; empty where it is missing. Raises ``ManifestError`` for anything else."""
        if self.value is None:
            return {}
        if not isinstance(self.value, dict):
            self.expected("an object")
        return self.value

    def sequence(self) -> list[object]:
        """This list; empty where it is missing. Raises ``ManifestError`` for anything else."""
        if self.value is None:
            return []
        if not isinstance(self.value, list):
            self.expected("a list")
        return self.value

    def items(self) -> Iterator[Field]:
        """The elements of this list, each as a field. Raises ``ManifestError`` for a non-list."""
        for index, value in enumerate(self.sequence()):
            yield self.item(index, value)

    def text(self, default: str = "") -> str:
        """This string, or ``default`` where it is missing. Raises ``ManifestError``."""
        if self.value is None:
            return default
        if not isinstance(self.value, str):
            self.expected("a string")
        return self.value

    def name(self) -> str:
        """This string, which must be there and fit to be a name. Raises ``ManifestError``."""
        text = self.text()
        if not _NAME.fullmatch(text):
            self.expected("a name")
        return text

    def boolean(self, *, default: bool) -> bool:
        """This boolean, or ``default`` where it is missing. Raises ``ManifestError``."""
        if self.value is None:
            return default
        if not isinstance(self.value, bool):
            self.expected("true or false")
        return self.value

    def whole(self, *, minimum: int, maximum: int, default: int) -> int:
        """This integer, or ``default`` where it is missing. Raises ``ManifestError``."""
        if self.value is None:
            return default
        # JSON true is no number, although Python's is.
        if type(self.value) is not int or not minimum <= self.value <= maximum:
            self.expected(f"an integer from {minimum} to {maximum}")
        return self.value


def root(obj: object, kind: str) -> Field:
    """Starts reading an object.

    Arguments:
        obj: the object as decoded from JSON or YAML.
        kind: its kind, for messages.

    Returns:
        The object as a field whose subject names it as well as it can be named.
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
    """Reads which object this is.

    Arguments:
        obj: the object as decoded from JSON or YAML.
        kind: its kind, which list items do not repeat.

    Returns:
        Its key; the namespace is ``default`` where the object names none.

    Raises:
        ManifestError: no mapping, or no usable name or namespace.
    """
    metadata = root(obj, kind)["metadata"]
    namespace = metadata["namespace"]
    return ObjectKey(
        kind,
        DEFAULT_NAMESPACE if namespace.value is None else namespace.name(),
        metadata["name"].name(),
    )
