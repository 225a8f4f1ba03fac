"""Splits a message head: the start line, the fields that the activator handles, and the others."""

from __future__ import annotations

from typing import Final, final

from activator.proxy.message.lines import FIELD, LENGTH, PASSES, SINGLE, KnownLines


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
