"""Splits a message head into lines and fields, and remembers lines that recur."""

from __future__ import annotations

from enum import Enum
from typing import Final, final

from activator.proxy.message.fields import (
    FRAMING,
    RECURRING,
    REQUEST_FIELDS,
    RESPONSE_FIELDS,
    is_lookalike,
)

# Parses field lines, and remembers the result for lines that recur.
#
# Most lines of a head occurred in an earlier head, of the same peer or of another. The memo holds
# the parsed form of such a line, and only lines of well-formed heads. It holds no secrets: only
# fields in ``fields.RECURRING`` are remembered.

#: Limits of a memo: lines, and bytes of one line. Both memos together stay below 1 MiB.
MEMO_LINES: Final = 768
MEMO_LINE_BYTES: Final = 192
#: Limits of a memo: names that the activator does not handle, and bytes of one name.
MEMO_NAMES: Final = 512
MEMO_NAME_BYTES: Final = 64
_LENGTH_NAME: Final = b"content-length"
_SINGLE_NAMES: Final = (b"host", b"date")
_MAX_DIGITS: Final = 19


class Kind(Enum):
    """How the activator treats a field line."""

    PASSES = "passes"  # It passes on unchanged.
    BARRED = "barred"  # The activator removes it.
    LENGTH = "length"  # It is a valid Content-Length.
    SINGLE = "single"  # It is Host of a request, or Date of a response.
    FIELD = "field"  # It is another field that the activator handles.


#: Module names for the members, for speed: see version.HTTP_1_1.
PASSES: Final = Kind.PASSES
BARRED: Final = Kind.BARRED
LENGTH: Final = Kind.LENGTH
SINGLE: Final = Kind.SINGLE
FIELD: Final = Kind.FIELD


@final
class Line:
    """A parsed field line, or a parsed field name.

    Attributes:
        kind: how the activator treats the line.
        name: the field name in lower case, if the activator handles the field; else empty.
        value: the value without leading white space, if the activator handles the field; else
            empty.
        recurs: the line may be remembered.
        length: the value of a valid Content-Length; -1 for another line.
        frames: the line frames the message or closes its connection, and is not a valid
            Content-Length.
    """

    __slots__ = ("frames", "kind", "length", "name", "recurs", "value")

    def __init__(self, kind: Kind, name: bytes, value: bytes, *, recurs: bool) -> None:
        length = _length(value) if name == _LENGTH_NAME else -1
        self.kind: Final = kind if length < 0 else LENGTH
        self.name: Final = name
        self.value: Final = value
        self.recurs: Final = recurs
        self.length: Final = length
        self.frames: Final = length < 0 and name in FRAMING


def _length(value: bytes) -> int:
    # int() would accept '+5', '1_0' and Arabic digits.
    digits = value.strip(b" \t")
    return int(digits) if digits.isdigit() and len(digits) <= _MAX_DIGITS else -1


_PASSED: Final = Line(PASSES, b"", b"", recurs=False)
_PASSED_RECURRING: Final = Line(PASSES, b"", b"", recurs=True)
_BARRED_LINE: Final = Line(BARRED, b"", b"", recurs=False)


@final
class KnownLines:
    """Two memos: lines of well-formed heads, of requests or of responses, and field names.

    A full memo is cleared. To remove the least used entry would cost time in each message.

    Arguments:
        handled: the fields that the activator handles, in lower case.
        bars_lookalikes: whether lookalikes are removed, see ``is_lookalike``.

    Attributes:
        lines: parsed lines; at most ``MEMO_LINES``.
        names: parsed names, as their senders spell them. It has all names in ``handled``, and at
            most ``MEMO_NAMES`` others.
    """

    __slots__ = ("_bars_lookalikes", "_handled", "_initial_names", "lines", "names")

    def __init__(self, handled: frozenset[bytes], *, bars_lookalikes: bool = False) -> None:
        self._handled = handled
        self._bars_lookalikes = bars_lookalikes
        self.lines: dict[bytes, Line] = {}
        self.names: dict[bytes, Line] = {}
        for name in handled:
            self._read_name(name)
            self._read_name(name.title())
        self._initial_names = self.names.copy()

    def read(self, line: bytes) -> Line:
        """Parse a line that is not in ``lines``."""
        name, _, value = line.partition(b":")
        known = self.names.get(name)
        if known is None:
            known = self._read_name(name)
        if not known.name:
            return known
        return Line(known.kind, known.name, value.lstrip(b" \t"), recurs=known.recurs)

    def remember(self, lines: list[bytes]) -> None:
        """Remember lines of a well-formed head."""
        for line in lines:
            if len(line) <= MEMO_LINE_BYTES:
                if len(self.lines) >= MEMO_LINES:
                    self.lines.clear()
                self.lines[line] = self.read(line)

    def _read_name(self, name: bytes) -> Line:
        """Parse a field name, and remember the result."""
        lower = name.lower()
        recurs = lower in RECURRING
        if lower in self._handled:
            parsed = Line(SINGLE if lower in _SINGLE_NAMES else FIELD, lower, b"", recurs=recurs)
        elif self._bars_lookalikes and is_lookalike(lower):
            parsed = _BARRED_LINE
        else:
            parsed = _PASSED_RECURRING if recurs else _PASSED
        if len(name) <= MEMO_NAME_BYTES:
            if len(self.names) >= MEMO_NAMES + 2 * len(self._handled):
                self.names = self._initial_names.copy()
            self.names[name] = parsed
        return parsed


REQUEST_LINES: Final = KnownLines(REQUEST_FIELDS, bars_lookalikes=True)
RESPONSE_LINES: Final = KnownLines(RESPONSE_FIELDS)


# Splits a message head: the start line, the fields that the activator handles, and the others.


@final
class Head:
    """The parts of one message head.

    Arguments:
        known: REQUEST_LINES or RESPONSE_LINES.
        head: start line, fields and the empty line.

    Attributes:
        lines: all lines of the head, without their CRLF.
        start: the start line.
        length: Content-Length; -1 without one.
        single: the last Host of a request, or Date of a response.
        singles: the number of Host or Date fields.
        fields: the other fields that the activator handles, by name in lower case. Values of equal
            names are joined by ``, `` (RFC 9110 section 5.3).
        block: all other fields unchanged, each preceded by its CRLF; without lookalikes.
        unchecked: the start line, and each line that no well-formed head had before. Content-Length
            needs no check.
        new: the lines to remember if this head is well-formed.
        is_odd: the caller must check the whole head. A new line frames the message, a
            handled field occurs twice, or the head gives its length in two ways.
    """

    __slots__ = (
        *("block", "fields", "is_odd", "length", "lines", "new", "single", "singles", "start"),
        "unchecked",
    )

    def __init__(self, known: KnownLines, head: bytes) -> None:
        lines = head.split(b"\r\n")
        start = lines[0]
        length = -1
        single, singles = b"", 0
        fields: dict[bytes, bytes] = {}
        others = [b""]
        unchecked = [start]
        new: list[bytes] = []
        handled = 0
        is_odd = False
        remembered = known.lines
        for line in lines[1:-2]:  # ordered: an empty line ends the head
            parsed = remembered.get(line)
            if parsed is None:
                parsed = known.read(line)
                if parsed.recurs:
                    new.append(line)
                if parsed.frames:
                    is_odd = True
                if parsed.length < 0:
                    unchecked.append(line)
            kind = parsed.kind
            if kind is PASSES:
                others.append(line)
            elif kind is FIELD:
                fields[parsed.name] = parsed.value
                handled += 1
            elif kind is SINGLE:
                single = parsed.value
                singles += 1
            elif kind is LENGTH:
                is_odd = is_odd or length >= 0
                length = parsed.length
        if handled != len(fields):
            fields = _joined(known, lines)
            is_odd = True
        if length >= 0 and fields and b"transfer-encoding" in fields:
            is_odd = True
        self.lines: Final = lines
        self.start: Final = start
        self.length: Final = length
        self.single: Final = single
        self.singles: Final = singles
        self.fields: Final = fields
        self.block: Final = b"\r\n".join(others)
        self.unchecked: Final = unchecked
        self.new: Final = new
        self.is_odd: Final = is_odd


def _joined(known: KnownLines, lines: list[bytes]) -> dict[bytes, bytes]:
    """Return the handled fields of a head that has one of them twice, values joined by ``, ``.

    The time is linear in the bytes of the head.
    """
    values: dict[bytes, list[bytes]] = {}
    for line in lines[1:-2]:  # ordered: an empty line ends the head
        parsed = known.read(line)
        if parsed.kind is FIELD:
            if parsed.name in values:
                values[parsed.name].append(b", " + parsed.value)
            else:
                values[parsed.name] = [parsed.value]
    return {name: _as_one(each) for name, each in values.items()}


def _as_one(values: list[bytes]) -> bytes:
    """Join values. Each loses its trailing white space, except the last."""
    last = values.pop()
    return b"".join([*(value.rstrip(b" \t") for value in values), last])
