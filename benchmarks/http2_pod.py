"""HTTP/2 pods: ``python -m benchmarks.http2_pod BYTES IP:PORT …``.

Like queue-proxy, they accept HTTP/1 on the same port, for the activator's probe; nginx before 1.25
does not. They respond when a request has ended. A request with a body gets the response of a gRPC
unary call. A request without a body gets BYTES bytes, or a greeting if BYTES is 0. The process
prints a line when it listens on all addresses.
"""

from __future__ import annotations

import asyncio
import json
import struct
import sys
from collections.abc import Iterator
from functools import partial
from typing import Final, cast

import hpack
import uvloop

from benchmarks.http2_requests import (
    BEGIN,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    MESSAGE,
    PREFACE,
    SETTINGS,
    SETTINGS_ACK,
    WINDOW_UPDATE,
    Fields,
    cut,
    frame,
)
from benchmarks.pod import BACKLOG, HEAD_END, QUEUE

SETTING: Final = struct.Struct(">HL")
HEADER_TABLE_SIZE: Final = 1
INITIAL_WINDOW_SIZE: Final = 4
FIRST_WINDOW: Final = (1 << 16) - 1
LARGEST_FRAME: Final = 1 << 14
TABLE_SIZE: Final = 4096
HELLO: Final = b"hello\n"
OK: Final[Fields] = [
    (b":status", b"200"),
    (b"server", b"pod"),
    (b"date", b"Sat, 21 Nov 2026 22:22:44 GMT"),
    (b"content-type", b"text/plain"),
    (b"content-length", b"6"),
]
OK_LARGE: Final = OK[:-1]
PAYLOAD: Final = bytes(LARGEST_FRAME)
CALLED: Final[Fields] = [(b":status", b"200"), (b"content-type", b"application/grpc")]
TRAILERS: Final[Fields] = [(b"grpc-status", b"0"), (b"grpc-message", b"")]


class Connection(asyncio.Protocol):
    """One connection, in either version of HTTP.

    Arguments:
        large: bytes of a response; 0 for a greeting.
    """

    def __init__(self, large: int) -> None:
        self._large = large

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance
        self._held = b""
        self._begun = False
        self._encoder = hpack.Encoder()
        self._with_body: set[int] = set()
        # By stream, bytes to send and flow-control windows; stream 0 is the connection.
        self._unsent: dict[int, int] = {}
        self._first_window = FIRST_WINDOW
        self._windows: dict[int, int] = {0: FIRST_WINDOW}

    def data_received(self, data: bytes) -> None:
        data = self._held + data
        if not self._begun:
            if not data.startswith(PREFACE):
                *heads, self._held = data.split(HEAD_END)
                self._transport.write(QUEUE * len(heads))
                return
            self._begun = True
            self._transport.write(BEGIN)
            data = data[len(PREFACE) :]
        frames, self._held = cut(data)
        said = [self._take(*each) for each in frames]
        self._transport.write(b"".join((*said, *self._large_answers())))

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> bytes:
        """Take a frame; return bytes to send."""
        if kind == SETTINGS and not flags:
            for identifier, value in SETTING.iter_unpack(payload):
                if identifier == HEADER_TABLE_SIZE:  # nginx has no dynamic table: it announces 0
                    self._encoder.header_table_size = min(value, TABLE_SIZE)
                elif identifier == INITIAL_WINDOW_SIZE:
                    self._first_window = value
            return SETTINGS_ACK
        if kind == WINDOW_UPDATE and stream in self._windows:
            self._windows[stream] += int.from_bytes(payload, "big")
        if kind not in (DATA, HEADERS):
            return b""
        if not flags & END_STREAM:
            self._with_body.add(stream)
            return b""
        if stream not in self._with_body and self._large:
            self._windows[stream] = self._first_window
            self._unsent[stream] = self._large
            return frame(HEADERS, END_HEADERS, stream, self._encoder.encode(OK_LARGE))
        if stream not in self._with_body:
            head = frame(HEADERS, END_HEADERS, stream, self._encoder.encode(OK))
            return head + frame(DATA, END_STREAM, stream, HELLO)
        self._with_body.remove(stream)
        return b"".join(
            (
                frame(HEADERS, END_HEADERS, stream, self._encoder.encode(CALLED)),
                frame(DATA, 0, stream, MESSAGE),
                frame(HEADERS, END_HEADERS | END_STREAM, stream, self._encoder.encode(TRAILERS)),
            )
        )

    def _large_answers(self) -> Iterator[bytes]:
        """Yield as much of the large responses as windows allow."""
        for stream, left in list(self._unsent.items()):
            while room := min(left, LARGEST_FRAME, self._windows[0], self._windows[stream]):
                left -= room
                self._windows[0] -= room
                self._windows[stream] -= room
                yield frame(DATA, 0 if left else END_STREAM, stream, PAYLOAD[:room])
            self._unsent[stream] = left
            if not left:
                del self._unsent[stream], self._windows[stream]


async def main(large: int, addresses: list[str]) -> None:
    """Listen until the process ends."""
    loop = asyncio.get_running_loop()
    for address in addresses:
        ip, port = address.rsplit(":", 1)
        await loop.create_server(partial(Connection, large), ip, int(port), backlog=BACKLOG)
    print(json.dumps("listening"), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]), sys.argv[2:]))
