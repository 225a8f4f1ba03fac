"""A pod with a slow application: ``python -m benchmarks.slow_pod SECONDS IP:PORT …``.

It responds to each request after so many seconds, unless the connection ends before. It prints a
line of JSON when it listens on all addresses, and the ``x-request-id`` of each request that
arrives. A process that kills it can still read all complete lines.
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
            emit(arrived=_request_id(head), address=self._address, at=monotonic())
            loop = asyncio.get_running_loop()
            self._answers = loop.call_later(self._seconds, self._transport.write, HELLO)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answers is not None:
            self._answers.cancel()


def _request_id(head: bytes) -> str:
    # The activator does not change header names, and the benchmark's client sends lower case.
    return head.partition(ID)[2].partition(b"\r\n")[0].decode()


def emit(**facts: object) -> None:
    """Print facts as a line of JSON, in one write, so that a kill leaves no incomplete line."""
    print(json.dumps(facts), flush=True)


async def main(seconds: float, addresses: list[str]) -> None:
    """Listen until the process ends."""
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
    emit(listening=monotonic())
    await asyncio.gather(*(server.serve_forever() for server in servers))


if __name__ == "__main__":
    uvloop.run(main(float(sys.argv[1]), sys.argv[2:]))
