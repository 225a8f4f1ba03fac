"""All clients of the mixed traffic: ``python -m benchmarks.mixed.clients WHERE [KIND …]``.

WHERE is ``IP:PORT``, or ``IP:PORT,IP:PORT`` with another address for HTTP/2. More addresses
lead to a TCP Service. The clients send until
the command ``end``. Each line on standard input is a command. ``report`` prints the outcomes so
far, see `Record.report`. ``use WHERE`` sends new connections to other addresses. ``end`` prints
the last report when all requests have ended. Reports are lines of JSON. The clients also end with
their standard input.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import count

from benchmarks.mixed import kinds
from benchmarks.mixed.http1_client import Http1, Where
from benchmarks.mixed.kinds import KINDS, Kind
from benchmarks.mixed.other_clients import Grpc, Http2, websocket
from benchmarks.mixed.record import Record, Sight
from benchmarks.process import raise_file_limit

#: Requests at a time on one connection of HTTP/2.
BATCH = 4

Send = Callable[[Where, Kind, Sight], Awaitable[None]]


class Clients:
    """All clients.

    Attributes:
        to: where new connections go: the address for HTTP/1.1, the one for HTTP/2, and all
            that lead to a TCP Service.
    """

    def __init__(self, to: Sequence[Where]) -> None:
        self.to = to
        self.record = Record()
        self._stop = asyncio.Event()
        self._seeds = count()

    def stop(self) -> None:
        """Begin no more requests."""
        self._stop.set()

    async def run(self, names: list[str]) -> None:
        """Send requests of these kinds until `stop`; return when all have ended."""
        async with asyncio.TaskGroup() as tasks:
            for kind in map(kinds.ALL_KINDS.__getitem__, names):
                for client in self._clients(kind):
                    tasks.create_task(self._repeat(kind, client))

    def _clients(self, kind: Kind) -> Iterator[Callable[[], Awaitable[object]]]:
        """Yield one function for each client; it plays one request or one batch."""
        for seed in (next(self._seeds) for _ in range(kind.clients)):
            if kind in (kinds.H2_GET, kinds.H2_TO_H1_GET, kinds.H2_TO_H1_POST):
                http2 = Http2(seed)
                send = http2.post if kind is kinds.H2_TO_H1_POST else http2.get
                yield partial(self._batch, kind, http2, send)
            elif kind in (kinds.UNARY, kinds.COUNT, kinds.CHAT):
                rpc = Grpc(seed)
                by_kind = {kinds.UNARY: rpc.unary, kinds.COUNT: rpc.count, kinds.CHAT: rpc.chat}
                yield partial(self._batch, kind, rpc, by_kind[kind])
            elif kind is kinds.WEBSOCKET:
                yield partial(self._one, kind, websocket)
            elif kind is kinds.TCP:
                yield partial(self._connection, kind, Http1(seed))
            else:
                yield partial(self._one, kind, self._http1(kind, seed))

    def _http1(self, kind: Kind, seed: int) -> Send:
        http1 = Http1(seed, slow=kind is kinds.SLOW_READER)
        by_kind = {
            kinds.GET_ONCE: http1.get_once,
            kinds.POST: http1.post,
            kinds.COLD_POST: http1.post,
            kinds.SLOW_READER: http1.download,
            kinds.LEAVER: http1.leave,
            kinds.EVENTS: http1.events,
            kinds.SCALED_GET: http1.scaled_get,
            kinds.SCALED_POST: http1.scaled_post,
        }
        return by_kind.get(kind, http1.get)

    async def _one(self, kind: Kind, send: Send) -> None:
        await self.record.attempt(kind, lambda sight: send(self.to[0], kind, sight))

    async def _connection(self, kind: Kind, client: Http1) -> None:
        await self.record.attempt(kind, lambda sight: client.converse(self.to[2:], kind, sight))

    async def _stream(self, kind: Kind, send: Send) -> None:
        await self.record.attempt(kind, lambda sight: send(self.to[1], kind, sight))

    async def _batch(self, kind: Kind, client: Http2 | Grpc, send: Send) -> None:
        await client.use(self.to[1])
        await asyncio.gather(*(self._stream(kind, send) for _ in range(BATCH)))

    async def _repeat(self, kind: Kind, play: Callable[[], Awaitable[object]]) -> None:
        while not self._stop.is_set():
            await play()
            with suppress(TimeoutError):
                async with asyncio.timeout(kind.pause):
                    await self._stop.wait()


def where(text: str) -> Where:
    """Return an address from ``IP:PORT``."""
    ip, port = text.split(":")
    return ip, int(port)


def addresses(text: str) -> Sequence[Where]:
    """Return the addresses of WHERE; one address is for HTTP/1.1 and HTTP/2."""
    found = [where(each) for each in text.split(",")]
    return found if len(found) > 1 else found * 2


async def main(to: str, *names: str) -> None:
    """Do what the lines on standard input say."""
    clients = Clients(addresses(to))
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    running = loop.create_task(clients.run(list(names or KINDS)))
    while (words := (await lines.readline()).decode().split()) and words[0] != "end":
        if words[0] == "use":
            clients.to = addresses(words[1])
        else:
            print(json.dumps(clients.record.report()), flush=True)
    if not words:  # the parent is gone
        running.cancel()
        return
    clients.stop()
    await running
    print(json.dumps(clients.record.report()), flush=True)


if __name__ == "__main__":
    raise_file_limit()
    asyncio.run(main(*sys.argv[1:]))
