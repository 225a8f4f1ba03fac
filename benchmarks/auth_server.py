"""Two authorization servers: ``python -m benchmarks.auth_server``.

The first one allows each request at once. The second one accepts connections, and never responds.
The process prints a line of JSON with their ports when it listens.
"""

from __future__ import annotations

import asyncio
from typing import cast

import uvloop

from benchmarks.pod import BACKLOG, HEAD_END
from benchmarks.slow_pod import emit

_RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Auth-User: ann\r\n\r\nok"


class Connection(asyncio.Protocol):
    """One connection; requests have no body."""

    def __init__(self) -> None:
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance

    def data_received(self, data: bytes) -> None:
        *heads, self._rest = (self._rest + data).split(HEAD_END)
        self._transport.write(len(heads) * _RESPONSE)


async def main() -> None:
    """Listen until the process ends."""
    loop = asyncio.get_running_loop()
    servers = [
        await loop.create_server(each, "127.0.0.1", 0, backlog=BACKLOG)
        for each in (Connection, asyncio.Protocol)
    ]
    emit(ports=[each.sockets[0].getsockname()[1] for each in servers])
    await asyncio.gather(*(each.serve_forever() for each in servers))


if __name__ == "__main__":
    uvloop.run(main())
