"""Cut a connection's bytes into frames, and hold each against RFC 9113 sections 4 and 6.

What a frame may be by itself is decided here: where it may stand, how long it is, its values. The
handler decides what it means for its stream. Header blocks are put together: the handler sees no
CONTINUATION.
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

#: Types, as they stand in a frame's head, of frames that are part of them.
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
    """Handles each frame, in order. It may raise ConnectionFault."""

    def data(self, stream: int, payload: bytes, length: int, ended: bool) -> None:
        """Payload came. ``length`` counts in flow control: payload and padding."""

    def headers(self, stream: int, block: bytes, ended: bool) -> None:
        """A whole header block came. It has to be decoded, even if the stream is over."""

    def reset(self, stream: int, code: int) -> None:
        """The peer ended a stream by RST_STREAM."""

    def settings(self, values: list[tuple[int, int]]) -> None:
        """Settings came, valid, in order; they are to be acknowledged."""

    def settings_acknowledged(self) -> None:
        """Our settings hold from here on."""

    def ping(self, opaque: bytes, ack: bool) -> None:
        """A PING came; it wants a reply unless it is one (``ack``)."""

    def goaway(self, last_stream: int, code: int, reason: bytes) -> None:
        """The peer has ignored streams of ours beyond ``last_stream``."""

    def window_update(self, stream: int, increment: int) -> None:
        """So many bytes more may be sent on a stream, or on the connection (0)."""

    def idle_frame(self) -> None:
        """A frame without effect came: PRIORITY, or of an unknown type. Only floods matter."""

    def stream_error(self, stream: int, code: ErrorCode, reason: str) -> None:
        """A frame was wrong in a way that costs the peer this stream alone."""


class FrameReader:
    """One direction of one connection.

    After a ConnectionFault it must not be fed again.

    Attributes:
        unfinished: what has come ends in the middle of a connection's beginning, or of a header
            block.
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
        handler: gets the frames.
        preface: whether a client is on the other side, whose bytes begin with PREFACE.
        max_frame: bytes of a frame's payload; our SETTINGS_MAX_FRAME_SIZE.
        """
        self._handler = handler
        self._max_frame = max_frame
        self._preface = preface
        self._settled = False  # whether the first frame has come
        self._held = b""
        self.incomplete = True
        self._block = HeaderBlock()

    def block_size(self) -> int:
        """Return the bytes of the header block that has begun; 0 if there is none."""
        return self._block.size()

    def feed(self, data: bytes) -> None:
        """Read bytes, and call the handler for each frame that is complete.

        Raises:
            ConnectionFault: a frame is wrong in a way that ends the connection.
        """
        # One function of more than 50 lines: a method per frame costs a call for each DATA frame.
        if self._held:
            # Copied again with each piece, but it is never more than one frame.
            data = self._held + data
            self._held = b""
        at = 0
        end = len(data)
        if not self._settled:
            at = self._begin(data)
        handler, block = self._handler, self._block
        max_frame = self._max_frame
        # Declared, so that compiled code counts with integers of the machine.
        word: int
        flags: int
        stream: int
        while end - at >= HEAD_BYTES:
            word, flags, stream = HEAD.unpack_from(data, at)
            length = word >> 8
            if length > max_frame:
                # Section 4.2 would spare the connection where a stream's DATA is too long. A peer
                # that ignores the limit is not worth 16 MiB of reading.
                raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "a frame is too long")
            start = at + HEAD_BYTES
            if start + length > end:
                break
            at = start + length
            kind = word & 0xFF
            if 0 < stream <= MAX_31_BITS and not block.stream:
                # Nearly all frames are these two, without anything that is to be taken out: by
                # way of the table they would cost a third more.
                if kind == _DATA and not flags & PADDED:
                    payload = data[start:at]  # ordered: lengths are not negative
                    handler.data(stream, payload, length, flags & END_STREAM != 0)
                    continue
                if kind == _HEADERS and flags & _HEADERS_FORM == END_HEADERS:
                    payload = data[start:at]  # ordered: as above
                    handler.headers(stream, payload, flags & END_STREAM != 0)
                    continue
            if block.stream and kind != _CONTINUATION:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a frame inside of a header block")
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
        """Check what a connection begins with (section 3.4): the preface, and settings.

        Returns:
            Where the first frame stands; the end of ``data`` as long as its head is not whole.
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
                raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "an acknowledgement with values")
            self._handler.settings_acknowledged()
            return
        self._handler.settings(read_settings(payload))

    def _push_promise(self, flags: int, stream: int, payload: bytes) -> None:
        # Clients never may, and our settings forbid it to pods (SETTINGS_ENABLE_PUSH 0).
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "PUSH_PROMISE")

    def _ping(self, flags: int, stream: int, payload: bytes) -> None:
        self._handler.ping(payload, flags & ACK != 0)

    def _goaway(self, flags: int, stream: int, payload: bytes) -> None:
        if len(payload) < _TWO_NUMBERS.size:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "GOAWAY without its numbers")
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
    """What holds for all frames of one type.

    Attributes:
        on_stream: whether it belongs to a stream; False: to the connection, None: to either.
        length: bytes of its payload; None: any number.
        spares: whether a wrong length is an error of its stream alone.
        take: checks the rest, and calls the handler.
    """

    on_stream: bool | None
    length: int | None
    spares: bool
    take: Callable[[FrameReader, int, int, bytes], None]


#: By type, in the order of FrameType.
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
