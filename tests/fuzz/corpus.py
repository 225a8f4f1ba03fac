"""Valid inputs of each kind, from which the fuzzed ones are made."""

from __future__ import annotations

import struct
from typing import Final

import hpack

_LINES: Final = (
    b"Accept: application/json;q=0.5, text/plain;q=0.4, */*",
    b"Accept-Encoding: gzip\r\nUser-Agent: curl/8.5.0\r\nX-Request-Id: 6f9a3c",
    b"Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nX_Forwarded_For: 1.2.3.4",
    b"Cookie: a=1; b=2\r\nX-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: http",
    b"K-Network-Probe: queue\r\nK-Network-Hash: abc\r\nForwarded: for=192.0.2.1",
    b"Knative-Serving-Namespace: default\r\nKnative-Serving-Revision: hello-00001",
    b"TE: trailers\r\nTrailer: Grpc-Status, X-Sum",
    b'Accept: "a\\"b", application/problem+json ; q = 1.0',
    "X-Name: größe\r\nX-Quote: \"<&>'".encode(),
)
_REQUEST_LINES: Final = (
    b"GET / HTTP/1.1\r\nHost: hello.default.svc.cluster.local",
    b"GET /a/b?c=d&e=%20f HTTP/1.1\r\nHost: [::1]:8080",
    b"GET http://hello.example.com/a?b HTTP/1.1\r\nHost: other",
    b"OPTIONS * HTTP/1.1\r\nHost: a",
    b"BREW /pot HTTP/1.1\r\nHost: a.b:80",
    b"GET / HTTP/1.0\r\nConnection: keep-alive",
    b"GET / HTTP/1.2\r\nHost: a",
    b"HEAD /x HTTP/1.1\r\nHost: a\r\nK-Original-Host: b",
    b"CONNECT a:443 HTTP/1.1\r\nHost: a:443",
    b"GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket",
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 12\r\nExpect: 100-continue",
    b"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum",
    b"PATCH / HTTP/1.1\r\nHost: a\r\nContent-Length: 0",
)
_STATUS_LINES: Final = (
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nDate: Mon, 01 Jan 2024 00:00:00 GMT",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive",
    b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0",
    b"HTTP/1.1 204 No Content",
    b'HTTP/1.1 304 Not Modified\r\nETag: "a"\r\nContent-Length: 1000',
    b"HTTP/1.1 100 Continue",
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket",
    b"HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/plain; charset=utf-8\r\n"
    b"X-Content-Type-Options: nosniff\r\nContent-Length: 45",
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 23\r\nRetry-After: 1",
    b"HTTP/1.1 200 \r\nConnection: close, X-Hop\r\nX-Hop: a",
)
_FIELDS: Final = (
    [(b":method", b"GET"), (b":scheme", b"http"), (b":path", b"/"), (b":authority", b"a.b")],
    [
        *(
            (b":method", b"POST"),
            (b":scheme", b"https"),
            (b":authority", b"a"),
            (b":path", b"/s/M"),
        ),
        *((b"content-type", b"application/grpc"), (b"te", b"trailers"), (b"grpc-timeout", b"5S")),
        hpack.NeverIndexedHeaderTuple(b"authorization", b"Bearer secret"),
    ],
    [
        *((b":method", b"GET"), (b":scheme", b"http"), (b":path", b"/?q"), (b"host", b"a.b")),
        *((b"cookie", b"a=1"), (b"cookie", b"b=2"), (b"x_under_score", b"1"), (b"x-a", b"\xff")),
        hpack.NeverIndexedHeaderTuple(b"x-token", b"secret"),
    ],
    [(b":status", b"200"), (b"content-length", b"5"), (b"date", b"Mon, 01 Jan 2024 00:00:00 GMT")],
    [(b":status", b"503"), (b"retry-after", b"1"), (b"set-cookie", b"a=1"), (b"x-b", b"b" * 90)],
    [(b"grpc-status", b"0"), (b"grpc-message", b"fine"), (b"x-sum", b"17")],
)
_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_SETTINGS: Final = (
    b"",
    struct.pack(">HL", 4, 1 << 20),
    struct.pack(">HLHLHL", 1, 4096, 5, 1 << 14, 3, 100),
    struct.pack(">HLHL", 2, 0, 0x99, 7),
)


def _blocks() -> list[bytes]:
    """Return header blocks, with and without Huffman code, some of one connection."""
    found = []
    for huffman in (True, False):
        encoder = hpack.Encoder()
        for _ in range(2):
            found += [encoder.encode(fields, huffman=huffman) for fields in _FIELDS]
        found += [b"".join(found[-4:]), b"\x3f\xe1\x1f" + found[0], b"\x20" + found[1]]
    return found


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">LBL", len(payload) << 8 | kind, flags, stream) + payload


def _connections(blocks: list[bytes]) -> list[bytes]:
    """Return what one side of a connection sends."""
    first = [_frame(4, 0, 0, payload) for payload in _SETTINGS]
    headers, body = blocks[0], b"x" * 40
    streams = [
        _frame(1, 5, 1, headers),
        _frame(1, 4, 1, headers) + _frame(0, 1, 1, body),
        _frame(1, 0x2C, 3, b"\x02" + b"\0\0\0\x01\x10" + headers + b"\0\0")
        + _frame(0, 9, 3, b"\x03a\0\0\0"),
        _frame(1, 0, 1, headers[:2]) + _frame(9, 0, 1, headers[2:4]) + _frame(9, 4, 1, headers[4:]),
        _frame(4, 1, 0, b"") + _frame(6, 0, 0, b"12345678") + _frame(6, 1, 0, b"12345678"),
        _frame(8, 0, 0, b"\0\0\x10\0")
        + _frame(8, 0, 1, b"\0\0\0\x01")
        + _frame(3, 0, 1, b"\0\0\0\x08"),
        _frame(2, 0, 1, b"\0\0\0\0\x10")
        + _frame(99, 0, 0, b"unknown")
        + _frame(7, 0, 0, b"\0" * 8 + b"bye"),
        _frame(5, 4, 1, b"\0\0\0\x02" + headers),
    ]
    return [settings + stream for settings in first for stream in streams]


def _strings() -> list[bytes]:
    coder = hpack.huffman.HuffmanEncoder(
        hpack.huffman_constants.REQUEST_CODES, hpack.huffman_constants.REQUEST_CODES_LENGTH
    )
    texts = [b"a", b"www.example.com", b"no-cache", bytes(range(256)), b"0123456789" * 9, b"{\\~"]
    return [coder.encode(text) for text in texts]


def _made() -> dict[str, list[bytes]]:
    blocks = _blocks()
    connections = _connections(blocks)
    ends = (b"", *(b"\r\n" + lines for lines in _LINES))
    return {
        "requests": [line + end for line in _REQUEST_LINES for end in ends],
        "responses": [line + end for line in _STATUS_LINES for end in ends],
        "chunked": [
            b"5\r\nhello\r\n0\r\n\r\n",
            b"A;name=value\r\n0123456789\r\n1\r\nx\r\n0\r\nX-Sum: 1\r\nHost: b\r\n\r\nGET /",
            b"000f \t;a\r\n012345678901234\r\n0\r\nK-A: b\r\nGrpc-Status: 0\r\n\r\n",
            b"0\r\n\r\n",
            b"1" * 60,
        ],
        "blocks": blocks,
        "strings": _strings(),
        "client frames": [_PREFACE + each for each in connections],
        "pod frames": connections,
        "settings": list(_SETTINGS),
        "lines": list(_LINES),
    }


CORPUS: Final = _made()
