"""GETs at a steady rate over persistent connections: ``python -m benchmarks.paced``.

Arguments: IP:PORT HOST RATE. A line ``go`` on standard input begins, and a line ``end`` ends. Then
the process prints the seconds that each response took as JSON. A late response delays no request.
"""

from __future__ import annotations

import asyncio
import json
import sys
from time import perf_counter
from typing import cast

import uvloop

#: Connections; a request takes one without a request in flight.
CONNECTIONS = 64


class Client(asyncio.Protocol):
    """One connection.

    Arguments:
        free: the connections without a request; this one returns to it.
        took: gets the seconds from each request to its response.
    """

    def __init__(self, free: list[Client], took: list[float]) -> None:
        self.sent = 0.0
        self._free = free
        self._took = took

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance
        self._free.append(self)

    def send(self, request: bytes) -> None:
        self.sent = perf_counter()
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._took.append(perf_counter() - self.sent)
        assert data.startswith(b"HTTP/1.1 200 "), data[:200]
        self._free.append(self)


async def main(place: str, host: str, rate: float) -> None:
    """Connect, send from ``go`` to ``end``, and print what each response took."""
    loop = asyncio.get_running_loop()
    ip, port = place.split(":")
    free: list[Client] = []
    took: list[float] = []
    clients = [
        (await loop.create_connection(lambda: Client(free, took), ip, int(port)))[1]
        for _ in range(CONNECTIONS)
    ]
    await loop.run_in_executor(None, sys.stdin.readline)
    ended = loop.run_in_executor(None, sys.stdin.readline)
    request = f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
    began, sent = perf_counter(), 0
    while not ended.done():
        due = int((perf_counter() - began) * rate)
        for _ in range(min(due - sent, len(free))):
            free.pop(0).send(request)
        sent = due
        await asyncio.sleep(0.001)
    now = perf_counter()
    took += [now - client.sent for client in clients if client not in free]
    print(json.dumps(took), flush=True)


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], sys.argv[2], float(sys.argv[3])))
