"""Formats values as Go's fmt.Sprintf does, with its texts for mistakes.

Source: the documentation of Go's package fmt.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from activator.telemetry.gotemplate.errors import ExecutionError
from activator.telemetry.gotemplate.values import (
    MISSING,
    GoStruct,
    encoded,
    show,
    show_float,
    type_name,
)

_DIRECTIVE: Final = re.compile(
    r"%(?P<flags>[-+# 0]*)(?P<width>\*|[0-9]{1,6})?(?P<point>\.(?P<precision>\*|[0-9]{0,6}))?"
    r"(?P<verb>.)?",
    re.DOTALL,
)
_SUBSCRIPT: Final = re.compile(r"%[-+# 0]*[*0-9.]*\[")
#: Go's limit of widths and precisions.
_WIDEST: Final = 1_000_000
#: The activator's limit: more than a log line needs, and harmless for a thousand values.
_MOST_PADDING: Final = 1_000

_SIMPLE_ESCAPES: Final = {
    **dict(zip("\a\b\f\n\r\t\v", "abfnrtv", strict=True)),
    "\\": "\\",
}


class Directive:
    """One verb with its flags."""

    __slots__ = ("flags", "precision", "verb", "width")

    def __init__(self, flags: str, width: int | None, precision: int | None, verb: str) -> None:
        self.flags = flags
        self.width = width
        self.precision = precision
        self.verb = verb


def check_format(text: str) -> str:
    """Return why a format is not supported; empty if it is."""
    if _SUBSCRIPT.search(text):
        return "argument indexes such as %[1]s are not offered here"
    for found in _DIRECTIVE.finditer(text):
        for number in (found["width"], found["precision"]):
            if number and number != "*" and int(number) > _MOST_PADDING:
                return f"{number} is too wide: {_MOST_PADDING} is the most"
    return ""


def sprintf(text: str, arguments: list[object]) -> str:
    """Return the formatted arguments.

    Mistakes show in the result, as in Go: ``%!d(string=x)``, ``%!s(MISSING)``,
    ``%!(EXTRA int=1)``.

    Raises:
        ExecutionError: an argument cannot be printed.
    """
    left = iter(arguments)
    written = _DIRECTIVE.sub(lambda found: _directive(found, left), text)
    if extra := list(left):
        named = ", ".join(f"{_type_of(each)}={_plain(each)}" for each in extra)
        written += f"%!(EXTRA {named})"
    return written


def _directive(found: re.Match[str], left: Iterator[object]) -> str:
    if found["verb"] is None:
        return "%!(NOVERB)"
    flags, wrong = found["flags"], ""
    width = _number(found["width"], left)
    if width is _BAD:
        width, wrong = None, "%!(BADWIDTH)"
    if width is not None and width < 0:
        flags, width = flags + "-", -width
    precision = _number(found["precision"] or "0", left) if found["point"] else None
    if precision is _BAD:
        precision, wrong = None, wrong + "%!(BADPREC)"
    if max(width or 0, precision or 0) > _MOST_PADDING:
        raise ExecutionError(f"printf: a width or precision of more than {_MOST_PADDING}")
    if found["verb"] == "%":
        return wrong + "%"
    argument = next(left, _NONE_LEFT)
    if argument is _NONE_LEFT:
        return f"{wrong}%!{found['verb']}(MISSING)"
    return wrong + format_value(argument, Directive(flags, width, precision, found["verb"]))


_NONE_LEFT: Final = object()
_BAD: Final = -(2**62)


def _number(text: str | None, left: Iterator[object]) -> int | None:
    if text != "*":
        return int(text) if text else None
    value = next(left, None)
    usable = isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _WIDEST
    return value if usable and isinstance(value, int) else _BAD


def format_value(value: object, directive: Directive) -> str:
    """Return one value in the form of one verb, which also applies to each element of a value."""
    if directive.verb == "T":
        return _padded(_type_of(value), directive)
    if isinstance(value, list) and directive.verb != "p":
        return f"[{' '.join(format_value(each, directive) for each in value)}]"
    if isinstance(value, dict):
        pairs = (
            f"{format_value(key, directive)}:{format_value(value[key], directive)}"
            for key in sorted(value)
        )
        return f"map[{' '.join(pairs)}]"
    if isinstance(value, GoStruct):
        return format_value(value.string(), directive)
    for kind, formatter in _FORMATTERS:
        if isinstance(value, kind):
            text = formatter(value, directive)
            return text if text is not None else _bad_verb(value, directive.verb)
    return (
        _padded(show(value), directive)
        if directive.verb == "v"
        else _bad_verb(value, directive.verb)
    )


def _bad_verb(value: object, verb: str) -> str:
    if value is None or value is MISSING:
        return f"%!{verb}(<nil>)"
    return f"%!{verb}({_type_of(value)}={_plain(value)})"


def _plain(value: object) -> str:
    return show(value)


def _type_of(value: object) -> str:
    return "<nil>" if value is None or value is MISSING else type_name(type(value))


def _padded(text: str, directive: Directive, *, number: bool = False) -> str:
    width = directive.width or 0
    if "-" in directive.flags:
        return text.ljust(width)
    if "0" not in directive.flags:
        return text.rjust(width)
    sign = text[:1] if number and text[:1] in ("+", "-", " ") else ""
    return sign + text[len(sign) :].rjust(width - len(sign), "0")


def _bool(value: bool, directive: Directive) -> str | None:
    return _padded(show(value), directive) if directive.verb in "tv" else None


_BASES: Final = {
    "b": ("b", "0b"),
    "o": ("o", "0"),
    "O": ("o", "0o"),
    "x": ("x", "0x"),
    "X": ("X", "0X"),
}


def _int(value: int, directive: Directive) -> str | None:
    verb, flags = directive.verb, directive.flags
    if verb in "cqU":
        return _rune(value, directive)
    if verb in "dv":
        digits, prefix = str(abs(value)), ""
    elif verb in _BASES:
        base, prefix = _BASES[verb]
        digits = format(abs(value), base)
        prefix = prefix if "#" in flags or verb == "O" else ""
    else:
        return None
    if directive.precision is not None:
        digits = digits.rjust(directive.precision, "0")
        digits = "" if directive.precision == 0 and value == 0 else digits
        directive = Directive(flags.replace("0", ""), directive.width, None, verb)
    return _padded(_sign(value < 0, flags) + prefix + digits, directive, number=True)


def _sign(negative: bool, flags: str) -> str:
    if negative:
        return "-"
    return "+" if "+" in flags else " " if " " in flags else ""


def _rune(value: int, directive: Directive) -> str:
    code = value if 0 <= value <= 0x10FFFF and not 0xD800 <= value < 0xE000 else 0xFFFD
    if directive.verb == "U":
        text = f"U+{value:04X}"
        text += f" '{chr(code)}'" if "#" in directive.flags and chr(code).isprintable() else ""
        return _padded(
            text, Directive(directive.flags.replace("0", ""), directive.width, None, "U")
        )
    if directive.verb == "q":
        return _padded(quoted(chr(code), "'", "+" in directive.flags), directive)
    return _padded(chr(code), directive)


def _float(value: float, directive: Directive) -> str | None:
    verb, precision, flags = directive.verb, directive.precision, directive.flags
    if verb not in "vgGeEfF":
        return None
    if value != value or value in (float("inf"), float("-inf")):
        text, flags = show_float(value), flags.replace("0", "")
    elif verb in "vgG" and precision is None:
        text = show_float(value)
    elif verb in "vgG":
        text = format(value, f".{precision or 1}g")
    else:
        text = format(value, f".{6 if precision is None else precision}{verb}")
    text = text.upper() if verb in "GE" else text
    if text[0] not in "+-":
        text = _sign(False, flags) + text
    return _padded(text, Directive(flags, directive.width, None, verb), number=True)


def _string(value: str, directive: Directive) -> str | None:
    verb, flags = directive.verb, directive.flags
    if verb in "xX":
        return _padded(_hexadecimal(encoded(value), directive), directive)
    if verb not in "svq":
        return None
    text = value if directive.precision is None else value[: directive.precision]
    if verb == "q":
        raw = "#" in flags and "`" not in text and all(c.isprintable() or c == "\t" for c in text)
        text = f"`{text}`" if raw else quoted(text, '"', "+" in flags)
    return _padded(text, directive)


def _hexadecimal(data: bytes, directive: Directive) -> str:
    data = data if directive.precision is None else data[: directive.precision]
    prefix = "0x" if "#" in directive.flags and data else ""
    if " " in directive.flags:
        text = " ".join(f"{prefix}{byte:02x}" for byte in data)
    else:
        text = prefix + data.hex()
    return text.upper() if directive.verb == "X" else text


def quoted(text: str, quote: str, ascii_only: bool) -> str:
    """Return a text as a Go literal (strconv.Quote)."""
    return quote + "".join(_quoted(each, quote, ascii_only) for each in text) + quote


def _quoted(character: str, quote: str, ascii_only: bool) -> str:
    code = ord(character)
    if character == quote:
        return "\\" + quote
    if character in _SIMPLE_ESCAPES:
        return "\\" + _SIMPLE_ESCAPES[character]
    if 0xDC80 <= code <= 0xDCFF:  # a byte of invalid UTF-8
        return f"\\x{code - 0xDC00:02x}"
    if character.isprintable() and (code < 0x7F or not ascii_only):
        return character
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


# bool before int, as bool is a subclass of int.
_FORMATTERS: Final[tuple[tuple[type, Callable[..., str | None]], ...]] = (
    (str, _string),
    (bool, _bool),
    (int, _int),
    (float, _float),
)
