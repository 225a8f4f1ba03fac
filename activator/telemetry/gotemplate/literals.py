"""Parses Go's literals: texts, characters, numbers.

Source: The Go Programming Language Specification, "String literals" to "Floating-point literals".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from activator.telemetry.gotemplate.lexer import Kind

_ESCAPE: Final = re.compile(
    r"\\(?:([abfnrtv\\'\"])|x([0-9a-fA-F]{2})|([0-7]{3})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|)",
)
_SIMPLE: Final = dict(zip("abfnrtv\\'\"", "\a\b\f\n\r\t\v\\'\"", strict=True))
_INTEGER: Final = re.compile(
    r"[+-]?(?:0[xX]_?[0-9a-fA-F_]+|0[bB]_?[01_]+|0[oO]_?[0-7_]+|0[0-7_]*|0[0-9]+|[1-9][0-9_]*)"
)
_FLOAT: Final = re.compile(r"[+-]?(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9]+)?")
_LONGEST: Final = 100  # bounds the work done on a number
_MAX_INT: Final = 2**63


def _text(literal: str) -> str:
    r"""Return a text between quotes. ``\xff`` is a byte, so the text is parsed as UTF-8 bytes."""
    return _unescaped(literal[1:-1], literal[0])


def _unescaped(text: str, quote: str) -> str:
    def replace(found: re.Match[str]) -> str:
        simple, hexadecimal, octal, short, long = found.groups()
        if simple:
            if simple in "'\"" and simple != quote:
                raise ValueError("unknown escape")
            return _SIMPLE[simple]
        if hexadecimal or octal:
            byte = int(hexadecimal, 16) if hexadecimal else int(octal, 8)
            return bytes([byte]).decode("utf-8", "surrogateescape")
        if not (short or long):
            raise ValueError("unknown escape")
        code = int(short or long, 16)
        if 0xD800 <= code < 0xE000:
            raise ValueError("no character")
        return chr(code)

    found = _ESCAPE.sub(replace, text)
    # Several escaped bytes may form one character.
    return found.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")


def _character(literal: str) -> int:
    text = _unescaped(literal[1:-1], "'")
    if len(text) != 1:
        raise ValueError("not one character")
    code = ord(text)
    # A byte beyond ASCII, kept as a lone surrogate.
    return code - 0xDC00 if 0xDC80 <= code <= 0xDCFF else code


def _number(literal: str) -> int | float:
    if len(literal) > _LONGEST or "__" in literal or literal.endswith("_"):
        raise ValueError("no number")
    if _INTEGER.fullmatch(literal):
        return _integer(literal)
    if _FLOAT.fullmatch(literal):
        number = float(literal)
        if number in (float("inf"), float("-inf")):
            raise ValueError("too large")
        return number
    raise ValueError("no number")


def _integer(literal: str) -> int:
    digits = literal.lstrip("+-")
    # Python writes Go's old octal 017 as 0o17.
    if len(digits) > 1 and digits[0] == "0" and digits[1] in "0123456789_":
        digits = "0o" + digits[1:]
    number = int(digits, 0) * (-1 if literal[0] == "-" else 1)
    if not -_MAX_INT <= number < _MAX_INT:
        raise ValueError("too large")
    return number


READERS: Final[dict[Kind, Callable[[str], str | int | float]]] = {
    Kind.STRING: _text,
    Kind.RAW_STRING: lambda literal: literal[1:-1].replace("\r", ""),
    Kind.CHARACTER: _character,
    Kind.NUMBER: _number,
}
"""The parser of each kind of literal; raises ``ValueError`` for an invalid one."""
