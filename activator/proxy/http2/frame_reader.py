"""Parses a connection's bytes to frames, and checks each by RFC 9113 sections 4 and 6.

The reader checks each frame by itself: its position, length and values. The handler decides what
the frame means for its stream. The reader joins header blocks, so the handler sees no CONTINUATION.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from activator.proxy.http2.errors import ConnectionFault, ErrorCode
from activator.proxy.http2.frame_payload import (
    ITS_OWN_PARENT,
    PRIORITY_BYTES,
    fragment,
    parent,
    without_padding,
)
from activator.proxy.http2.frames import (
    ACK,
    DEFAULT_MAX_FRAME,
    END_HEADERS,
    END_STREAM,
    HEAD,
    HEAD_BYTES,
    MAX_31_BITS,
    PADDED,
    PREFACE,
    PRIORITY,
    FrameType,
)
from activator.proxy.http2.header_block import HeaderBlock
from activator.proxy.http2.settings import read_settings

if TYPE_CHECKING:
    from collections.abc import Callable

#: Frame types, as in a frame's head, of header blocks and of the connection's beginning.
_INCOMPLETE_TYPES: Final = tuple(
    bytes((kind,)) for kind in (FrameType.HEADERS, FrameType.SETTINGS, FrameType.CONTINUATION)
)
_NUMBER: Final = struct.Struct(">L")
_TWO_NUMBERS: Final = struct.Struct(">LL")
_DATA: Final = int(FrameType.DATA)
_HEADERS: Final = int(FrameType.HEADERS)
_HEADERS_FORM: Final = END_HEADERS | PADDED | PRIORITY
_CONTINUATION: Final = int(FrameType.CONTINUATION)


class FrameHandler(Protocol):
    """Handles each frame, in order. Each method may raise ConnectionFault."""

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

    def settings_acknowledged(self) -> None:
        """Handle the peer's acknowledgement of the activator's settings."""

    def ping(self, opaque: bytes, ack: bool) -> None:
        """Handle a PING, which needs an acknowledgement unless it is one (``ack``)."""

    def goaway(self, last_stream: int, code: int, reason: bytes) -> None:
        """Handle GOAWAY: the peer processes no stream after ``last_stream``."""

    def window_update(self, stream: int, increment: int) -> None:
        """Widen the window of a stream, or of the connection (0), by bytes."""

    def idle_frame(self) -> None:
        """Count a frame without effect: PRIORITY, or an unknown type. Only floods matter."""

    def stream_error(self, stream: int, code: ErrorCode, reason: str) -> None:
        """End a stream because of a wrong frame; the connection stays open."""


class FrameReader:
    """The reader of one connection's frames.

    The caller must not feed it after a ConnectionFault.

    Attributes:
        incomplete: whether the bytes so far end inside the connection's beginning, or inside a
            header block.
    """

    __slots__ = (
        "_block",
        "_handler",
        "_held",
        "_max_frame",
        "_preface",
        "_settled",
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
        self._block = HeaderBlock()

    def block_size(self) -> int:
        """Return the bytes of the header block in progress; 0 if there is none."""
        return self._block.size()

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
        handler, block = self._handler, self._block
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
            self._block.begin(stream, payload, flags & END_STREAM != 0)

    def _continuation(self, flags: int, stream: int, payload: bytes) -> None:
        block = self._block
        block.add(stream, payload)
        if flags & END_HEADERS:
            self._handler.headers(stream, block.end(), block.ended)

    def _priority(self, flags: int, stream: int, payload: bytes) -> None:
        if parent(payload) == stream:
            self._handler.stream_error(stream, ErrorCode.PROTOCOL_ERROR, ITS_OWN_PARENT)
        else:
            self._handler.idle_frame()

    def _rst_stream(self, flags: int, stream: int, payload: bytes) -> None:
        self._handler.reset(stream, _NUMBER.unpack(payload)[0])

    def _settings(self, flags: int, stream: int, payload: bytes) -> None:
        if flags & ACK:
            if payload:
                raise ConnectionFault(
                    ErrorCode.FRAME_SIZE_ERROR, "an acknowledgement with settings"
                )
            self._handler.settings_acknowledged()
            return
        self._handler.settings(read_settings(payload))

    def _push_promise(self, flags: int, stream: int, payload: bytes) -> None:
        # Clients never may send it, and SETTINGS_ENABLE_PUSH 0 forbids it to pods.
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "PUSH_PROMISE")

    def _ping(self, flags: int, stream: int, payload: bytes) -> None:
        self._handler.ping(payload, flags & ACK != 0)

    def _goaway(self, flags: int, stream: int, payload: bytes) -> None:
        if len(payload) < _TWO_NUMBERS.size:
            raise ConnectionFault(
                ErrorCode.FRAME_SIZE_ERROR, "GOAWAY without stream and error code"
            )
        last_stream, code = _TWO_NUMBERS.unpack_from(payload)
        self._handler.goaway(last_stream & MAX_31_BITS, code, payload[_TWO_NUMBERS.size :])

    def _window_update(self, flags: int, stream: int, payload: bytes) -> None:
        increment = _NUMBER.unpack(payload)[0] & MAX_31_BITS
        if increment:
            self._handler.window_update(stream, increment)
        elif stream:
            self._handler.stream_error(stream, ErrorCode.PROTOCOL_ERROR, "WINDOW_UPDATE by 0")
        else:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "WINDOW_UPDATE by 0")


class Rule(NamedTuple):
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
RULES: Final[tuple[Rule, ...]] = (
    Rule(True, None, False, FrameReader._data),
    Rule(True, None, False, FrameReader._headers),
    Rule(True, PRIORITY_BYTES, True, FrameReader._priority),
    Rule(True, 4, False, FrameReader._rst_stream),
    Rule(False, None, False, FrameReader._settings),
    Rule(True, None, False, FrameReader._push_promise),
    Rule(False, 8, False, FrameReader._ping),
    Rule(False, None, False, FrameReader._goaway),
    Rule(None, 4, False, FrameReader._window_update),
    Rule(True, None, False, FrameReader._continuation),
)
