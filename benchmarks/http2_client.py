"""Clients of HTTP/2 whose requests differ: ``python -m benchmarks.http2_client``, see `main`.

h2load repeats one header block, and no ingress does: a request id, a path and a trace are new with
every request. Everything is encoded before the first connection opens, so that little CPU is taken
from what is measured. Tells ``ready``; sends on a line from standard input; then tells how many
answers came and within what time. Each line is JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from itertools import islice
from time import monotonic
from typing import cast

import uvloop

from benchmarks.http2_requests import (
    BEGIN,
    DATA,
    END_STREAM,
    HEADERS,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    SETTINGS_ACK,
    cut,
    requests,
)

#: The first byte of a block that says 200; ours have a table size update before the first.
STATUS_200 = (b"\x88", b"\x20\x88")


class Client(asyncio.Protocol):
    """One connection with so many requests on their way at all times.

    Attributes:
        answers: those that were 200 and came to their end.
    """

    def __init__(self, frames: list[bytes], done: asyncio.Event) -> None:
        self._left = iter(frames)
        self._awaited = len(frames)
        self._done = done
        self._held = b""
        self._good: set[int] = set()
        self.answers = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance
        self._transport.write(PREFACE + BEGIN)

    def send(self, count: int) -> None:
        """Sends so many of the requests that are left."""
        self._transport.write(b"".join(islice(self._left, count)))

    def data_received(self, data: bytes) -> None:
        frames, self._held = cut(self._held + data)
        ended = sum([self._take(*frame) for frame in frames])
        if ended:
            self.send(ended)
            self._awaited -= ended
            if not self._awaited:
                self._done.set()

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> bool:
        """Takes a frame; returns whether an answer ends with it."""
        if kind == SETTINGS and not flags:
            self._transport.write(SETTINGS_ACK)
        head = kind == HEADERS and payload.startswith(STATUS_200)
        if head:
            self._good.add(stream)
        ends = kind == RST_STREAM or (kind in (DATA, HEADERS) and bool(flags & END_STREAM))
        if ends and stream in self._good:
            self._good.remove(stream)
            # A failure of gRPC is 200 as well: one section, and nothing behind it.
            self.answers += kind != RST_STREAM and not head
        return ends

    def connection_lost(self, exc: Exception | None) -> None:
        self._done.set()


async def main(address: str, host: str, kind: str, *counts: int) -> None:
    """Do it.

    Arguments:
        address: ``ip:port``; host: what requests ask for.
        kind: see `http2_requests.KINDS`.
        counts: of connections, of requests on their way on each, of all requests on each.
    """
    connections, streams, count = counts
    made = [list(islice(requests(kind, host.encode(), n), count)) for n in range(connections)]
    ip, port = address.rsplit(":", 1)
    loop = asyncio.get_running_loop()
    clients: list[Client] = []
    waiting: list[asyncio.Event] = []
    for frames in made:
        done = asyncio.Event()
        client = Client(frames, done)
        await loop.create_connection(lambda client=client: client, ip, int(port))  # type: ignore[misc] # mypy knows no lambda's default
        clients.append(client)
        waiting.append(done)
    print(json.dumps("ready"), flush=True)
    await loop.run_in_executor(None, sys.stdin.readline)
    began = monotonic()
    for client in clients:
        client.send(streams)
    for done in waiting:
        await done.wait()
    answers = sum(client.answers for client in clients)
    print(json.dumps({"answers": answers, "seconds": monotonic() - began}), flush=True)


if __name__ == "__main__":
    where, asked, sent = sys.argv[1:4]
    uvloop.run(main(where, asked, sent, *map(int, sys.argv[4:])))
