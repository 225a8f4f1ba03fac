"""Clients that send one request and then stay idle: ``python -m benchmarks.idlers``.

They open connections and send kubelet's probe over each, which needs no pod. When all have their
responses, the process prints ``connected`` as a line of JSON. The connections stay idle until the
process ends.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
from typing import Final, cast

import hpack
import uvloop

from benchmarks.process import raise_file_limit

#: Connections opened at a time: fewer than any listener's backlog, and handshakes cost.
BATCH: Final = 100

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_HEADERS, _SETTINGS = 1, 4
_WHOLE: Final = 0x5  # END_STREAM and END_HEADERS
_PROBE: Final = "kube-probe/idler"
#: Bytes of each response: its status line, or HEADERS of the first stream with END_STREAM.
_ANSWER: Final = {
    "http1": b"HTTP/1.1 200 ",
    "tls": b"HTTP/1.1 200 ",
    "h2c": bytes((_HEADERS, _WHOLE, 0, 0, 0, 1)),
}


def _frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    head = len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big")
    return head + payload


def probe(way: str) -> bytes:
    """Return kubelet's probe, with the preface and frames that must precede it.

    Arguments:
        way: ``http1``, ``tls`` (the same over TLS) or ``h2c``.
    """
    if way != "h2c":
        return f"GET / HTTP/1.1\r\nHost: idle\r\nUser-Agent: {_PROBE}\r\n\r\n".encode()
    fields = {":method": "GET", ":scheme": "http", ":path": "/", ":authority": "idle"}
    block = hpack.Encoder().encode([*fields.items(), ("user-agent", _PROBE)])
    return _PREFACE + _frame(_SETTINGS, 0, 0) + _frame(_HEADERS, _WHOLE, 1, block)


class Client(asyncio.Protocol):
    """One connection."""

    def __init__(self, way: str) -> None:
        self._way = way
        self._came = b""
        self.answered = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).write(probe(self._way))

    def data_received(self, data: bytes) -> None:
        self._came += data
        if _ANSWER[self._way] in self._came and not self.answered.done():
            self.answered.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.answered.done():
            self.answered.set_exception(ConnectionError("closed before the response"))


async def main(way: str, port: int, count: int) -> None:
    """Connect, send, print a line, and wait for the end of standard input."""
    loop = asyncio.get_running_loop()
    context = None
    if way == "tls":
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    held: list[Client] = []

    async def one() -> None:
        _, client = await loop.create_connection(
            lambda: Client(way), "127.0.0.1", port, ssl=context
        )
        held.append(client)
        await client.answered

    for begun in range(0, count, BATCH):
        await asyncio.gather(*(one() for _ in range(min(BATCH, count - begun))))
    print(json.dumps({"connected": len(held)}), flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    raise_file_limit()
    uvloop.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
