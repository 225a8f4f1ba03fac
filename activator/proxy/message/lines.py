"""What field lines say to us, as we learn it once.

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


#: The same as plain names, see version.HTTP_1_1.
PASSES: Final = Kind.PASSES
BARRED: Final = Kind.BARRED
LENGTH: Final = Kind.LENGTH
SINGLE: Final = Kind.SINGLE
FIELD: Final = Kind.FIELD


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
        self.kind: Final = kind if length < 0 else LENGTH
        self.name: Final = name
        self.value: Final = value
        self.recurs: Final = recurs
        self.length: Final = length
        self.frames: Final = length < 0 and name in FRAMING


def _length(value: bytes) -> int:
    # int() would take '+5', '1_0' and Arabic digits.
    digits = value.strip(b" \t")
    return int(digits) if digits.isdigit() and len(digits) <= _MAX_DIGITS else -1


_PASSED: Final = Line(PASSES, b"", b"", recurs=False)
_PASSED_AGAIN: Final = Line(PASSES, b"", b"", recurs=True)
_BARRED_LINE: Final = Line(BARRED, b"", b"", recurs=False)


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
            said = Line(SINGLE if lower in _SINGLE_NAMES else FIELD, lower, b"", recurs=recurs)
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
