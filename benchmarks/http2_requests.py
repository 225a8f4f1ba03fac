"""HTTP/2 requests as bytes, prepared before a measurement and encoded as Go's client does.

It also has the frame functions that clients and pods of benchmarks need.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from random import Random
from typing import Final

import hpack

Fields = list[tuple[bytes, bytes]]

DATA: Final = 0
HEADERS: Final = 1
RST_STREAM: Final = 3
SETTINGS: Final = 4
WINDOW_UPDATE: Final = 8
END_STREAM: Final = 0x1
END_HEADERS: Final = 0x4
PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#: Length and type, flags, stream.
HEAD: Final = struct.Struct(">IBL")
#: Ten bytes of a message, as gRPC frames them.
MESSAGE: Final = b"\x00\x00\x00\x00\x0axxxxxxxxxx"

#: The first frames of each side, for a client after the preface: settings and large windows.
BEGIN: Final = b"".join(
    (
        HEAD.pack(6 << 8 | SETTINGS, 0, 0) + struct.pack(">HL", 4, (1 << 31) - 1),
        HEAD.pack(4 << 8 | WINDOW_UPDATE, 0, 0) + struct.pack(">L", (1 << 31) - 1 - 0xFFFF),
    )
)

SETTINGS_ACK: Final = HEAD.pack(SETTINGS, 0x1, 0)


def ingress(random: Random, host: bytes) -> Fields:
    """Return a request as Envoy sends it, with a new path, request id and trace."""
    return [
        (b":method", b"GET"),
        (b":scheme", b"http"),
        (b":authority", host),
        (b":path", b"/api/v1/items/" + _identity(random)),
        (b"user-agent", b"Mozilla/5.0 (X11; Linux x86_64) Chrome/126.0.0.0"),
        (b"accept", b"*/*"),
        (b"accept-encoding", b"gzip, deflate, br"),
        *_by_ingress(random),
    ]


def repeating(random: Random, host: bytes) -> Fields:
    """Return the request that h2load sends."""
    return [
        (b":path", b"/"),
        (b":scheme", b"http"),
        (b":authority", host),
        (b":method", b"GET"),
        (b"user-agent", b"h2load nghttp2/1.52.0"),
    ]


def unary(random: Random, host: bytes) -> Fields:
    """Return a call as a gRPC client sends it."""
    return [
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", b"/echo.Echo/Unary"),
        (b":authority", host),
        (b"te", b"trailers"),
        (b"content-type", b"application/grpc"),
        (b"user-agent", b"grpc-python/1.60.0 grpc-c/37.0.0 (linux; chttp2)"),
        (b"grpc-accept-encoding", b"identity, deflate, gzip"),
    ]


def unary_by_ingress(random: Random, host: bytes) -> Fields:
    """Return a gRPC call as Envoy forwards it."""
    return [*unary(random, host), *_by_ingress(random)]


def _by_ingress(random: Random) -> Fields:
    return [
        (b"x-forwarded-for", b"10.1.2.3"),
        (b"x-forwarded-proto", b"http"),
        (b"x-envoy-external-address", b"10.1.2.3"),
        (b"x-request-id", _identity(random)),
        (b"traceparent", b"00-%b-%b-01" % (_digits(random, 32), _digits(random, 16))),
    ]


def _identity(random: Random) -> bytes:
    return b"-".join(_digits(random, count) for count in (8, 4, 4, 4, 12))


def _digits(random: Random, count: int) -> bytes:
    return b"%0*x" % (count, random.getrandbits(4 * count))


#: The kinds of requests by name, with the body of each.
KINDS: Final[dict[str, tuple[Callable[[Random, bytes], Fields], bytes]]] = {
    "ingress": (ingress, b""),
    "repeating": (repeating, b""),
    "unary": (unary, MESSAGE),
    "unary-by-ingress": (unary_by_ingress, MESSAGE),
}


def requests(kind: str, host: bytes, seed: int) -> Iterator[bytes]:
    """Return the frames of one connection's requests, in order.

    Arguments:
        kind: a key of `KINDS`.
        seed: of the random ids.
    """
    fields, body = KINDS[kind]
    encoder = hpack.Encoder()
    random = Random(seed)
    stream = 1
    while True:
        yield _request(stream, encoder.encode(fields(random, host)), body)
        stream += 2


def _request(stream: int, block: bytes, body: bytes) -> bytes:
    if not body:
        return frame(HEADERS, END_HEADERS | END_STREAM, stream, block)
    head = frame(HEADERS, END_HEADERS, stream, block)
    return head + frame(DATA, END_STREAM, stream, body)


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """Return one frame."""
    return HEAD.pack(len(payload) << 8 | kind, flags, stream) + payload


def cut(data: bytes) -> tuple[list[tuple[int, int, int, bytes]], bytes]:
    """Return the complete frames (type, flags, stream, payload), and the rest of the bytes."""
    frames = []
    at = 0
    while len(data) - at >= HEAD.size:
        word, flags, stream = HEAD.unpack_from(data, at)
        end = at + HEAD.size + (word >> 8)
        if end > len(data):
            break
        frames.append((word & 0xFF, flags, stream, data[at + HEAD.size : end]))
        at = end
    return frames, data[at:]
