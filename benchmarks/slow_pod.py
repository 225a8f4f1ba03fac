"""A pod whose application takes its time: ``python -m benchmarks.slow_pod SECONDS IP:PORT …``.

Answers each request after so many seconds, unless its connection ends before: as queue-proxy, which
then has the application's slot back. Tells when it listens on all addresses, and of each request
that arrives its ``x-request-id``, as lines of JSON; whoever kills it still reads all that it told.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from asyncio import TimerHandle
from functools import partial
from time import monotonic
from typing import cast

import uvloop

from benchmarks.pod import BACKLOG, HEAD_END, HELLO, PROBER, QUEUE

ID = b"\r\nx-request-id: "


class Connection(asyncio.Protocol):
    """One connection; requests have no body and come one at a time."""

    def __init__(self, seconds: float, address: str) -> None:
        self._seconds = seconds
        self._address = address
        self._rest = b""
        self._answers: TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance

    def data_received(self, data: bytes) -> None:
        *heads, self._rest = (self._rest + data).split(HEAD_END)
        for head in heads:
            if PROBER in head:
                self._transport.write(QUEUE)
                continue
            tell(arrived=_request_id(head), address=self._address, at=monotonic())
            loop = asyncio.get_running_loop()
            self._answers = loop.call_later(self._seconds, self._transport.write, HELLO)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answers is not None:
            self._answers.cancel()


def _request_id(head: bytes) -> str:
    # The activator passes names on as the client wrote them, and ours writes them small.
    return head.partition(ID)[2].partition(b"\r\n")[0].decode()


def tell(**what: object) -> None:
    """Says something to whoever started this process; one write, so that no kill cuts a line."""
    print(json.dumps(what), flush=True)


async def main(seconds: float, addresses: list[str]) -> None:
    """Listens until the process is ended."""
    loop = asyncio.get_running_loop()
    servers = []
    for address in addresses:
        ip, port = address.split(":")
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((ip, int(port)))
        servers.append(
            await loop.create_server(
                partial(Connection, seconds, address),
                sock=listener,
                backlog=BACKLOG,
            )
        )
    tell(listening=monotonic())
    await asyncio.gather(*(server.serve_forever() for server in servers))


if __name__ == "__main__":
    uvloop.run(main(float(sys.argv[1]), sys.argv[2:]))
