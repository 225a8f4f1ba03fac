"""A pod with minimal CPU cost, in a separate process: ``python -m benchmarks.pod [BYTES]``.

It responds with a body of BYTES bytes, or with a greeting. A line ``IP PORT`` on standard input
starts a listener, ``-IP PORT`` stops it. The pod prints a line with the time of each, in seconds
of CLOCK_MONOTONIC, which all processes share. It counts heads instead of parsing them: requests
must be GETs without a body.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from functools import partial
from time import monotonic
from typing import cast

import uvloop

HEAD_END = b"\r\n\r\n"
HELLO = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\n\r\nhello\n"
QUEUE = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nqueue"
PROBER = b"Knative-Activator-Probe"
BACKLOG = 4096


class Connection(asyncio.Protocol):
    """One connection to the pod.

    Arguments:
        response: the response to each request that is not a probe.
    """

    def __init__(self, response: bytes) -> None:
        self._response = response

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance
        self._rest = b""

    def data_received(self, data: bytes) -> None:
        data = self._rest + data
        *heads, self._rest = data.split(HEAD_END)
        for head in heads:  # not joined: each connection would copy a large response
            self._transport.write(QUEUE if PROBER in head else self._response)


def large(size: int) -> bytes:
    """Return a response with a body of ``size`` bytes."""
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (size, bytes(size))


async def main(response: bytes) -> None:
    """Listen and stop by the lines on standard input."""
    loop = asyncio.get_running_loop()
    servers: dict[str, asyncio.Server] = {}
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := (await reader.readline()).decode().strip():
        if line.startswith("-"):
            servers.pop(line[1:]).close()
            continue
        ip, port = line.split()
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((ip, int(port)))
        listener.listen(BACKLOG)
        at = monotonic()
        servers[line] = await loop.create_server(
            partial(Connection, response), sock=listener, backlog=BACKLOG
        )
        print(at, flush=True)


if __name__ == "__main__":
    uvloop.run(main(large(int(sys.argv[1])) if sys.argv[1:] else HELLO))
