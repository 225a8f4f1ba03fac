"""HTTP/2 clients whose requests differ: ``python -m benchmarks.http2_client``, see `main`.

h2load repeats one header block, but an ingress does not: path, request id and trace change with
each request. All requests are encoded before the first connection opens, so that the client uses
little CPU. It prints ``ready``, sends on a line from standard input, and then prints the number of
responses and their time. Each line is JSON.
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

#: The first byte of a block with status 200. The activator's first block begins with a table size
#: update.
STATUS_200 = (b"\x88", b"\x20\x88")


class Client(asyncio.Protocol):
    """One connection with a constant number of requests in flight.

    Attributes:
        complete: complete responses with status 200.
    """

    def __init__(self, frames: list[bytes], done: asyncio.Event) -> None:
        self._left = iter(frames)
        self._awaited = len(frames)
        self._done = done
        self._held = b""
        self._good: set[int] = set()
        self.complete = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance
        self._transport.write(PREFACE + BEGIN)

    def send(self, count: int) -> None:
        """Send so many of the remaining requests."""
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
        """Take a frame; return whether it ends a response."""
        if kind == SETTINGS and not flags:
            self._transport.write(SETTINGS_ACK)
        head = kind == HEADERS and payload.startswith(STATUS_200)
        if head:
            self._good.add(stream)
        ends = kind == RST_STREAM or (kind in (DATA, HEADERS) and bool(flags & END_STREAM))
        if ends and stream in self._good:
            self._good.remove(stream)
            # A gRPC error has status 200 too: it is a header section without data.
            self.complete += kind != RST_STREAM and not head
        return ends

    def connection_lost(self, exc: Exception | None) -> None:
        self._done.set()


async def main(address: str, host: str, kind: str, *counts: int) -> None:
    """Connect, send and print the result.

    Arguments:
        address: ``ip:port``; host: the authority of the requests.
        kind: see `http2_requests.KINDS`.
        counts: connections, requests in flight on each, and all requests of each.
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
    answers = sum(client.complete for client in clients)
    print(json.dumps({"answers": answers, "seconds": monotonic() - began}), flush=True)


if __name__ == "__main__":
    where, asked, sent = sys.argv[1:4]
    uvloop.run(main(where, asked, sent, *map(int, sys.argv[4:])))
