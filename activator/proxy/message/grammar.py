"""Defines the grammar of HTTP/1: well-formed heads, their lines, and the framing of bodies.

llhttp (httptools) checks whether a head is well-formed; no other module uses it. It is strict about
everything that request smuggling uses: line ends, obs-fold, control characters, odd forms of
Content-Length, Content-Length beside Transfer-Encoding. It accepts some malformed heads (gzip
before chunked, HTTP/2.0, a fragment in the target). The modules ``request`` and ``response`` reject
these. Pure: no socket.
"""

from __future__ import annotations

import re
from collections.abc import MutableSequence
from enum import Enum
from typing import Final, TypeAlias, final

import httptools

from activator.proxy.message.fields import (
    FRAMING,
    RECURRING,
    REQUEST_FIELDS,
    RESPONSE_FIELDS,
    is_lookalike,
)


class FramingError(Exception):
    """A message is malformed or not supported. Its connection must close.

    Attributes:
        status: the status of the error response, if the message is a request.
        block: the request's header fields, each preceded by its CRLF, if it is well-formed and not
            supported. They decide the form of the error response. Else empty.
        to_head: the request is known to be a HEAD, so its response has no body.
    """

    def __init__(self, reason: str, status: int = 400, block: bytes = b"") -> None:
        super().__init__(reason)
        self.status = status
        self.block = block
        self.to_head = False


class _NoCallbacks:
    """The callbacks that httptools looks up by name: none, since only the verdict counts.

    An attribute that is None costs httptools less than a missing one.
    """

    __slots__ = ()

    on_body = None
    on_chunk_complete = None
    on_chunk_header = None
    on_header = None
    on_headers_complete = None
    on_message_begin = None
    on_message_complete = None
    on_status = None
    on_url = None


_NO_CALLBACKS: Final = _NoCallbacks()


class _RequestParser:
    """An llhttp parser that reads one head after another.

    Attributes:
        feed: parses a head. The parser has always read complete messages before, so it expects a
            start line.
    """

    __slots__ = ("feed",)

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Replace the parser. After a rejected head the state of a parser is unknown."""
        self.feed = httptools.HttpRequestParser(_NO_CALLBACKS).feed_data


_REUSED: Final = _RequestParser()


def check_request(head: bytes, *, ends: bool = False) -> None:
    """Check a complete request head.

    Arguments:
        head: up to the empty line, and with it.
        ends: the request is HTTP/1.1 and has none of the fields that llhttp reads: Connection,
            Proxy-Connection, Content-Length, Transfer-Encoding, Upgrade. So it has no body, and
            llhttp expects the next request behind it. One parser then reads all such requests,
            which costs half as much as a new parser for each.

    Raises:
        FramingError: the head is malformed; the text is llhttp's.
    """
    feed = _REUSED.feed if ends else httptools.HttpRequestParser(_NO_CALLBACKS).feed_data
    try:
        feed(head)
    except httptools.HttpParserUpgrade:
        if ends:  # else the head is well-formed, and ``read_request`` decides about the upgrade
            _REUSED.renew()
    except httptools.HttpParserError as error:
        if ends:
            _REUSED.renew()
        raise FramingError(str(error)) from None


def is_good_part(start: bytes, lines: list[bytes], *, ends: bool) -> bool:
    """Return whether some lines of a head are well-formed.

    Arguments:
        start: the start line of a request.
        lines: field lines from index 1 on, which do not frame the message. Index 0 is
            overwritten.
        ends: see ``check_request``.
    """
    if len(lines) > 1:
        lines[0] = start
        start = b"\r\n".join(lines)
    try:
        check_request(start + b"\r\n\r\n", ends=ends)
    except FramingError:
        return False
    return True


def check_response(head: bytes) -> None:
    """Check a complete response head.

    Arguments:
        head: up to the empty line, and with it.

    Raises:
        FramingError: the head is malformed; the text is llhttp's.
    """
    try:
        httptools.HttpResponseParser(_NO_CALLBACKS).feed_data(head)
    except httptools.HttpParserUpgrade:
        pass
    except httptools.HttpParserError as error:
        raise FramingError(str(error), status=502) from None


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


class LineKind(Enum):
    """How the activator treats a field line."""

    PASSES = "passes"  # It passes on unchanged.
    BARRED = "barred"  # The activator removes it.
    LENGTH = "length"  # It is a valid Content-Length.
    SINGLE = "single"  # It is Host of a request, or Date of a response.
    FIELD = "field"  # It is another field that the activator handles.


#: Module names for the members, for speed: see fields.HTTP_1_1.
PASSES: Final = LineKind.PASSES
BARRED: Final = LineKind.BARRED
LENGTH: Final = LineKind.LENGTH
SINGLE: Final = LineKind.SINGLE
FIELD: Final = LineKind.FIELD


@final
class Line:
    """A parsed field line, or a parsed field name.

    Attributes:
        kind: how the activator treats the line.
        name: the field name in lower case, if the activator handles the field; else empty.
        value: the value without leading white space, if the activator handles the field; else
            empty. Of a name it is empty.
        recurs: the line may be remembered.
        text: the line, or the name with its colon; empty if the next head cannot be expected to
            have it, because it is not remembered.
        is_name: this is a parsed name. Each line that begins with ``text`` has it.
        after: the line or the name after it in the last head that had both; None at first.
        length: the value of a valid Content-Length; -1 for another line.
        frames: the line frames the message or closes its connection, and is not a valid
            Content-Length.
        acts: the line frames the message, closes its connection, or is Expect.
    """

    __slots__ = (
        *("acts", "after", "frames", "is_name", "kind", "length", "name", "recurs", "text"),
        "value",
    )

    def __init__(
        self,
        kind: LineKind,
        name: bytes,
        value: bytes,
        *,
        recurs: bool,
        text: bytes = b"",
        is_name: bool = False,
    ) -> None:
        length = _length(value) if name == _LENGTH_NAME else -1
        self.kind: Final = kind if length < 0 else LENGTH
        self.name: Final = name
        self.value: Final = value
        self.recurs: Final = recurs
        self.text: Final = text
        self.is_name: Final = is_name
        self.after: Line | None = None
        self.length: Final = length
        self.frames: Final = length < 0 and name in FRAMING
        self.acts: Final = self.frames or name == b"expect"

    def value_in(self, line: bytes) -> bytes:
        """Return the value of a line that this object describes."""
        if not self.is_name:
            return self.value
        return line[len(self.name) + 1 :].lstrip(b" \t")


def _length(value: bytes) -> int:
    # int() would accept '+5', '1_0' and Arabic digits.
    digits = value.strip(b" \t")
    return int(digits) if digits.isdigit() and len(digits) <= _MAX_DIGITS else -1


@final
class KnownLines:
    """Two memos: lines of well-formed heads, of requests or of responses, and field names.

    Senders repeat the order of their fields. So each entry is linked to the one after it in the
    last head. A line is compared with the linked entry first: that costs a tenth of a look-up.

    Once a memo is full, both are cleared. To remove the least used entry would cost time in each
    message.

    Arguments:
        handled: the fields that the activator handles, in lower case.
        bars_lookalikes: whether lookalikes are removed, see ``is_lookalike``.

    Attributes:
        lines: parsed lines; at most ``MEMO_LINES``.
        names: parsed names, as their senders spell them. It has all names in ``handled``, and at
            most ``MEMO_NAMES`` others.
        start: stands for the start line: the first field line comes after it.
    """

    __slots__ = ("_bars_lookalikes", "_handled", "_initial_names", "lines", "names", "start")

    def __init__(self, handled: frozenset[bytes], *, bars_lookalikes: bool = False) -> None:
        self._handled = handled
        self._bars_lookalikes = bars_lookalikes
        self.start: Final = Line(PASSES, b"", b"", recurs=False)
        self.lines: dict[bytes, Line] = {}
        self.names: dict[bytes, Line] = {}
        for name in handled:
            self._read_name(name)
            self._read_name(name.title())
        self._initial_names = self.names.copy()

    def read(self, line: bytes) -> Line:
        """Parse a line that is not in ``lines``; return its name if the line does not recur."""
        name, _, value = line.partition(b":")
        known = self.names.get(name)
        if known is None:
            known = self._read_name(name)
        if known.recurs and known.name:
            return Line(known.kind, known.name, value.lstrip(b" \t"), recurs=True)
        return known

    def remember(self, lines: list[bytes]) -> None:
        """Remember lines of a well-formed head."""
        for line in lines:
            if len(line) <= MEMO_LINE_BYTES:
                if len(self.lines) >= MEMO_LINES:
                    self.forget()
                parsed = self.read(line)
                self.lines[line] = Line(
                    parsed.kind, parsed.name, parsed.value, recurs=True, text=line
                )

    def forget(self) -> None:
        """Clear both memos and all links between their lines, which would keep lines in memory."""
        for known in (self.start, *self.lines.values(), *self.names.values()):
            known.after = None
        self.lines.clear()
        self.names = self._initial_names.copy()

    def _read_name(self, name: bytes) -> Line:
        """Parse a field name, and remember the result."""
        lower = name.lower()
        recurs = lower in RECURRING
        kind, handled = PASSES, b""
        if lower in self._handled:
            kind, handled = SINGLE if lower in _SINGLE_NAMES else FIELD, lower
        elif self._bars_lookalikes and is_lookalike(lower):
            kind = BARRED
        is_short = len(name) <= MEMO_NAME_BYTES
        text = b"" if recurs or not is_short else name + b":"
        parsed = Line(kind, handled, b"", recurs=recurs, text=text, is_name=True)
        if is_short:
            if len(self.names) >= MEMO_NAMES + 2 * len(self._handled):
                self.forget()
            self.names[name] = parsed
        return parsed


REQUEST_LINES: Final = KnownLines(REQUEST_FIELDS, bars_lookalikes=True)
RESPONSE_LINES: Final = KnownLines(RESPONSE_FIELDS)


@final
class MessageHead:
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
        acts: one of ``fields`` frames the message, closes its connection, or is Expect.
        is_odd: the caller must check the whole head. A new line frames the message, a
            handled field occurs twice, or the head gives its length in two ways.
    """

    __slots__ = (
        *("acts", "block", "fields", "is_odd", "length", "lines", "new", "single", "singles"),
        *("start", "unchecked"),
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
        acts = is_odd = False
        remembered = known.lines
        before = known.start
        for line in lines[1:-2]:  # ordered: an empty line ends the head
            parsed = before.after
            if parsed is None or parsed.is_name or line != parsed.text:
                if parsed is None or not (parsed.is_name and line.startswith(parsed.text)):
                    parsed = remembered.get(line)
                    if parsed is None:
                        parsed = known.read(line)
                    if parsed.text:
                        before.after = parsed
                if parsed.is_name or not parsed.text:
                    if parsed.recurs:
                        new.append(line)
                    if parsed.frames:
                        is_odd = True
                    if parsed.length < 0:
                        unchecked.append(line)
            before = parsed
            kind = parsed.kind
            if kind is PASSES:
                others.append(line)
            elif kind is FIELD:
                fields[parsed.name] = parsed.value_in(line)
                handled += 1
                if parsed.acts:
                    acts = True
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
        self.acts: Final = acts
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
            value = parsed.value_in(line)
            if parsed.name in values:
                values[parsed.name].append(b", " + value)
            else:
                values[parsed.name] = [value]
    return {name: _as_one(each) for name, each in values.items()}


def _as_one(values: list[bytes]) -> bytes:
    """Join values. Each loses its trailing white space, except the last."""
    last = values.pop()
    return b"".join([*(value.rstrip(b" \t") for value in values), last])


# Finds the payload and the end of a message body, for each framing (RFC 9112 sections 6 and 7).
#
# Each class is one framing, with one method. ``feed`` takes bytes as they arrive and appends the
# payload to a list. It returns None while the body is incomplete, and then the bytes behind the
# body, often none. It raises FramingError for a malformed body.

#: Limit of the bytes of chunk extensions in one body. Applications do not use extensions. An
#: attacker can send hundreds of their bytes per payload byte (CVE-2023-39326, Go: 16 KiB too).
MAX_EXTENSION_BYTES: Final = 16 << 10
#: Limit of the bytes of a trailer section. Go and nginx apply their header limit; trailers are
#: small.
MAX_TRAILER_BYTES: Final = 64 << 10
_TOKEN: Final = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]++"
_QUOTED: Final = (
    rb'"[\t !#-\[\]-~\x80-\xff]*+'
    rb'(?:\\[\t -~\x80-\xff][\t !#-\[\]-~\x80-\xff]*+)*"'
)
#: A chunk's size line: at most 16 hexadecimal digits, then extensions (RFC 9112 section 7.1.1).
#: Only sets of bytes are possessive: Python up to 3.11.2 matches a possessive group wrongly.
_SIZE: Final = re.compile(
    rb"([0-9A-Fa-f]{1,16})"
    rb"(?:[ \t]*+;[ \t]*+%b(?:[ \t]*+=[ \t]*+(?:%b|%b))?)*" % (_TOKEN, _TOKEN, _QUOTED)
)
#: Bytes of a size line without its extensions.
_MAX_SIZE_LINE: Final = 16
_MAX_CHUNK: Final = 1 << 62
#: Pieces that wait are joined up to this size in bytes. Each piece has an overhead of 50 bytes: 25
#: times its counted size, if a peer sends two bytes at a time.
_SMALL_PIECE: Final = 1024
_FIELD: Final = re.compile(_TOKEN + rb":[\t\x20-\x7e\x80-\xff]*")
#: A number, as request._HASH.
_CR: Final = ord("\r")


class LengthBody:
    """A body of Content-Length bytes.

    Attributes:
        trailers: empty.
        remaining: bytes that have not arrived yet.
    """

    __slots__ = ("remaining",)
    trailers = b""

    def __init__(self, length: int) -> None:
        self.remaining = length

    def feed(self, data: bytes, payload: list[bytes]) -> bytes | None:
        """Read the next bytes of the connection; return the bytes behind the body, or None."""
        remaining = self.remaining
        if len(data) < remaining:
            self.remaining = remaining - len(data)
            payload.append(data)
            return None
        self.remaining = 0
        if len(data) == remaining:
            payload.append(data)
            return b""
        payload.append(data[:remaining])
        return data[remaining:]


class CloseBody:
    """A response body that ends with its connection (RFC 9112 section 6.3, rule 8)."""

    __slots__ = ()
    trailers = b""

    def feed(self, data: bytes, payload: list[bytes]) -> bytes | None:
        """Read payload; return None, since the caller sees the end of the connection."""
        payload.append(data)
        return None


class ChunkedBody:
    """A body in chunks (RFC 9112 section 7.1).

    Attributes:
        trailers: the lines of the trailer section, each with its CRLF; set when the body is
            complete.
    """

    __slots__ = ("_extensions", "_line_start", "_remaining", "_state", "trailers")

    #: Whether a bare LF ends a line.
    _bare_lf = False
    _SIZE_LINE = 0
    _DATA = 1
    _DATA_END = 2
    _TRAILER = 3

    def __init__(self) -> None:
        self.trailers = b""
        self._state = self._SIZE_LINE
        self._remaining = 0
        self._line_start = b""  # the beginning of a line whose end has not arrived
        self._extensions = 0  # bytes of chunk extensions so far

    def feed(self, data: bytes, payload: list[bytes]) -> bytes | None:
        """Read the next bytes of the connection; return the bytes behind the body, or None.

        Raises:
            FramingError: the body is malformed.
        """
        if self._line_start:
            data = self._line_start + data
            self._line_start = b""
        at = 0
        while True:
            if self._state == self._DATA:
                end = at + self._remaining
                if end > len(data):
                    if at < len(data):
                        payload.append(data[at:])
                        self._remaining = end - len(data)
                    return None
                payload.append(data[at:end])  # ordered: sizes are not negative
                at = end
                self._state = self._DATA_END
            line_end = self._line_end(data, at)
            if line_end < 0:
                self._line_start = data[at:]
                return None
            line = data[at:line_end]  # ordered: found from there on
            at = line_end + (2 if data[line_end] == _CR else 1)
            if self._line(line):
                return data[at:]

    def _line_end(self, data: bytes, at: int) -> int:
        """Return the index at which the end of the line begins; -1 if it has not arrived.

        Raises:
            FramingError: the line is malformed, or its beginning already is.
        """
        end = data.find(b"\n", at)
        if end > at and data[end - 1] == _CR:
            end -= 1
        elif end >= 0 and not self._bare_lf:
            raise FramingError("a bare CR or LF in a chunked body")
        if self._state == self._DATA_END:
            if end != at and data[at : at + 2] not in (b"", b"\r"):
                raise FramingError("a chunk is longer than its size")
        elif end < 0:
            # A CR that is not followed by LF is malformed. Only the last byte may still get its LF.
            if data.find(b"\r", at, len(data) - 1) >= 0:
                raise FramingError("a bare CR or LF in a chunked body")
            limit = MAX_TRAILER_BYTES if self._state == self._TRAILER else MAX_EXTENSION_BYTES
            if len(data) - at > limit:
                raise FramingError("a line of a chunked body is too long")
        return end

    def _line(self, line: bytes) -> bool:
        """Process one complete line; return whether the body is complete."""
        if self._state == self._SIZE_LINE:
            self._size(line)
        elif self._state == self._DATA_END:
            self._state = self._SIZE_LINE
        elif not line:
            return True
        else:
            self._trailer(line)
        return False

    def _size(self, line: bytes) -> None:
        match = _SIZE.fullmatch(line)
        if match is None:
            raise FramingError("malformed chunk size or extension")
        self._extensions += max(0, len(line) - _MAX_SIZE_LINE)
        if self._extensions > MAX_EXTENSION_BYTES:
            raise FramingError("too many bytes of chunk extensions")
        self._remaining = int(match[1], 16)
        if self._remaining > _MAX_CHUNK:
            raise FramingError("a chunk size is too large")
        self._state = self._DATA if self._remaining else self._TRAILER

    def _trailer(self, line: bytes) -> None:
        if _FIELD.fullmatch(line) is None:
            raise FramingError("malformed trailer field")
        self.trailers += line + b"\r\n"
        if len(self.trailers) > MAX_TRAILER_BYTES:
            raise FramingError("too many bytes of trailers")


class PodChunkedBody(ChunkedBody):
    """A body in chunks from a pod. Its lines may end with a bare LF, as the lines of its head may.

    The client does not get these lines: the activator writes chunks of its own.
    """

    __slots__ = ()
    _bare_lf = True


#: The framing of one body. In the compiled build, calls of a union are direct.
Body: TypeAlias = LengthBody | CloseBody | ChunkedBody


def pile(pieces: MutableSequence[bytes], payload: bytes) -> None:
    """Append payload to the pieces that wait; join small ones.

    Arguments:
        pieces: payload that waits to be sent; changed in place.
    """
    if pieces and len(pieces[-1]) + len(payload) <= _SMALL_PIECE:
        pieces[-1] += payload
    else:
        pieces.append(payload)


def chunk(payload: list[bytes]) -> bytes:
    """Return payload as one chunk.

    Arguments:
        payload: pieces. At least one is not empty, since an empty chunk would end the body.
    """
    data = payload[0] if len(payload) == 1 else b"".join(payload)
    return b"%x\r\n%b\r\n" % (len(data), data)
