"""Maps Go's values to Python's: their truth, their type names, and their form in print.

Texts are Go's bytes, decoded with ``surrogateescape``, so that invalid UTF-8 passes unchanged.
Source: Go's text/template and fmt (verb ``%v``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final, NamedTuple

from activator.telemetry.gotemplate.errors import ExecutionError


class Member(NamedTuple):
    """A field, or a method that templates may call.

    Attributes:
        get: called with the struct and the arguments.
        returns: the type of the result; ``object`` if only a line shows it.
        parameters: the types of a method's arguments; empty for a field.
    """

    get: Callable[..., object]
    returns: type
    parameters: tuple[type, ...] = ()


class GoStruct:
    """A struct: its fields and methods by name.

    Attributes:
        go_name: the name of its type, for messages.
        stringer: whether its method String prints it everywhere.
        members: its exported fields and methods.
    """

    __slots__ = ()
    go_name: ClassVar[str] = "struct"
    stringer: ClassVar[bool] = False
    members: ClassVar[dict[str, Member]] = {}

    def string(self) -> str:
        """Return the struct in print.

        Raises:
            ExecutionError: it would be an address in memory.
        """
        raise ExecutionError(f"{self.go_name} cannot be printed; name one of its fields")


class GoMap(dict[str, list[str]]):
    """A map of texts to lists of texts, with methods."""

    go_name: ClassVar[str] = "map[string][]string"
    members: ClassVar[dict[str, Member]] = {}


class Missing:
    """The value of a key that a map does not have."""


MISSING: Final = Missing()

_NO_NUMBERS: Final = {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}
_NAMES: Final = {bool: "bool", int: "int", float: "float64", str: "string", list: "[]string"}


def type_name(kind: type) -> str:
    """Return Go's name of a type."""
    if issubclass(kind, GoStruct | GoMap):
        return kind.go_name
    return _NAMES.get(kind, "nil" if kind is type(None) else kind.__name__)


def truth(value: object) -> bool:
    """Return whether a value differs from the zero of its type; structs are always true."""
    return isinstance(value, GoStruct) or (value is not MISSING and bool(value))


def encoded(text: str) -> bytes:
    """Return the bytes of a text."""
    return text.encode("utf-8", "surrogateescape")


def decoded(data: bytes) -> str:
    """Return the text of bytes."""
    return data.decode("utf-8", "surrogateescape")


def show(value: object) -> str:
    """Return a value in print (``%v``).

    Raises:
        ExecutionError: it would be an address in memory.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return show_float(value)
    return _show_other(value)


def _show_other(value: object) -> str:
    if isinstance(value, list):
        return f"[{' '.join(map(show, value))}]"
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{show(value[key])}' for key in sorted(value))}]"
    if isinstance(value, GoStruct):
        return value.string()
    return "<no value>" if value is MISSING else "<nil>"


def show_float(value: float) -> str:
    """Return a float with the fewest digits that identify it, as Go's ``%v`` does."""
    text = repr(value)
    if text in _NO_NUMBERS:
        return _NO_NUMBERS[text]
    if value == 0 or 1e-4 <= abs(value) < 1e6:
        return text.removesuffix(".0")
    digits = text.partition("e")[0].lstrip("-").replace(".", "").strip("0")
    return f"{value:.{len(digits) - 1}e}"
