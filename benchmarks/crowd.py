"""Clients that all wait at once, in a separate process: ``python -m benchmarks.crowd``.

They open their connections, and send one GET over each when a line arrives on standard input. The
process prints lines of JSON: ``connected``, ``sent``, and at the end the number of responses by
status and the time of the last one (CLOCK_MONOTONIC, seconds). Clients that accept an event stream
stay until another line arrives.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from time import monotonic
from typing import cast

import uvloop

from benchmarks.process import raise_file_limit

#: Connections opened at a time: fewer than any listener's backlog.
BATCH = 500


class Crowd:
    """The responses of all clients."""

    def __init__(self, count: int) -> None:
        self.left = count
        self.statuses: Counter[str] = Counter()
        self.last = 0.0
        self.done = asyncio.Event()

    def answered(self, status: str) -> None:
        self.statuses[status] += 1
        self.left -= 1
        self.last = monotonic()
        if self.left == 0:
            self.done.set()


class Client(asyncio.Protocol):
    """One connection; the first bytes of its response have the status."""

    def __init__(self, crowd: Crowd) -> None:
        self._crowd = crowd
        self._waits = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance

    def send(self, request: bytes) -> None:
        if self._transport.is_closing():
            self._crowd.answered("closed early")
            return
        self._waits = True
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        if self._waits:
            self._waits = False
            self._crowd.answered(data[9:12].decode())

    def connection_lost(self, exc: Exception | None) -> None:
        if self._waits:
            self._waits = False
            self._crowd.answered("lost")


def emit(**facts: object) -> None:
    """Print facts as a line of JSON, for the parent process."""
    print(json.dumps(facts), flush=True)


async def main(port_at: str, host: str, count: int, accept: str = "*/*") -> None:
    """Connect, wait for a line on standard input, send, and print the responses."""
    ip, port = port_at.split(":")
    loop = asyncio.get_running_loop()
    crowd = Crowd(count)
    clients: list[Client] = []
    while len(clients) < count:
        batch = min(BATCH, count - len(clients))
        opened = [
            loop.create_connection(lambda: Client(crowd), ip, int(port)) for _ in range(batch)
        ]
        clients += [client for _, client in await asyncio.gather(*opened)]
    emit(connected=count)
    await loop.run_in_executor(None, sys.stdin.readline)
    fields = f"Host: {host}\r\nUser-Agent: crowd\r\nAccept: {accept}\r\n"
    request = f"GET / HTTP/1.1\r\n{fields}\r\n".encode()
    first = monotonic()
    for client in clients:
        client.send(request)
    emit(sent=first)
    await crowd.done.wait()
    emit(last=crowd.last, statuses=crowd.statuses)
    if accept != "*/*":
        await loop.run_in_executor(None, sys.stdin.readline)


if __name__ == "__main__":
    raise_file_limit()
    uvloop.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), *sys.argv[4:]))
