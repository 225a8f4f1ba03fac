"""Provides the predefined functions of Go's templates, except ``call``.

Source: Go's text/template, "Functions".
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import Final, NamedTuple
from urllib.parse import quote_plus

from activator.telemetry.gotemplate.errors import ExecutionError
from activator.telemetry.gotemplate.printf import sprintf
from activator.telemetry.gotemplate.values import (
    MISSING,
    GoStruct,
    decoded,
    encoded,
    show,
    truth,
    type_name,
)


class Function(NamedTuple):
    """A function.

    Attributes:
        call: the Python function; raises ``ExecutionError``.
        returns: the type of the result; ``object`` if it depends on the arguments.
        least, most: the number of arguments; None means any number.
    """

    call: Callable[..., object]
    returns: type
    least: int = 0
    most: int | None = None


def sprint(*arguments: object) -> str:
    """Return the arguments, with a blank between two arguments if neither is a text."""
    if len(arguments) == 1:
        return show(arguments[0])
    parts: list[str] = []
    after_text = True
    for argument in arguments:
        is_text = isinstance(argument, str)
        if parts and not is_text and not after_text:
            parts.append(" ")
        parts.append(show(argument))
        after_text = is_text
    return "".join(parts)


def sprintln(*arguments: object) -> str:
    """Return the arguments with blanks between them and a line feed at the end."""
    return " ".join(map(show, arguments)) + "\n"


def _printf(text: object, *arguments: object) -> str:
    if not isinstance(text, str):
        raise ExecutionError(f"printf needs a format, not a value of type {_type(text)}")
    return sprintf(text, list(arguments))


# Go writes \' for an apostrophe, which is invalid JSON; \u0027 has the same meaning in JavaScript.
_JS: Final = {
    **{code: f"\\u{code:04X}" for code in range(0x20)},
    **{ord(each): f"\\u{ord(each):04X}" for each in "'<>&="},
    ord("\\"): "\\\\",
    ord('"'): '\\"',
}


#: Printable ASCII without escapes: most logged text. The test is faster than the escape.
_PLAIN: Final = re.compile(r"[ !#-%(-;?-\[\]-~]*")


def js(*arguments: object) -> str:
    """Return the arguments escaped for use within a JavaScript (and JSON) string."""
    text = sprint(*arguments)
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


def _html(*arguments: object) -> str:
    text = html.escape(sprint(*arguments), quote=False)
    return text.replace('"', "&#34;").replace("'", "&#39;").replace("\0", "\ufffd")


def _urlquery(*arguments: object) -> str:
    return quote_plus(encoded(sprint(*arguments)))


def _len(value: object) -> int:
    if isinstance(value, str):
        return len(encoded(value))
    if isinstance(value, list | dict):
        return len(value)
    raise ExecutionError(f"a value of type {_type(value)} has no length")


def _index(value: object, *keys: object) -> object:
    for key in keys:
        value = _indexed(value, key)
    return value


def _indexed(value: object, key: object) -> object:
    if isinstance(value, dict):
        if not isinstance(key, str):
            raise ExecutionError(f"the key of a map is a string, not {_type(key)}")
        return value.get(key, [])
    if not isinstance(value, str | list):
        raise ExecutionError(f"a value of type {_type(value)} has no elements")
    data = encoded(value) if isinstance(value, str) else value
    return data[_position(key, len(data) - 1)]


def _position(key: object, last: int) -> int:
    if not isinstance(key, int) or isinstance(key, bool):
        raise ExecutionError(f"the index of an element is an int, not {_type(key)}")
    if not 0 <= key <= last:
        raise ExecutionError(f"index out of range: {key}")
    return key


def _slice(value: object, *keys: object) -> object:
    if not isinstance(value, str | list) or (isinstance(value, str) and len(keys) > 2):
        raise ExecutionError(f"a value of type {_type(value)} cannot be sliced so")
    data = encoded(value) if isinstance(value, str) else value
    ends = [_position(key, len(data)) for key in keys]
    if ends != sorted(ends):
        raise ExecutionError(f"the end of a slice is before its start: {ends}")
    start, end = ends[0] if ends else 0, ends[1] if len(ends) > 1 else len(data)
    part = data[start:end]
    return decoded(part) if isinstance(part, bytes) else part


def _type(value: object) -> str:
    return "nil" if value is None or value is MISSING else type_name(type(value))


def _comparable(value: object) -> None:
    if isinstance(value, list | dict | GoStruct):
        raise ExecutionError(f"a value of type {_type(value)} cannot be compared")


def _same_types(one: object, other: object) -> None:
    if type(one) is not type(other):
        raise ExecutionError(f"a {_type(one)} cannot be compared with a {_type(other)}")


def _eq(one: object, *others: object) -> bool:
    _comparable(one)
    for other in others:
        _comparable(other)
        if one is None or other is None:
            if one is other:
                return True
            continue
        _same_types(one, other)
        if one == other:
            return True
    return False


def _lt(one: object, other: object) -> bool:
    _same_types(one, other)
    if isinstance(one, bool) or not isinstance(one, int | float | str):
        raise ExecutionError(f"values of type {_type(one)} have no order")
    if isinstance(one, str):
        return encoded(one) < encoded(str(other))
    return one < other  # type: ignore[operator] # of one type, as checked above


def _le(one: object, other: object) -> bool:
    return _lt(one, other) or _eq(one, other)


FUNCTIONS: Final[dict[str, Function]] = {
    "eq": Function(_eq, bool, 2),
    "ge": Function(lambda one, other: not _lt(one, other), bool, 2, 2),
    "gt": Function(lambda one, other: not _le(one, other), bool, 2, 2),
    "html": Function(_html, str),
    "index": Function(_index, object, 1),
    "js": Function(js, str),
    "le": Function(_le, bool, 2, 2),
    "len": Function(_len, int, 1, 1),
    "lt": Function(_lt, bool, 2, 2),
    "ne": Function(lambda one, other: not _eq(one, other), bool, 2, 2),
    "not": Function(lambda value: not truth(value), bool, 1, 1),
    "print": Function(sprint, str),
    "printf": Function(_printf, str, 1),
    "println": Function(sprintln, str),
    "slice": Function(_slice, object, 1, 4),
    "urlquery": Function(_urlquery, str),
}
"""All functions except ``and`` and ``or``, which evaluate no more arguments than necessary."""

COMPARISONS: Final = frozenset({"eq", "ge", "gt", "le", "lt", "ne"})
