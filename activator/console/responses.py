"""Read a response field by field, since the server on a port may not be an activator.

Errors name the field. Must not know the meaning of fields. Knative has no counterpart.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, TypeVar

T = TypeVar("T")

_SHOWN_OF_ODD_VALUE: Final = 60  # characters of a value in an error


class UnexpectedResponse(Exception):
    """The response is not from an activator; the text has the difference."""


class Node:
    """A JSON object from outside, with its path in the response.

    Each method raises ValueError if a field has another type.
    """

    __slots__ = ("_fields", "_path")

    def __init__(self, value: object, path: str) -> None:
        self._fields: dict[str, Any] = _is(value, dict, path or "the response")
        self._path = path

    def __contains__(self, name: str) -> bool:
        """Return whether the field exists and is not null."""
        return self._fields.get(name) is not None

    def text(self, name: str, default: str | None = None) -> str:
        """Return a text without control characters, which could control the terminal.

        Arguments:
            default: value of an absent or null field; without it, such a field is an error.
        """
        return printable(self._get(name, str, default))

    def whole(self, name: str, default: int | None = None) -> int:
        """Return a whole number."""
        return self._get(name, int, default)

    def number(self, name: str, default: float | None = None) -> float:
        """Return a number."""
        return float(self._get(name, (int, float), default))

    def flag(self, name: str) -> bool:
        """Return whether the field is true; an absent field is false."""
        return self._fields.get(name) is True

    def node(self, name: str) -> Node | None:
        """Return an object; None if it is absent or null."""
        return Node(self._fields[name], self._at(name)) if name in self else None

    def nodes(self, name: str, required: bool = True) -> list[Node]:
        """Return an array of objects."""
        values = self._get(name, list, None if required else [])
        return [Node(value, f"{self._at(name)}[{i}]") for i, value in enumerate(values)]

    def texts(self, name: str) -> list[str]:
        """Return an array of texts, each without control characters."""
        values = self._get(name, list, None)
        return [printable(_is(one, str, f"{self._at(name)}[{i}]")) for i, one in enumerate(values)]

    def children(self) -> Iterator[tuple[str, Node]]:
        """Yield the name and the object of each field that is not null."""
        for name, value in self._fields.items():
            if value is not None:
                yield printable(name), Node(value, self._at(name))

    def numbers(self) -> Iterator[tuple[str, float]]:
        """Yield the name and the number of each field that is not null."""
        for name, value in self._fields.items():
            if value is not None:
                yield printable(name), self.number(name)

    def items(self) -> Iterator[tuple[str, object]]:
        """Yield each field with its value, of any type."""
        for name, value in self._fields.items():
            yield printable(name), value

    def _get(self, name: str, kind: type[T] | tuple[type[T], ...], default: T | None) -> T:
        value = self._fields.get(name)
        if value is None and default is not None:
            return default
        if name not in self._fields:
            raise ValueError(f"{self._at(name)} is missing")
        return _is(value, kind, self._at(name))

    def _at(self, name: str) -> str:
        return f"{self._path}.{name}".lstrip(".")


def parse(text: str) -> Node:
    """Return the object of a response.

    Raises:
        ValueError: the text is not JSON, or not an object.
    """
    try:
        return Node(json.loads(text), "")
    except RecursionError as error:
        raise ValueError(str(error)) from None


def printable(text: str) -> str:
    """Return a text without control characters, which could control the terminal."""
    return "".join(c if c.isprintable() else "?" for c in text)


def _is(value: object, kind: type[T] | tuple[type[T], ...], path: str) -> T:
    # In Python, unlike JSON, true is a number.
    if not isinstance(value, kind) or isinstance(value, bool):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        expected = " or ".join(_JSON_NAMES[one] for one in kinds)
        shown = repr(value)[:_SHOWN_OF_ODD_VALUE]
        raise ValueError(f"{path}: expected {expected}, got {shown}")
    return value


_JSON_NAMES: Final[dict[type, str]] = {
    dict: "an object",
    list: "an array",
    str: "a text",
    int: "a whole number",
    float: "a number",
}
