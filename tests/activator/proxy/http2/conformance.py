"""What RFC 9113, RFC 7540 and RFC 7541 demand of a server, one case a row.

Each case has the frames that a client sends, and the frames that a strict client may see then.
Conformance checkers of HTTP/2 know these cases; each names its section. RFC 7540 counts where RFC
9113 is silent, as for priorities.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from activator.proxy.http2 import frames
from activator.proxy.http2.frame_reader import Http2Setting, write_settings
from activator.proxy.http2.frames import ErrorCode, FrameType
from activator.proxy.http2.hpack import line
from tests.activator.proxy.http2.peers import TO_REVISION

ACK = END_STREAM = 0x1
END_HEADERS = 0x4
PADDED = 0x8
PRIORITY = 0x20
#: Both sides' SETTINGS_MAX_FRAME_SIZE.
MAX_FRAME = 1 << 14
MAX_STREAMS = 250

PROTOCOL = ErrorCode.PROTOCOL_ERROR
FLOW = ErrorCode.FLOW_CONTROL_ERROR
CLOSED = ErrorCode.STREAM_CLOSED
SIZE = ErrorCode.FRAME_SIZE_ERROR
REFUSED = ErrorCode.REFUSED_STREAM
COMPRESSION = ErrorCode.COMPRESSION_ERROR


@dataclass(frozen=True)
class Frame:
    """A frame that the server sent."""

    kind: int
    flags: int
    stream: int
    payload: bytes

    @property
    def code(self) -> int:
        """The error code of RST_STREAM or GOAWAY."""
        return int.from_bytes(self.payload[-4:] if len(self.payload) == 4 else self.payload[4:8])


@dataclass(frozen=True)
class Seen:
    """What the server sent: frames, other bytes, and whether it has ended its side."""

    frames: list[Frame]
    plain: bytes
    ended: bool

    def of(self, kind: FrameType, stream: int | None = None) -> list[Frame]:
        """Return the frames of a type, on one stream or on any."""
        return [f for f in self.frames if f.kind == kind and stream in (None, f.stream)]


Outcome = Callable[[Seen], bool]
Step = bytes | Outcome


@dataclass(frozen=True)
class Case:
    """One row.

    Attributes:
        section: of RFC 9113, unless another is named.
        sends: what the client sends, and which frames it waits for in between.
        sees: whether it has seen the expected frames.
        silent: whether the pod does not respond.
    """

    section: str
    what: str
    sends: tuple[Step, ...]
    sees: Outcome
    silent: bool = False
    preface: bool = True


# -- what is sent --------------------------------------------------------------------------------


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    return frames.HEAD.pack(len(payload) << 8 | kind, flags, stream) + payload


Fields = Sequence[tuple[bytes, bytes]]
PSEUDO = (
    (b":method", b"GET"),
    (b":scheme", b"http"),
    (b":path", b"/"),
    (b":authority", b"example.com"),
)
POST: Fields = ((b":method", b"POST"), *PSEUDO[1:])


def block(pseudo: Fields = PSEUDO, *more: tuple[bytes, bytes]) -> bytes:
    """A request's header block."""
    return b"".join(line(*field) for field in (*pseudo, *TO_REVISION, *more))


def head(
    payload: bytes | None = None, flags: int = END_STREAM | END_HEADERS, stream: int = 1
) -> bytes:
    """HEADERS; a GET unless another block is given."""
    return frame(FrameType.HEADERS, flags, stream, block() if payload is None else payload)


def more(payload: bytes, flags: int = END_HEADERS, stream: int = 1) -> bytes:
    return frame(FrameType.CONTINUATION, flags, stream, payload)


def data(payload: bytes = b"test", flags: int = END_STREAM, stream: int = 1) -> bytes:
    return frame(FrameType.DATA, flags, stream, payload)


def priority(stream: int, on: int = 0, weight: int = 255, exclusive: bool = False) -> bytes:
    return frame(FrameType.PRIORITY, 0, stream, parent(on, weight, exclusive))


def parent(on: int, weight: int = 255, exclusive: bool = False) -> bytes:
    return (on | exclusive << 31).to_bytes(4, "big") + bytes([weight])


def reset(stream: int = 1, code: int = 8) -> bytes:
    return frame(FrameType.RST_STREAM, 0, stream, code.to_bytes(4, "big"))


def room(stream: int, increment: int) -> bytes:
    return frame(FrameType.WINDOW_UPDATE, 0, stream, increment.to_bytes(4, "big"))


def settings(*values: tuple[int, int]) -> bytes:
    return frame(FrameType.SETTINGS, 0, 0, write_settings(values))


def ping(opaque: bytes = bytes(8), flags: int = 0) -> bytes:
    return frame(FrameType.PING, flags, 0, opaque)


def goaway(code: int) -> bytes:
    return frame(FrameType.GOAWAY, 0, 0, bytes(4) + code.to_bytes(4, "big"))


#: A POST whose body is still to come.
OPEN = head(block(POST), END_HEADERS)
LARGE = block((), (b"x-large", b"x" * 4000))[len(block(())) :]
NO_WINDOW = settings((Http2Setting.INITIAL_WINDOW_SIZE, 0))
UNKNOWN = frame(0x16, 0, 0, bytes(8))


def request(*added: tuple[bytes, bytes], pseudo: Fields = PSEUDO) -> bytes:
    """A GET with more fields, or with other pseudo fields."""
    return head(block(pseudo, *added))


def literal(representation: bytes) -> bytes:
    """A GET whose header block ends with a field in one of HPACK's representations."""
    return head(block() + representation)


# -- what is seen --------------------------------------------------------------------------------


def stream_error(*codes: int, stream: int = 1) -> Outcome:
    """The stream is reset, or the connection ends (section 5.4.2 allows both), for this reason."""

    def sees(seen: Seen) -> bool:
        resets = [f.code in codes for f in seen.of(FrameType.RST_STREAM, stream)]
        return any(resets) or connection_error(*codes)(seen)

    return sees


def connection_error(*codes: int) -> Outcome:
    """The connection ends, for this reason (section 5.4.1)."""

    def sees(seen: Seen) -> bool:
        said = [f.code for f in seen.of(FrameType.GOAWAY)]
        assert all(code in codes for code in said), said
        return bool(said) and seen.ended

    return sees


def answers(seen: Seen) -> bool:
    """Stream 1 has a response."""
    assert not seen.of(FrameType.GOAWAY), seen.frames
    return bool(seen.of(FrameType.HEADERS, 1))


def closes(seen: Seen) -> bool:
    """The response on stream 1 is complete."""
    return any(f.flags & END_STREAM and f.kind in (0, 1) and f.stream == 1 for f in seen.frames)


def sends_data(size: int | None = None) -> Outcome:
    """The first DATA has this size."""

    def sees(seen: Seen) -> bool:
        found = [len(f.payload) for f in seen.of(FrameType.DATA, 1)]
        assert size is None or not found or found[0] == size, found
        return bool(found)

    return sees


def sends_data_again(size: int) -> Outcome:
    """The second DATA has this size."""
    return lambda seen: [len(f.payload) for f in seen.of(FrameType.DATA, 1)][1:2] == [size]


def pongs(opaque: bytes = bytes(8)) -> Outcome:
    """The PING is acknowledged, and nothing is wrong."""

    def sees(seen: Seen) -> bool:
        assert not seen.of(FrameType.GOAWAY), seen.frames
        found = seen.of(FrameType.PING)
        assert all((f.flags, f.payload) == (ACK, opaque) for f in found), found
        return bool(found)

    return sees


def acknowledges(count: int = 1) -> Outcome:
    """So many SETTINGS behind the client's first ones are acknowledged."""
    return lambda seen: len([f for f in seen.of(FrameType.SETTINGS) if f.flags & ACK]) > count


def greets(seen: Seen) -> bool:
    """The first frame is the server's SETTINGS."""
    assert not seen.frames or (seen.frames[0].kind, seen.frames[0].flags) == (4, 0)
    return bool(seen.frames)


def turns_away(seen: Seen) -> bool:
    """The connection ends.

    A peer with a wrong preface does not speak HTTP/2 (section 3.4), so GOAWAY may be left out.
    On a port for both versions the response is one of HTTP/1.
    """
    return seen.ended and (
        seen.plain.startswith(b"HTTP/1.1 400 ")
        or [f.code for f in seen.of(FrameType.GOAWAY)] == [PROTOCOL]
    )


# -- the rows ------------------------------------------------------------------------------------

#: Frames that every server must accept.
GENERIC = (
    Case("3.4", "a connection preface", (), greets),
    Case("5.1", "PRIORITY on an idle stream", (priority(1), ping()), pongs()),
    Case(
        "5.1",
        "WINDOW_UPDATE on a half-closed stream",
        (NO_WINDOW, head(), room(1, 1)),
        sends_data(),
    ),
    Case(
        "5.1",
        "PRIORITY on a half-closed stream",
        (NO_WINDOW, head(), priority(1), room(1, 1)),
        sends_data(),
    ),
    Case("5.1", "RST_STREAM on a half-closed stream", (head(), reset(), ping()), pongs()),
    Case("5.1", "PRIORITY on a closed stream", (head(), closes, priority(1), ping()), pongs()),
    Case("6.1", "DATA", (OPEN, data()), answers),
    Case("6.1", "several DATA", (OPEN, data(flags=0), data()), answers),
    Case("6.1", "DATA with padding", (OPEN, data(b"\x05test" + bytes(5), 0x9)), answers),
    Case("6.2", "HEADERS", (head(),), answers),
    Case("6.2", "HEADERS with padding", (head(b"\x08" + block() + bytes(8), 0xD),), answers),
    Case("6.2", "HEADERS with a priority", (head(parent(0) + block(), 0x25),), answers),
    Case("6.3", "PRIORITY with weight 1", (priority(1, weight=0), head()), answers),
    Case("6.3", "PRIORITY with weight 256", (priority(1), head()), answers),
    Case("6.3", "PRIORITY on another stream", (priority(3, on=1), head()), answers),
    Case("6.3", "an exclusive PRIORITY", (priority(1, exclusive=True), head()), answers),
    Case("6.3", "PRIORITY of a later stream first", (priority(3), head()), answers),
    Case("6.4", "RST_STREAM", (OPEN, reset(), ping()), pongs()),
    Case(
        "6.5",
        "SETTINGS",
        (settings((1, 4096), (2, 1), (3, 100), (4, 65535), (5, 16384), (6, 100)),),
        acknowledges(),
    ),
    Case("6.7", "PING", (ping(b"anything"),), pongs(b"anything")),
    Case("6.8", "GOAWAY", (goaway(0), ping(b"anything")), pongs(b"anything")),
    Case("6.9", "WINDOW_UPDATE of the connection", (room(0, 1), ping()), pongs()),
    Case("6.9", "WINDOW_UPDATE of a stream", (head(), room(1, 1)), answers),
    Case("6.10", "CONTINUATION", (head(block()[:5], 1), more(block()[5:])), answers),
    Case(
        "6.10",
        "several CONTINUATION",
        (head(block()[:5], 1), more(block()[5:10], 0), more(block()[10:])),
        answers,
    ),
    Case("8.1", "a GET", (head(),), answers),
    Case("8.1", "a HEAD", (head(block(((b":method", b"HEAD"), *PSEUDO[1:]))),), answers),
    Case("8.1", "a POST", (OPEN, data()), answers),
    Case(
        "8.1",
        "a POST with trailers",
        (
            head(block(POST, (b"trailer", b"x-test")), END_HEADERS),
            data(flags=0),
            head(line(b"x-test", b"ok")),
        ),
        answers,
    ),
    # Name user-agent (58) or x-test, value of 6 bytes; plain or by Huffman's code.
    *(
        Case(f"RFC 7541 {section}", what, (literal(representation),), answers)
        for section, what, representation in (
            ("6.1", "an indexed field", b"\xba"),
            ("6.2.1", "an indexed name, kept", b"\x7a\x06checks"),
            ("6.2.1", "an indexed name, kept, Huffman", b"\x7a\x84\x9c\x48\xac\xa4"),
            ("6.2.1", "a new name, kept", b"\x40\x06x-test\x06checks"),
            (
                "6.2.1",
                "a new name, kept, Huffman",
                b"\x40\x85\xf2\xb2\x4a\x84\xff\x84\x9c\x48\xac\xa4",
            ),
            ("6.2.2", "an indexed name, not kept", b"\x0f\x2b\x06checks"),
            ("6.2.2", "an indexed name, not kept, Huffman", b"\x0f\x2b\x84\x9c\x48\xac\xa4"),
            ("6.2.2", "a new name, not kept", b"\x00\x06x-test\x06checks"),
            (
                "6.2.2",
                "a new name, not kept, Huffman",
                b"\x00\x85\xf2\xb2\x4a\x84\xff\x84\x9c\x48\xac\xa4",
            ),
            ("6.2.3", "an indexed name, never kept", b"\x1f\x2b\x06checks"),
            ("6.2.3", "an indexed name, never kept, Huffman", b"\x1f\x2b\x84\x9c\x48\xac\xa4"),
            ("6.2.3", "a new name, never kept", b"\x10\x06x-test\x06checks"),
            (
                "6.2.3",
                "a new name, never kept, Huffman",
                b"\x10\x85\xf2\xb2\x4a\x84\xff\x84\x9c\x48\xac\xa4",
            ),
        )
    ),
    Case("RFC 7541 6.3", "a change of the table's size", (head(b"\x3f\x61" + block()),), answers),
    Case("RFC 7541 4.2", "two changes", (head(b"\x3f\x61\x3f\xe1\x1f" + block()),), answers),
)

CONNECTION = (
    Case("3.4", "the preface and SETTINGS", (settings((4, 65535)),), greets),
    Case(
        "3.4",
        "an invalid preface",
        (b"INVALID CONNECTION PREFACE\r\n\r\n",),
        turns_away,
        preface=False,
    ),
    Case(
        "3.4",
        "a preface that goes wrong in the middle",
        (frames.PREFACE[:18] + b"XX\r\n\r\n" + settings(),),
        turns_away,
        preface=False,
    ),
    Case("4.1", "an unknown type", (UNKNOWN, ping()), pongs()),
    Case("4.1", "an undefined flag", (ping(flags=0x16),), pongs()),
    Case("4.1", "the reserved bit", (frame(6, 0x16, 1 << 31, bytes(8)),), pongs()),
    Case("4.2", "DATA as long as allowed", (OPEN, data(bytes(MAX_FRAME))), answers),
    Case("4.2", "DATA that is too long", (OPEN, data(bytes(MAX_FRAME + 1))), stream_error(SIZE)),
    Case("4.2", "HEADERS that are too long", (head(block() + 5 * LARGE),), connection_error(SIZE)),
    Case("4.3", "an invalid header block", (head(b"\x40", 0x5),), connection_error(COMPRESSION)),
    Case(
        "4.3",
        "PRIORITY inside of a header block",
        (head(flags=0), priority(1), more(LARGE)),
        connection_error(PROTOCOL),
    ),
    Case(
        "4.3",
        "HEADERS of another stream inside of a header block",
        (head(flags=0), head(stream=3), more(LARGE)),
        connection_error(PROTOCOL),
    ),
)

STREAMS = (
    Case("5.1", "DATA on an idle stream", (data(),), stream_error(PROTOCOL, CLOSED)),
    Case("5.1", "RST_STREAM on an idle stream", (reset(),), connection_error(PROTOCOL)),
    Case("5.1", "WINDOW_UPDATE on an idle stream", (room(1, 100),), connection_error(PROTOCOL)),
    Case("5.1", "CONTINUATION on an idle stream", (more(block()),), connection_error(PROTOCOL)),
    *(
        Case(
            "5.1",
            f"{what} on a half-closed stream{'' if silent else ', or closed'}",
            sent,
            sees,
            silent,
        )
        for silent in (True, False)
        for what, sent, sees in (
            ("DATA", (head(), data()), stream_error(CLOSED)),
            ("HEADERS", (head(), head()), stream_error(CLOSED)),
            ("CONTINUATION", (head(), more(block())), stream_error(CLOSED, PROTOCOL)),
            ("trailers", (head(), head(line(b"x", b"y"))), stream_error(CLOSED)),
        )
    ),
    Case("5.1", "DATA after RST_STREAM", (OPEN, reset(), data()), stream_error(CLOSED)),
    Case("5.1", "HEADERS after RST_STREAM", (OPEN, reset(), head()), stream_error(CLOSED)),
    Case(
        "5.1",
        "trailers after RST_STREAM",
        (OPEN, reset(), head(line(b"x", b"y"))),
        stream_error(CLOSED),
    ),
    Case(
        "5.1",
        "CONTINUATION after RST_STREAM",
        (OPEN, reset(), more(LARGE)),
        stream_error(CLOSED, PROTOCOL),
    ),
    Case(
        "5.1",
        "WINDOW_UPDATE after RST_STREAM",
        (OPEN, reset(), room(1, 1), ping()),
        pongs(),
    ),
    Case("5.1", "DATA on a closed stream", (head(), closes, data()), stream_error(CLOSED)),
    Case("5.1", "HEADERS on a closed stream", (head(), closes, head()), connection_error(CLOSED)),
    Case(
        "5.1",
        "CONTINUATION on a closed stream",
        (head(), closes, more(LARGE)),
        connection_error(CLOSED, PROTOCOL),
    ),
    Case(
        "5.1",
        "WINDOW_UPDATE and RST_STREAM on a closed stream",
        (head(), closes, room(1, 1), reset(), ping()),
        pongs(),
    ),
    Case("5.1.1", "an even stream number", (head(stream=2),), connection_error(PROTOCOL)),
    Case(
        "5.1.1",
        "a stream number below the last",
        (head(stream=5), head(stream=3)),
        connection_error(PROTOCOL),
    ),
    Case(
        "5.1.2",
        "more streams than allowed",
        (NO_WINDOW, b"".join(head(stream=n) for n in range(1, 2 * MAX_STREAMS + 2, 2))),
        stream_error(PROTOCOL, REFUSED, stream=2 * MAX_STREAMS + 1),
    ),
    Case(
        "RFC 7540 5.3.1",
        "HEADERS that depend on their own stream",
        (head(parent(1) + block(), 0x25),),
        stream_error(PROTOCOL),
    ),
    Case(
        "RFC 7540 5.3.1",
        "PRIORITY that depends on its own stream",
        (priority(1, on=1),),
        stream_error(PROTOCOL),
    ),
    Case("5.4.1", "PING on a stream ends", (frame(6, 0, 3, bytes(8)),), connection_error(PROTOCOL)),
    Case(
        "5.4.1",
        "PING on a stream is named by GOAWAY",
        (frame(6, 0, 3, bytes(8)),),
        lambda seen: [f.code for f in seen.of(FrameType.GOAWAY)] == [PROTOCOL],
    ),
    Case("5.5", "an unknown frame", (UNKNOWN, ping()), pongs()),
    Case(
        "5.5",
        "an unknown frame inside of a header block",
        (head(flags=1), UNKNOWN),
        connection_error(PROTOCOL),
    ),
)

FRAMES = (
    Case("6.1", "DATA on stream 0", (data(stream=0),), connection_error(PROTOCOL)),
    Case("6.1", "DATA behind its end", (head(block(POST)), data()), stream_error(CLOSED)),
    Case(
        "6.1",
        "more padding than DATA",
        (head(block(POST, (b"content-length", b"4")), 0x4), data(b"\x06Test", 0x9)),
        connection_error(PROTOCOL),
    ),
    Case(
        "6.2",
        "PRIORITY behind HEADERS without their end",
        (head(flags=0), priority(1), more(LARGE)),
        connection_error(PROTOCOL),
    ),
    Case(
        "6.2",
        "HEADERS behind HEADERS without their end",
        (head(flags=0), head(stream=3), more(LARGE)),
        connection_error(PROTOCOL),
    ),
    Case("6.2", "HEADERS on stream 0", (head(stream=0),), connection_error(PROTOCOL)),
    Case(
        "6.2",
        "more padding than HEADERS",
        (head(bytes([len(block()) + 2]) + block(), 0xD),),
        stream_error(PROTOCOL),
    ),
    Case("6.3", "PRIORITY on stream 0", (priority(0),), connection_error(PROTOCOL)),
    Case(
        "6.3",
        "PRIORITY of 4 bytes",
        (head(), frame(2, 0, 1, b"\x80\x00\x00\x01")),
        stream_error(SIZE),
    ),
    Case("6.3", "PRIORITY of 4 bytes, idle", (frame(2, 0, 1, bytes(4)),), stream_error(SIZE)),
    Case("6.4", "RST_STREAM on stream 0", (reset(0),), connection_error(PROTOCOL)),
    Case("6.4", "RST_STREAM before HEADERS", (reset(1),), connection_error(PROTOCOL)),
    Case("6.4", "RST_STREAM of 3 bytes", (head(), frame(3, 0, 1, bytes(3))), stream_error(SIZE)),
    Case("6.5", "SETTINGS ACK with payload", (frame(4, 1, 0, b"\0"),), connection_error(SIZE)),
    Case(
        "6.5",
        "SETTINGS on a stream",
        (frame(4, 0, 1, b"\x00\x03\x00\x00\x00\x64"),),
        connection_error(PROTOCOL),
    ),
    Case(
        "6.5",
        "half a setting",
        (frame(4, 0, 0, b"\x00\x03\x00"),),
        connection_error(PROTOCOL, SIZE),
    ),
    Case("6.5.2", "ENABLE_PUSH 2", (settings((2, 2)),), connection_error(PROTOCOL)),
    Case("6.5.2", "a window of 2^31", (settings((4, 1 << 31)),), connection_error(FLOW)),
    Case("6.5.2", "frames of 2^14 - 1", (settings((5, 16383)),), connection_error(PROTOCOL)),
    Case("6.5.2", "frames of 2^24", (settings((5, 1 << 24)),), connection_error(PROTOCOL)),
    Case("6.5.2", "an unknown setting", (settings((0xFF, 1)), ping()), pongs()),
    Case(
        "6.5.3",
        "the last of two windows holds",
        (settings((4, 100), (4, 1)), acknowledges(), head()),
        sends_data(1),
    ),
    Case("6.5.3", "SETTINGS are acknowledged", (settings((2, 0)),), acknowledges()),
    Case("6.7", "PING with 8 bytes of anything", (ping(b"whatever"),), pongs(b"whatever")),
    Case("6.7", "a PING ACK", (ping(b"ignored!", ACK), ping(b"whatever")), pongs(b"whatever")),
    Case("6.7", "PING on a stream", (frame(6, 0, 1, bytes(8)),), connection_error(PROTOCOL)),
    Case("6.7", "PING of 6 bytes", (frame(6, 0, 0, bytes(6)),), connection_error(SIZE)),
    Case("6.8", "GOAWAY on a stream", (frame(7, 0, 1, bytes(8)),), connection_error(PROTOCOL)),
    Case("6.9", "an increment of 0", (room(0, 0),), connection_error(PROTOCOL)),
    Case(
        "6.9",
        "an increment of 0 on a stream",
        (head(flags=END_HEADERS), room(1, 0)),
        stream_error(PROTOCOL),
    ),
    Case("6.9", "WINDOW_UPDATE of 3 bytes", (frame(8, 0, 0, b"\0\0\1"),), connection_error(SIZE)),
    Case(
        "6.9.1",
        "a window of 1",
        (settings((4, 1)), acknowledges(), head()),
        sends_data(1),
    ),
    Case(
        "6.9.1",
        "a connection's window beyond 2^31 - 1",
        (room(0, (1 << 31) - 1), room(0, (1 << 31) - 1)),
        connection_error(FLOW),
    ),
    Case(
        "6.9.1",
        "a stream's window beyond 2^31 - 1",
        (head(flags=END_HEADERS), room(1, (1 << 31) - 1), room(1, (1 << 31) - 1)),
        lambda seen: [f.code for f in seen.of(FrameType.RST_STREAM, 1)] == [FLOW],
    ),
    Case(
        "6.9.2",
        "a window that opens by SETTINGS",
        (NO_WINDOW, acknowledges(), head(), settings((4, 1))),
        sends_data(1),
    ),
    Case(
        "6.9.2",
        "a window that is below 0 for a while",
        (
            *(settings((4, 3)), acknowledges(), head(), sends_data(3)),
            *(settings((4, 2)), acknowledges(2), room(1, 2)),
        ),
        sends_data_again(1),
    ),
    Case("6.9.2", "SETTINGS of 2^31", (frame(4, 0, 0, b"\0\4\x80\0\0\0"),), connection_error(FLOW)),
    Case(
        "6.10",
        "CONTINUATION twice",
        (head(flags=1), more(LARGE, 0), more(LARGE)),
        answers,
    ),
    Case(
        "6.10",
        "DATA behind CONTINUATION",
        (head(block(POST), 0), more(LARGE, 0), data()),
        connection_error(PROTOCOL),
    ),
    Case(
        "6.10",
        "CONTINUATION on stream 0",
        (head(flags=1), more(LARGE, stream=0)),
        connection_error(PROTOCOL),
    ),
    Case(
        "6.10",
        "CONTINUATION behind END_HEADERS of HEADERS",
        (head(), more(LARGE)),
        connection_error(PROTOCOL),
    ),
    Case(
        "6.10",
        "CONTINUATION behind END_HEADERS of CONTINUATION",
        (head(flags=1), more(LARGE), more(LARGE)),
        connection_error(PROTOCOL),
    ),
    Case(
        "6.10",
        "CONTINUATION behind DATA",
        (head(block(POST), 0), data(), more(LARGE, 0), more(LARGE, stream=0)),
        connection_error(PROTOCOL),
    ),
    Case("7", "GOAWAY with an unknown code", (goaway(0xFF), ping(b"whatever")), pongs(b"whatever")),
    Case("7", "RST_STREAM with an unknown code", (OPEN, reset(1, 0xFF), ping()), pongs()),
)

MESSAGES = (
    Case(
        "8.1",
        "trailers that do not end the stream",
        (OPEN, data(flags=0), head(line(b"x-test", b"ok"), END_HEADERS)),
        stream_error(PROTOCOL),
    ),
    Case("8.2", "a name in upper case", (request((b"X-TEST", b"ok")),), stream_error(PROTOCOL)),
    Case("8.3", "an unknown pseudo field", (request((b":test", b"x")),), stream_error(PROTOCOL)),
    Case("8.3", "a response's field", (request((b":status", b"200")),), stream_error(PROTOCOL)),
    Case(
        "8.3",
        "a pseudo field as a trailer",
        (OPEN, data(flags=0), head(line(b":method", b"POST"), END_HEADERS)),
        stream_error(PROTOCOL),
    ),
    Case(
        "8.3",
        "a pseudo field behind another field",
        (head(line(b"x-test", b"ok") + block()),),
        stream_error(PROTOCOL),
    ),
    Case(
        "8.2.2",
        "a field of the connection",
        (request((b"connection", b"keep-alive")),),
        stream_error(PROTOCOL),
    ),
    Case(
        "8.2.2",
        "te with more than trailers",
        (request((b"trailers", b"test"), (b"te", b"trailers, deflate")),),
        stream_error(PROTOCOL),
    ),
    Case(
        "8.3.1",
        "an empty path",
        (request(pseudo=(*PSEUDO[:2], (b":path", b""), PSEUDO[3])),),
        stream_error(PROTOCOL),
    ),
    *(
        Case(
            "8.3.1",
            f"no {name.decode()}",
            (request(pseudo=[each for each in PSEUDO if each[0] != name]),),
            stream_error(PROTOCOL),
        )
        for name in (b":method", b":scheme", b":path")
    ),
    *(
        Case(
            "8.3.1",
            f"{name.decode()} twice",
            (request((name, value)),),
            stream_error(PROTOCOL),
        )
        for name, value in PSEUDO[:3]
    ),
    Case(
        "8.1.1",
        "a content-length that is not DATA's",
        (head(block(POST, (b"content-length", b"1")), END_HEADERS), data()),
        stream_error(PROTOCOL),
    ),
    Case(
        "8.1.1",
        "a content-length that is not the sum of DATA",
        (head(block(POST, (b"content-length", b"1")), END_HEADERS), data(flags=0), data()),
        stream_error(PROTOCOL),
    ),
    Case(
        "8.4",
        "PUSH_PROMISE",
        (frame(5, END_HEADERS, 1, (3).to_bytes(4, "big") + block()),),
        connection_error(PROTOCOL),
    ),
)

HPACK = tuple(
    Case(f"RFC 7541 {section}", what, (head(header_block),), connection_error(COMPRESSION))
    for section, what, header_block in (
        ("2.3.3", "an index beyond both tables", block() + b"\xc6"),
        ("2.3.3", "a name's index beyond both tables", block() + b"\x7f\x07\x00"),
        ("4.2", "a change of the table's size at the end", block() + b"\x21"),
        (
            "5.2",
            "padding longer than 7 bits",
            block() + b"\x00\x85\xf2\xb2\x4a\x84\xff\x84\x49\x50\x9f\xff",
        ),
        ("5.2", "padding of zeros", block() + b"\x00\x85\xf2\xb2\x4a\x84\xff\x83\x49\x50\x90"),
        (
            "5.2",
            "the end of a string inside of it",
            block() + b"\x00\x85\xf2\xb2\x4a\x84\xff\x87\x49\x51\xff\xff\xff\xfa\x7f",
        ),
        ("6.1", "index 0", block() + b"\x80"),
        ("6.3", "a table larger than allowed", b"\x3f\xe2\x1f" + block()),
    )
)

CASES = (*GENERIC, *CONNECTION, *STREAMS, *FRAMES, *MESSAGES, *HPACK)
