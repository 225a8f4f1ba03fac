"""Clients that all wait at once, in a process of their own: ``python -m benchmarks.crowd``.

Opens so many connections, and once a line arrives on standard input sends one GET over each. Tells
``connected``, ``sent``, and at the end how many answers of which status there were and when the
last one came (CLOCK_MONOTONIC, seconds), each as a line of JSON.
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
    """What all clients have seen."""

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
    """One connection; its answer is small and arrives whole or nearly so."""

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


def tell(**what: object) -> None:
    """Say something to whoever started this process."""
    print(json.dumps(what), flush=True)


async def main(port_at: str, host: str, count: int) -> None:
    """Do what the lines on standard input say."""
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
    tell(connected=count)
    await loop.run_in_executor(None, sys.stdin.readline)
    request = f"GET / HTTP/1.1\r\nHost: {host}\r\nUser-Agent: crowd\r\nAccept: */*\r\n\r\n".encode()
    first = monotonic()
    for client in clients:
        client.send(request)
    tell(sent=first)
    await crowd.done.wait()
    tell(last=crowd.last, statuses=crowd.statuses)


if __name__ == "__main__":
    raise_file_limit()
    uvloop.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
