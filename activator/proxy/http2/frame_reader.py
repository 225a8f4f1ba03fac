"""Parses the bytes of a connection to frames, and checks each by RFC 9113 sections 4 and 6.

The reader checks each frame by itself: its position, length and values. The handler decides what
the frame means for its stream. The reader joins header blocks, so the handler sees no CONTINUATION.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, final

from activator.proxy.http2.frames import (
    ACK,
    DEFAULT_MAX_FRAME,
    END_HEADERS,
    END_STREAM,
    HEAD,
    HEAD_BYTES,
    MAX_31_BITS,
    NUMBER,
    PADDED,
    PREFACE,
    PRIORITY,
    TWO_NUMBERS,
    ConnectionFault,
    ErrorCode,
    FrameType,
)

if TYPE_CHECKING:
    from collections.abc import Callable


# -- padding and priority (RFC 9113 section 6) ----------------------------------------------------

#: Bytes of a priority.
PRIORITY_BYTES: Final = 5
#: The error text of a priority that names its own stream.
ITS_OWN_PARENT: Final = "a stream depends on itself"


def parent(priority: bytes) -> int:
    """Return the stream that a priority depends on (RFC 7540 section 6.3)."""
    return int(NUMBER.unpack_from(priority)[0]) & MAX_31_BITS


def fragment(flags: int, stream: int, payload: bytes) -> bytes:
    """Return the payload of HEADERS without padding and priority (section 6.2).

    A stream that depends on itself ends the connection. RFC 7540 section 5.3.1 would end only the
    stream. No client does that by mistake, and its request must not reach a pod.

    Raises:
        ConnectionFault: the payload is malformed.
    """
    priority = PRIORITY_BYTES if flags & PRIORITY else 0
    if len(payload) < priority + (1 if flags & PADDED else 0):
        raise ConnectionFault(
            ErrorCode.FRAME_SIZE_ERROR, "HEADERS without padding length or priority"
        )
    if flags & PADDED:
        payload = without_padding(payload)
    if len(payload) < priority:
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "more padding than payload")
    if priority and parent(payload) == stream:
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, ITS_OWN_PARENT)
    return payload[priority:]


def without_padding(payload: bytes) -> bytes:
    """Return a payload without its padding (section 6.1).

    Raises:
        ConnectionFault: the padding is longer than the payload.
    """
    if not payload:
        raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "padding without a length")
    padding = payload[0]
    if padding >= len(payload):
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "more padding than payload")
    return payload[1 : len(payload) - padding]  # ordered: checked above


# -- header blocks (RFC 9113 section 4.3) ----------------------------------------------------------

#: Most bytes and most frames of a header block (VU#421644: a flood of CONTINUATION). The bytes are
#: four times the limit of its fields (hpack.MAX_LIST_BYTES). A block above that limit is still
#: decoded, at 1 ms for 64 KiB, and gets a response.
MAX_BLOCK: Final = 256 << 10
MAX_BLOCK_FRAMES: Final = 64


@final
class HeaderBlock:
    """The header block in progress on a connection.

    Attributes:
        stream: its stream; 0 while no block is in progress.
        ended: whether the block ends its stream.
    """

    __slots__ = ("_pieces", "_size", "ended", "stream")

    def __init__(self) -> None:
        self.stream = 0
        self.ended = False
        self._pieces: list[bytes] = []
        self._size = 0

    def size(self) -> int:
        """Return the bytes so far; 0 while no block is in progress."""
        return self._size if self.stream else 0

    def begin(self, stream: int, piece: bytes, ended: bool) -> None:
        """Begin a block with its first piece."""
        self.stream = stream
        self.ended = ended
        self._pieces = [piece]
        self._size = len(piece)

    def add(self, stream: int, piece: bytes) -> None:
        """Add a piece.

        Raises:
            ConnectionFault: the piece belongs to another stream, or the block is too large.
        """
        if stream != self.stream:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "CONTINUATION without HEADERS")
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size > MAX_BLOCK or len(self._pieces) > MAX_BLOCK_FRAMES:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "the header block is too large")

    def end(self) -> bytes:
        """Return the whole block, and reset this object for the next one."""
        whole = b"".join(self._pieces)
        self.stream = 0
        self._pieces = []
        return whole


# -- settings (RFC 9113 section 6.5) ---------------------------------------------------------------

_SETTING: Final = struct.Struct(">HL")


class Http2Setting(IntEnum):
    """The settings of RFC 9113 section 6.5.2 and RFC 8441 section 3."""

    HEADER_TABLE_SIZE = 1
    ENABLE_PUSH = 2
    MAX_CONCURRENT_STREAMS = 3
    INITIAL_WINDOW_SIZE = 4
    MAX_FRAME_SIZE = 5
    MAX_HEADER_LIST_SIZE = 6
    ENABLE_CONNECT_PROTOCOL = 8


_ANY_VALUE: Final = (0, (1 << 32) - 1, ErrorCode.PROTOCOL_ERROR)
#: The range of a setting's values, and the error for other values (section 6.5.2).
_SETTING_VALUES: Final[Mapping[int, tuple[int, int, ErrorCode]]] = {
    Http2Setting.ENABLE_PUSH: (0, 1, ErrorCode.PROTOCOL_ERROR),
    Http2Setting.INITIAL_WINDOW_SIZE: (0, MAX_31_BITS, ErrorCode.FLOW_CONTROL_ERROR),
    Http2Setting.MAX_FRAME_SIZE: (DEFAULT_MAX_FRAME, (1 << 24) - 1, ErrorCode.PROTOCOL_ERROR),
    Http2Setting.ENABLE_CONNECT_PROTOCOL: (0, 1, ErrorCode.PROTOCOL_ERROR),
}


def read_settings(payload: bytes) -> list[tuple[int, int]]:
    """Return the identifiers and values of a SETTINGS frame in order, also unknown ones.

    Raises:
        ConnectionFault: a value is out of range, or the payload is malformed.
    """
    if len(payload) % _SETTING.size:
        raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "an incomplete setting")
    values = list(_SETTING.iter_unpack(payload))
    for identifier, value in values:
        lowest, highest, code = _SETTING_VALUES.get(identifier, _ANY_VALUE)
        if not lowest <= value <= highest:
            raise ConnectionFault(code, f"setting {identifier} of {value}")
    return values


def write_settings(values: Iterable[tuple[int, int]]) -> bytes:
    """Return the payload of a SETTINGS frame with these identifiers and values, in order."""
    return b"".join(_SETTING.pack(*each) for each in values)


#: Frame types, as in a frame's head, of header blocks and of the connection's beginning.
_INCOMPLETE_TYPES: Final = tuple(
    bytes((kind,)) for kind in (FrameType.HEADERS, FrameType.SETTINGS, FrameType.CONTINUATION)
)
_DATA: Final = int(FrameType.DATA)
_HEADERS: Final = int(FrameType.HEADERS)
_HEADERS_FORM: Final = END_HEADERS | PADDED | PRIORITY
_CONTINUATION: Final = int(FrameType.CONTINUATION)


class FrameHandler(Protocol):
    """Handles each frame, in order. Each method may raise ConnectionFault.

    A protocol, so that the fuzzer and the tests of frames need no connection.
    """

    def data(self, stream: int, payload: bytes, length: int, ended: bool) -> None:
        """Handle payload.

        Arguments:
            length: bytes that count in flow control, with padding.
            ended: whether the frame ends the stream.
        """

    def headers(self, stream: int, block: bytes, ended: bool) -> None:
        """Handle a whole header block; decode it even if the stream has ended."""

    def reset(self, stream: int, code: int) -> None:
        """Handle RST_STREAM."""

    def settings(self, values: list[tuple[int, int]]) -> None:
        """Apply valid settings, in order, and acknowledge them."""

    def ping(self, opaque: bytes, ack: bool) -> None:
        """Handle a PING, which needs an acknowledgement unless it is one (``ack``)."""

    def goaway(self, last_stream: int, code: int, reason: bytes) -> None:
        """Handle GOAWAY: the peer processes no stream after ``last_stream``."""

    def window_update(self, stream: int, increment: int) -> None:
        """Widen the window of a stream, or of the connection (0), by bytes."""

    def idle_frame(self) -> None:
        """Count a frame without effect, such as PRIORITY or an unknown type. Only floods matter."""

    def stream_error(self, stream: int, code: ErrorCode, reason: str) -> None:
        """End a stream because of a wrong frame; the connection stays open."""


class FrameReader:
    """The reader of one connection's frames.

    The caller must not feed it after a ConnectionFault.

    Attributes:
        block: the header block in progress; only this class changes it.
        incomplete: whether the bytes so far end inside the connection's beginning, or inside a
            header block.
    """

    __slots__ = (
        "_handler",
        "_held",
        "_max_frame",
        "_preface",
        "_settled",
        "block",
        "incomplete",
    )

    def __init__(
        self, handler: FrameHandler, *, preface: bool, max_frame: int = DEFAULT_MAX_FRAME
    ) -> None:
        """Arguments:
        handler: handles the frames.
        preface: whether the peer is a client, whose first bytes are PREFACE.
        max_frame: most bytes of a frame's payload; the activator's SETTINGS_MAX_FRAME_SIZE.
        """
        self._handler = handler
        self._max_frame = max_frame
        self._preface = preface
        self._settled = False  # whether the first frame has arrived
        self._held = b""
        self.incomplete = True
        self.block = HeaderBlock()

    def feed(self, data: bytes) -> None:
        """Read bytes, and call the handler for each frame that is complete.

        Raises:
            ConnectionFault: a frame is wrong in a way that ends the connection.
        """
        # One function of more than 50 lines: a method per frame costs a call for each DATA frame.
        if self._held:
            # Each call copies the bytes again, but they are at most one frame.
            data = self._held + data
            self._held = b""
        at = 0
        end = len(data)
        if not self._settled:
            at = self._begin(data)
        handler, block = self._handler, self.block
        max_frame = self._max_frame
        # Declared, so that compiled code uses machine integers.
        word: int
        flags: int
        stream: int
        while end - at >= HEAD_BYTES:
            word, flags, stream = HEAD.unpack_from(data, at)
            length = word >> 8
            if length > max_frame:
                # Section 4.2 allows a stream error for DATA that is too long. The activator does
                # not read up to 16 MiB from a peer that ignores the limit.
                raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "a frame is too long")
            start = at + HEAD_BYTES
            if start + length > end:
                break
            at = start + length
            kind = word & 0xFF
            if 0 < stream <= MAX_31_BITS and not block.stream:
                # Nearly all frames are of these two types, without padding and priority. The table
                # would make them a third slower.
                if kind == _DATA and not flags & PADDED:
                    payload = data[start:at]  # ordered: lengths are not negative
                    handler.data(stream, payload, length, flags & END_STREAM != 0)
                    continue
                if kind == _HEADERS and flags & _HEADERS_FORM == END_HEADERS:
                    payload = data[start:at]  # ordered: as above
                    handler.headers(stream, payload, flags & END_STREAM != 0)
                    continue
            if block.stream and kind != _CONTINUATION:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a frame inside a header block")
            if kind > _CONTINUATION:
                handler.idle_frame()
                continue
            stream &= MAX_31_BITS
            on_stream, exact, spares, take = RULES[kind]
            if on_stream is (stream == 0):
                raise ConnectionFault(
                    ErrorCode.PROTOCOL_ERROR, f"{FrameType(kind).name} on stream {stream}"
                )
            if exact is None or exact == length:
                take(self, flags, stream, data[start:at])  # ordered: as above
            else:
                self._wrong_length(FrameType(kind), stream, length, spares)
        self.incomplete = block.stream > 0 or not self._settled
        if at < end:
            self._held = data[at:]
            self.incomplete = self.incomplete or self._held[3:4] in _INCOMPLETE_TYPES

    def _begin(self, data: bytes) -> int:
        """Check the beginning of a connection (section 3.4): the preface, then SETTINGS.

        Returns:
            The position of the first frame; the end of ``data`` while its head is incomplete.
        """
        at = len(PREFACE) if self._preface else 0
        if data[:at] != PREFACE[: min(at, len(data))]:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "not the preface of HTTP/2")
        if len(data) - at < HEAD_BYTES:
            self._held = data
            return len(data)
        word, flags, _ = HEAD.unpack_from(data, at)
        if word & 0xFF != FrameType.SETTINGS or flags & ACK:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "the first frame is not SETTINGS")
        self._settled = True
        return at

    def _wrong_length(self, kind: FrameType, stream: int, length: int, spares: bool) -> None:
        reason = f"{kind.name} of {length} bytes"
        if not spares:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, reason)
        self._handler.stream_error(stream, ErrorCode.FRAME_SIZE_ERROR, reason)

    def _data(self, flags: int, stream: int, payload: bytes) -> None:
        length = len(payload)
        if flags & PADDED:
            payload = without_padding(payload)
        self._handler.data(stream, payload, length, flags & END_STREAM != 0)

    def _headers(self, flags: int, stream: int, payload: bytes) -> None:
        if flags & (PADDED | PRIORITY):
            payload = fragment(flags, stream, payload)
        if flags & END_HEADERS:
            self._handler.headers(stream, payload, flags & END_STREAM != 0)
        else:
            self.block.begin(stream, payload, flags & END_STREAM != 0)

    def _continuation(self, flags: int, stream: int, payload: bytes) -> None:
        block = self.block
        block.add(stream, payload)
        if flags & END_HEADERS:
            self._handler.headers(stream, block.end(), block.ended)

    def _priority(self, flags: int, stream: int, payload: bytes) -> None:
        if parent(payload) == stream:
            self._handler.stream_error(stream, ErrorCode.PROTOCOL_ERROR, ITS_OWN_PARENT)
        else:
            self._handler.idle_frame()

    def _rst_stream(self, flags: int, stream: int, payload: bytes) -> None:
        self._handler.reset(stream, NUMBER.unpack(payload)[0])

    def _settings(self, flags: int, stream: int, payload: bytes) -> None:
        if flags & ACK:
            if payload:
                raise ConnectionFault(
                    ErrorCode.FRAME_SIZE_ERROR, "an acknowledgement with settings"
                )
            self._handler.idle_frame()
            return
        self._handler.settings(read_settings(payload))

    def _push_promise(self, flags: int, stream: int, payload: bytes) -> None:
        # Clients never may send it, and SETTINGS_ENABLE_PUSH 0 forbids it to pods.
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "PUSH_PROMISE")

    def _ping(self, flags: int, stream: int, payload: bytes) -> None:
        self._handler.ping(payload, flags & ACK != 0)

    def _goaway(self, flags: int, stream: int, payload: bytes) -> None:
        if len(payload) < TWO_NUMBERS.size:
            raise ConnectionFault(
                ErrorCode.FRAME_SIZE_ERROR, "GOAWAY without stream and error code"
            )
        last_stream, code = TWO_NUMBERS.unpack_from(payload)
        self._handler.goaway(last_stream & MAX_31_BITS, code, payload[TWO_NUMBERS.size :])

    def _window_update(self, flags: int, stream: int, payload: bytes) -> None:
        increment = NUMBER.unpack(payload)[0] & MAX_31_BITS
        if increment:
            self._handler.window_update(stream, increment)
        elif stream:
            self._handler.stream_error(stream, ErrorCode.PROTOCOL_ERROR, "WINDOW_UPDATE by 0")
        else:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "WINDOW_UPDATE by 0")


class FrameRule(NamedTuple):
    """The checks of all frames of one type.

    Attributes:
        on_stream: True if frames belong to a stream, False to the connection, None to either.
        length: bytes of the payload; None for any number.
        spares: whether a wrong length ends only the stream.
        take: checks the rest, and calls the handler.
    """

    on_stream: bool | None
    length: int | None
    spares: bool
    take: Callable[[FrameReader, int, int, bytes], None]


#: The rules by type, in the order of FrameType.
RULES: Final[tuple[FrameRule, ...]] = (
    FrameRule(True, None, False, FrameReader._data),
    FrameRule(True, None, False, FrameReader._headers),
    FrameRule(True, PRIORITY_BYTES, True, FrameReader._priority),
    FrameRule(True, 4, False, FrameReader._rst_stream),
    FrameRule(False, None, False, FrameReader._settings),
    FrameRule(True, None, False, FrameReader._push_promise),
    FrameRule(False, 8, False, FrameReader._ping),
    FrameRule(False, None, False, FrameReader._goaway),
    FrameRule(None, 4, False, FrameReader._window_update),
    FrameRule(True, None, False, FrameReader._continuation),
)
