"""Pods that share their work: ``python -m benchmarks.policy_pod SECONDS BEYOND IP:PORT …``.

A response takes SECONDS, a fifth more or less. With more than BEYOND requests in flight at a pod,
all of them become slower with the square of their number; 0 for never. The field ``x-pod`` has the
pod's IP address. A pod also accepts HTTP/2 and gRPC calls. The process prints a line when it
listens on all addresses.
"""

from __future__ import annotations

import asyncio
import heapq
import sys
from asyncio import TimerHandle
from collections.abc import Callable
from functools import partial
from itertools import count
from random import uniform
from typing import cast

import uvloop

from benchmarks.http2_requests import PREFACE
from benchmarks.pod import BACKLOG, HEAD_END, PROBER, QUEUE
from benchmarks.policy_http2 import PodConnection
from benchmarks.slow_pod import emit

_RESPONSE = b"HTTP/1.1 200 OK\r\nX-Pod: %b\r\nContent-Length: 6\r\n\r\nhello\n"

Done = Callable[[], None]


class Work:
    """The requests in flight at one pod, on a clock that runs slower while there are too many.

    Arguments:
        seconds: of that clock, for each request; beyond: see above.
    """

    def __init__(self, seconds: float, beyond: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._seconds = seconds
        self._beyond = beyond
        self._order = count()
        self._requests: list[tuple[float, int, Done]] = []
        self._clock, self._at = 0.0, self._loop.time()
        self._timer: TimerHandle | None = None

    def add(self, done: Done) -> None:
        """Call ``done`` when the request is processed."""
        self._advance()
        heapq.heappush(
            self._requests,
            (self._clock + self._seconds * uniform(0.8, 1.2), next(self._order), done),
        )
        self._arm()

    def _speed(self) -> float:
        requests = len(self._requests)
        if not self._beyond or requests <= self._beyond:
            return 1.0
        return (self._beyond / requests) ** 2

    def _advance(self) -> None:
        now = self._loop.time()
        self._clock += (now - self._at) * self._speed()
        self._at = now

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._requests:
            delay = (self._requests[0][0] - self._clock) / self._speed()
            self._timer = self._loop.call_later(max(0.0, delay), self._run)

    def _run(self) -> None:
        self._advance()
        while self._requests and self._requests[0][0] <= self._clock + 1e-6:
            heapq.heappop(self._requests)[2]()
        self._arm()


class Connection(asyncio.Protocol):
    """One connection; requests in HTTP/1 have no body and come one at a time."""

    def __init__(self, work: Work, ip: str) -> None:
        self._work = work
        self._ip = ip
        self._response = _RESPONSE % ip.encode()
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance

    def data_received(self, data: bytes) -> None:
        if data.startswith(PREFACE):
            other = PodConnection(self._work.add, self._ip)
            self._transport.set_protocol(other)
            other.connection_made(self._transport)
            other.data_received(data)
            return
        *heads, self._rest = (self._rest + data).split(HEAD_END)
        for head in heads:
            if PROBER in head:
                self._transport.write(QUEUE)
            else:
                self._work.add(partial(self._transport.write, self._response))


async def main(seconds: float, beyond: int, addresses: list[str]) -> None:
    """Listen until the process ends."""
    loop = asyncio.get_running_loop()
    servers = []
    for address in addresses:
        ip, port = address.split(":")
        connect = partial(Connection, Work(seconds, beyond), ip)
        servers.append(await loop.create_server(connect, ip, int(port), backlog=BACKLOG))
    emit(listening=True)
    await asyncio.gather(*(server.serve_forever() for server in servers))


if __name__ == "__main__":
    uvloop.run(main(float(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
