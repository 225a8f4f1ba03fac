"""Take a message head apart: its start line, the fields that mean something to us, and the rest."""

from __future__ import annotations

from typing import Final, final

from activator.proxy.message.lines import FIELD, LENGTH, PASSES, SINGLE, KnownLines


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
            is new, one of our fields is there twice, or its length has two forms.
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
            if kind is PASSES:
                others.append(line)
            elif kind is FIELD:
                fields[said.name] = said.value
                ours += 1
            elif kind is SINGLE:
                single = said.value
                singles += 1
            elif kind is LENGTH:
                is_odd = is_odd or length >= 0
                length = said.length
        if ours != len(fields):
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
    """Return our fields where one is there twice, in time linear in all bytes of the head."""
    values: dict[bytes, list[bytes]] = {}
    for line in lines[1:-2]:  # ordered: an empty line ends the head
        said = known.read(line)
        if said.kind is FIELD:
            if said.name in values:
                values[said.name].append(b", " + said.value)
            else:
                values[said.name] = [said.value]
    return {name: _one_of(each) for name, each in values.items()}


def _one_of(values: list[bytes]) -> bytes:
    """Return values as one; white space ends none but the last."""
    last = values.pop()
    return b"".join([*(value.rstrip(b" \t") for value in values), last])
