"""Maps Go's values to Python's, with the functions of Go's templates that a log line needs.

Texts are Go's bytes, decoded with ``surrogateescape``, so that invalid UTF-8 passes unchanged. The
type of each value is known before any line is made. So a function first checks the types of its
arguments, and returns what computes the value of a line. Source: Go's text/template and fmt.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import ClassVar, Final, NamedTuple


class TemplateError(ValueError):
    """An invalid template; the text begins with ``line:column: ``."""


class ExecutionError(Exception):
    """A valid template that cannot render the values of a line."""


class Member(NamedTuple):
    """A field, or a method that templates may call.

    Attributes:
        get: called with the struct and the arguments.
        returns: the type of the result.
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


_NO_NUMBERS: Final = {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}
_NAMES: Final = {bool: "bool", int: "int", float: "float64", str: "string", list: "[]string"}


def type_name(kind: type) -> str:
    """Return Go's name of a type; ``any`` if only a line shows the type."""
    if issubclass(kind, GoStruct | GoMap):
        return kind.go_name
    return _NAMES.get(kind, "any")


def is_printable(kind: type) -> bool:
    """Return whether a line can show a value of a type."""
    return not issubclass(kind, GoStruct) or kind.string is not GoStruct.string


def truth(value: object) -> bool:
    """Return whether a value differs from the zero of its type; structs are always true."""
    return isinstance(value, GoStruct) or bool(value)


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
    if isinstance(value, float):
        return show_float(value)
    if isinstance(value, list):
        return f"[{' '.join(map(show, value))}]"
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{show(value[key])}' for key in sorted(value))}]"
    return value.string() if isinstance(value, GoStruct) else str(value)


def show_float(value: float) -> str:
    """Return a float with the fewest digits that identify it, as Go's ``%v`` does."""
    text = repr(value)
    if text in _NO_NUMBERS:
        return _NO_NUMBERS[text]
    if value == 0 or 1e-4 <= abs(value) < 1e6:
        return text.removesuffix(".0")
    digits = text.partition("e")[0].lstrip("-").replace(".", "").strip("0")
    return f"{value:.{len(digits) - 1}e}"


# -- the function js ------------------------------------------------------------------------------

# Go writes \' for an apostrophe, which is invalid JSON; \u0027 has the same meaning in JavaScript.
_JS: Final = {
    **{code: f"\\u{code:04X}" for code in range(0x20)},
    **{ord(each): f"\\u{ord(each):04X}" for each in "'<>&="},
    ord("\\"): "\\\\",
    ord('"'): '\\"',
}
#: Printable ASCII without escapes: most logged text. The test is faster than the escape.
_PLAIN: Final = re.compile(r"[ !#-%(-;?-\[\]-~]*")


def js(value: object) -> str:
    """Return a value escaped for use within a JavaScript (and JSON) string."""
    text = show(value)
    if _PLAIN.fullmatch(text):
        return text
    text = text.translate(_JS)
    return text if text.isprintable() else "".join(map(_js, text))


def _js(character: str) -> str:
    code = ord(character)
    if character.isprintable() or code == 0x7F or 0xDC80 <= code <= 0xDCFF:
        return character
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[at]:02X}{units[at + 1]:02X}" for at in range(0, len(units), 2))


# -- the other functions --------------------------------------------------------------------------


def indexed(kinds: list[type]) -> tuple[Callable[..., object], type]:
    """Return ``index`` for a value and its keys of these types, and the type of its result.

    Raises:
        ValueError: a value has no elements, or a key has the wrong type.
    """
    value, *keys = kinds
    for key in keys:
        if issubclass(value, GoMap):
            if key is not str:
                raise ValueError(f"the key of a map is a string, not {type_name(key)}")
            value = list
        elif value in (str, list):
            if key is not int:
                raise ValueError(f"the index of an element is an int, not {type_name(key)}")
            value = str if value is list else int
        else:
            raise ValueError(f"a value of type {type_name(value)} has no elements")
    return _index, value


def _index(value: str | list[str] | GoMap, *keys: str | int) -> object:
    found: str | list[str] | GoMap | int = value
    for key in keys:
        if isinstance(found, dict):
            found = found.get(str(key), [])
        elif isinstance(found, str | list) and isinstance(key, int):
            elements = encoded(found) if isinstance(found, str) else found
            if not 0 <= key < len(elements):
                raise ExecutionError(f"index out of range: {key}")
            found = elements[key]
    return found


_ORDERS: Final = {
    "eq": lambda one, *others: one in others,
    "ge": operator.ge,
    "gt": operator.gt,
    "le": operator.le,
    "lt": operator.lt,
    "ne": operator.ne,
}


def compared(name: str, kinds: list[type]) -> Callable[..., bool]:
    """Return a comparison of values of these types.

    Raises:
        ValueError: Go does not compare such values.
    """
    if set(kinds) - {str, int, float, bool} or len(set(kinds)) > 1:
        names = " and ".join(sorted({type_name(kind) for kind in kinds}))
        raise ValueError(f"{name} cannot compare {names}")
    if kinds[0] is bool and name not in ("eq", "ne"):
        raise ValueError("values of type bool have no order")
    order = _ORDERS[name]
    # The order of texts is the order of their bytes.
    return (lambda *values: order(*map(encoded, values))) if kinds[0] is str else order


_DIRECTIVE: Final = re.compile(r"%([-+ #0]*)([0-9]{0,6})(\.[0-9]{0,6})?(.?)", re.DOTALL)
#: The limit of a width or precision: more than a log line needs, and harmless a thousand times.
_MOST_PADDING: Final = 1_000


def formatted(text: str, kinds: list[type]) -> Callable[..., str]:
    """Return ``printf`` with a format, for values of these types.

    Python's own ``%`` writes numbers as Go does, and pads texts as Go does.

    Raises:
        ValueError: the format does not fit the values, or has what is not offered.
    """
    converters: list[Callable[..., object]] = []

    def directive(found: re.Match[str]) -> str:
        flags, width, precision, verb = found.groups(default="")
        if verb == "%":
            return "%%"
        if verb == "[":
            raise ValueError("argument indexes such as %[1]s are not offered here")
        if (number := max(int(width or 0), int(precision[1:] or 0))) > _MOST_PADDING:
            raise ValueError(f"{number} is too wide: {_MOST_PADDING} is the most")
        if len(converters) == len(kinds):
            raise ValueError(_wrong_number(kinds))
        kind = kinds[len(converters)]
        if kind is int and verb in ("d", "v", "x", "X") and not precision:
            converters.append(int)
            return f"%{flags}{width}{verb.replace('v', 'd')}"
        if kind is float and (verb in ("e", "f") or (verb in ("g", "v") and precision)):
            converters.append(float)
            return f"%{flags}{width}{precision}{verb.replace('v', 'g')}"
        convert = _text_of(kind, verb)
        cut = precision and (kind is not str or verb not in ("s", "v"))
        padded = (width or precision) and issubclass(kind, list | GoMap)
        if convert is None or flags.strip("-") or cut or padded:
            raise ValueError(f"printf cannot write a value of type {type_name(kind)} as {found[0]}")
        converters.append(convert)
        return f"%{flags}{width}{precision}s"

    own_format = _DIRECTIVE.sub(directive, text)
    if len(converters) != len(kinds):
        raise ValueError(_wrong_number(kinds))
    return lambda *values: (
        own_format
        % tuple([convert(value) for convert, value in zip(converters, values, strict=True)])
    )


def _wrong_number(kinds: list[type]) -> str:
    return f"printf cannot be given {len(kinds) + 1} arguments"


def _text_of(kind: type, verb: str) -> Callable[..., str] | None:
    """Return what makes a text of a value for a verb; None if the verb does not fit."""
    is_text = not issubclass(kind, int | float) and kind is not object
    fits = verb == "v" or (verb == "s" and is_text) or (verb, kind) in (("t", bool), ("g", float))
    return show if fits else None
