"""Clients that arrive at a steady rate, whether or not earlier clients have finished.

``python -m benchmarks.arrivals IP:PORT HOST RATE PATIENCE POST_EVERY`` sends RATE requests per
second, each over a new connection. A client closes it after PATIENCE seconds without a response.
One request in POST_EVERY is a POST; 0 for none. Commands on standard input print a line of JSON:
``live`` the number of waiting clients, ``end`` the outcomes of all requests after the last one.
"""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio import TimerHandle
from collections import Counter
from contextlib import suppress
from typing import cast

import uvloop

from benchmarks.pod import HEAD_END
from benchmarks.process import raise_file_limit

EXPIRED, LOST = "expired", "lost"
#: Most failures that are reported with an excerpt of the response; further ones are only counted.
MAX_EXCERPTS = 100


class Arrivals:
    """All clients, with their outcomes."""

    def __init__(self, rate: float, patience: float, post_every: int) -> None:
        self.patience = patience
        self.live = 0
        self._rate = rate
        self._post_every = post_every
        self._asked = 0
        self._outcomes: dict[str, Counter[str]] = {"GET": Counter(), "POST": Counter()}
        self._failed: list[tuple[str, str, str]] = []
        self._done = asyncio.Event()
        self.stop = asyncio.Event()

    async def keep_coming(self, ip: str, port: int, host: str) -> None:
        """Send requests until `stop` is set and the last request has its connection."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with asyncio.TaskGroup() as opening:
            while not self.stop.is_set():
                self._asked += 1
                client = Client(self, self._method(), self._asked, host)
                opening.create_task(self._open(client, ip, port))
                await self._stopped_until(began + self._asked / self._rate)

    def ended(self, client: Client, outcome: str, answer: str) -> None:
        """Record a client's outcome; each client calls it once."""
        self.live -= 1
        self._outcomes[client.method][outcome] += 1
        if outcome not in ("200", EXPIRED) and len(self._failed) < MAX_EXCERPTS:
            self._failed.append((client.request_id, outcome, answer))
        self._done.set()

    async def report(self) -> dict[str, object]:
        """Return the outcomes of all clients, after the last one has ended."""
        while self.live:
            self._done.clear()
            await self._done.wait()
        return {"asked": self._asked, "outcomes": self._outcomes, "failed": self._failed}

    def _method(self) -> str:
        return "POST" if self._post_every and self._asked % self._post_every == 0 else "GET"

    async def _open(self, client: Client, ip: str, port: int) -> None:
        self.live += 1
        try:
            await asyncio.get_running_loop().create_connection(lambda: client, ip, port)
        except OSError as error:
            self.ended(client, LOST, str(error))

    async def _stopped_until(self, moment: float) -> None:
        """Wait until a time of the loop's clock, or until `stop` is set."""
        with suppress(TimeoutError):
            async with asyncio.timeout_at(moment):
                await self.stop.wait()


class Client(asyncio.Protocol):
    """One request over one connection; the first bytes of its response have the status."""

    def __init__(self, arrivals: Arrivals, method: str, number: int, host: str) -> None:
        self.method = method
        self.request_id = f"{method}-{number}"
        self._arrivals = arrivals
        length = "content-length: 0\r\n" if method == "POST" else ""
        fields = f"host: {host}\r\nx-request-id: {self.request_id}\r\n{length}"
        self._request = f"{method} / HTTP/1.1\r\n{fields}\r\n".encode()
        self._received = b""
        self._gives_up: TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance
        loop = asyncio.get_running_loop()
        self._gives_up = loop.call_later(self._arrivals.patience, self._end, EXPIRED)
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if HEAD_END in self._received:
            self._end(self._received[9:12].decode())

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(LOST)

    def _end(self, outcome: str) -> None:
        if self._gives_up is None:
            return
        self._gives_up.cancel()
        self._gives_up = None
        self._arrivals.ended(self, outcome, self._received.decode("latin-1"))
        self._transport.close()


async def main(at: str, host: str, rate: float, patience: float, post_every: int) -> None:
    """Send requests, and execute the commands of standard input."""
    ip, port = at.split(":")
    arrivals = Arrivals(rate, patience, post_every)
    loop = asyncio.get_running_loop()
    coming = loop.create_task(arrivals.keep_coming(ip, int(port), host))
    lines = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while (line := (await lines.readline()).decode().strip()) == "live":
        print(json.dumps({"live": arrivals.live}), flush=True)
    arrivals.stop.set()
    await coming
    if line == "end":
        print(json.dumps(await arrivals.report()), flush=True)


if __name__ == "__main__":
    raise_file_limit()
    _, at, host, *numbers = sys.argv
    uvloop.run(main(at, host, float(numbers[0]), float(numbers[1]), int(numbers[2])))
