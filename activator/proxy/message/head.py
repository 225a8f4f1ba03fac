"""Take a message head apart: its start line, the fields that mean something to us, and the rest.

Most lines of a head are those of a head before it, of this peer or of another. What such a line
says is remembered; so is that it is well-formed. No secret is remembered: only lines of names in
``fields.RECURRING``.
"""

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

#: Lines in a memo, and bytes of one: whatever peers send, both memos stay below 1 MiB together.
MEMO_LINES: Final = 768
MEMO_LINE_BYTES: Final = 192
#: Names in a memo beyond our own, and bytes of one.
MEMO_NAMES: Final = 512
MEMO_NAME_BYTES: Final = 64
_LENGTH_NAME: Final = b"content-length"
_SINGLE_NAMES: Final = (b"host", b"date")
_MAX_DIGITS: Final = 19


class Kind(Enum):
    """What becomes of a field line.

    PASSES: it goes on as it came. BARRED: it does not go on. LENGTH: it is a Content-Length, and
    well-formed. SINGLE: Host of a request, Date of a response. FIELD: another field of ours.
    """

    PASSES = "passes"
    BARRED = "barred"
    LENGTH = "length"
    SINGLE = "single"
    FIELD = "field"


_PASSES: Final = Kind.PASSES
_BARRED: Final = Kind.BARRED
_LENGTH: Final = Kind.LENGTH
_SINGLE: Final = Kind.SINGLE
_FIELD: Final = Kind.FIELD


@final
class Line:
    """What a field line says, or the name in it.

    Attributes:
        name: of a field of ours, in lower case; else empty.
        value: of a field of ours, without the white space in front of it; else empty.
        recurs: the line may be remembered.
        length: of a Content-Length; -1 of another line.
        frames: the line frames the message or ends its connection, and is no Content-Length.
    """

    __slots__ = ("frames", "kind", "length", "name", "recurs", "value")

    def __init__(self, kind: Kind, name: bytes, value: bytes, *, recurs: bool) -> None:
        length = _length(value) if name == _LENGTH_NAME else -1
        self.kind: Final = kind if length < 0 else _LENGTH
        self.name: Final = name
        self.value: Final = value
        self.recurs: Final = recurs
        self.length: Final = length
        self.frames: Final = length < 0 and name in FRAMING


def _length(value: bytes) -> int:
    # int() would take '+5', '1_0' and Arabic digits.
    digits = value.strip(b" \t")
    return int(digits) if digits.isdigit() and len(digits) <= _MAX_DIGITS else -1


_PASSED: Final = Line(_PASSES, b"", b"", recurs=False)
_PASSED_AGAIN: Final = Line(_PASSES, b"", b"", recurs=True)
_BARRED_LINE: Final = Line(_BARRED, b"", b"", recurs=False)


@final
class KnownLines:
    """The lines of good heads of one kind, and the names that their senders use.

    A full memo forgets all: to weigh lines would cost each message.

    Arguments:
        ours: the names that mean something to us, in lower case.
        bars_lookalikes: fields whose names only look like ours do not go on, see is_lookalike.

    Attributes:
        lines: what a line says. Holds at most ``MEMO_LINES``.
        names: what a name says, as its sender spells it. Holds our own names, and at most
            ``MEMO_NAMES`` others.
    """

    __slots__ = ("_bars_lookalikes", "_ours", "_own", "lines", "names")

    def __init__(self, ours: frozenset[bytes], *, bars_lookalikes: bool = False) -> None:
        self._ours = ours
        self._bars_lookalikes = bars_lookalikes
        self.lines: dict[bytes, Line] = {}
        self.names: dict[bytes, Line] = {}
        for name in ours:
            self._learn(name)
            self._learn(name.title())
        self._own = self.names.copy()

    def read(self, line: bytes) -> Line:
        """Return what a line says that ``lines`` lacks."""
        name, _, value = line.partition(b":")
        known = self.names.get(name)
        if known is None:
            known = self._learn(name)
        if not known.name:
            return known
        return Line(known.kind, known.name, value.lstrip(b" \t"), recurs=known.recurs)

    def remember(self, lines: list[bytes]) -> None:
        """Remember lines of a head that is well-formed."""
        for line in lines:
            if len(line) <= MEMO_LINE_BYTES:
                if len(self.lines) >= MEMO_LINES:
                    self.lines.clear()
                self.lines[line] = self.read(line)

    def _learn(self, name: bytes) -> Line:
        """Return what a name says, and remember it."""
        lower = name.lower()
        recurs = lower in RECURRING
        if lower in self._ours:
            said = Line(_SINGLE if lower in _SINGLE_NAMES else _FIELD, lower, b"", recurs=recurs)
        elif self._bars_lookalikes and is_lookalike(lower):
            said = _BARRED_LINE
        else:
            said = _PASSED_AGAIN if recurs else _PASSED
        if len(name) <= MEMO_NAME_BYTES:
            if len(self.names) >= MEMO_NAMES + 2 * len(self._ours):
                self.names = self._own.copy()
            self.names[name] = said
        return said


REQUEST_LINES: Final = KnownLines(REQUEST_FIELDS, bars_lookalikes=True)
RESPONSE_LINES: Final = KnownLines(RESPONSE_FIELDS)


@final
class Head:
    """A message head taken apart.

    Arguments:
        known: REQUEST_LINES or RESPONSE_LINES.
        head: start line and fields with the empty line.

    Attributes:
        lines: all of it, cut at its line ends.
        start: the start line.
        length: Content-Length, -1 if there is none.
        single: the last Host of a request, or Date of a response; singles: how many there are.
        fields: the others that mean something to us, by lower-case name; values of equal names are
            joined by ``, `` (RFC 9110 section 5.3).
        block: all other fields as they came, each preceded by its CRLF, but for lookalikes.
        unchecked: the start line, and each line that was in no good head before. Content-Length
            needs no check.
        new: the lines to remember if this head is well-formed.
        is_odd: only the whole head shows whether it is well-formed: a line that frames the message
            is new, or one of our fields is there twice.
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
        ours = 0
        is_odd = False
        remembered = known.lines
        for line in lines[1:-2]:  # ordered: an empty line ends the head
            said = remembered.get(line)
            if said is None:
                said = known.read(line)
                if said.recurs:
                    new.append(line)
                if said.frames:
                    is_odd = True
                if said.length < 0:
                    unchecked.append(line)
            kind = said.kind
            if kind is _PASSES:
                others.append(line)
            elif kind is _FIELD:
                fields[said.name] = said.value
                ours += 1
            elif kind is _SINGLE:
                single = said.value
                singles += 1
            elif kind is _LENGTH:
                is_odd = is_odd or length >= 0
                length = said.length
        if ours != len(fields):
            fields = _joined(known, lines)
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
    """Return our fields where one is there twice, in time linear in all bytes of the head."""
    values: dict[bytes, list[bytes]] = {}
    for line in lines[1:-2]:  # ordered: an empty line ends the head
        said = known.read(line)
        if said.kind is _FIELD:
            if said.name in values:
                values[said.name].append(b", " + said.value)
            else:
                values[said.name] = [said.value]
    return {name: _one_of(each) for name, each in values.items()}


def _one_of(values: list[bytes]) -> bytes:
    """Return values as one; white space ends none but the last."""
    last = values.pop()
    return b"".join([*(value.rstrip(b" \t") for value in values), last])
