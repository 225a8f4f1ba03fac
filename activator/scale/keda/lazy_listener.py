"""Opens KEDA's port without grpcio, which takes 10 MiB that most clusters never need.

The first connection starts the gRPC server at the same address. The bytes of that connection are
copied to the server, so its client notices nothing; later ones go to the server itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Awaitable, Callable
from typing import Final, final

logger = logging.getLogger(__name__)

_READ: Final = 64 << 10
#: The own address that leads to a listener on all addresses.
_LOCAL: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}

#: Seconds until a server that could not start is started again.
RETRY: Final = 1.0

_Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class NotStarted(Exception):
    """The server cannot start now; the text says why."""


@final
class LazyListener:
    """Listens until the first connection, then starts the server.

    Arguments:
        sock: a listening socket; this object closes it.
        start: starts the server at a host and a port; raises NotStarted or OSError if it cannot.
    """

    def __init__(self, sock: socket.socket, start: Callable[[str, int], Awaitable[object]]) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._start = start

    async def run(self) -> None:
        """Wait for the first connection, and serve it until it ends or this task is cancelled."""
        try:
            first, _ = await asyncio.get_running_loop().sock_accept(self._sock)
        finally:
            host, port = self._sock.getsockname()[:2]
            # The server binds the same address.
            self._sock.close()
        client = await asyncio.open_connection(sock=first)
        try:
            await self._begin(host, port)
            server = await asyncio.open_connection(_LOCAL.get(host, host), port)
            try:
                await _join(client, server)
            finally:
                await _close(server[1])
        except OSError as error:
            logger.debug("the first connection ended: %s", error)
        finally:
            await _close(client[1])

    async def _begin(self, host: str, port: int) -> None:
        """Start the server. Try again until it starts: nothing else listens at the address."""
        before = ""
        while True:
            try:
                await self._start(host, port)
                return
            except (NotStarted, OSError) as error:
                if str(error) != before:
                    before = str(error)
                    logger.warning("cannot serve KEDA: %s; trying again every %g s", error, RETRY)
            await asyncio.sleep(RETRY)


async def _join(one: _Stream, other: _Stream) -> None:
    """Copy bytes both ways until one side closes."""
    copies = [
        asyncio.ensure_future(_copy(one[0], other[1])),
        asyncio.ensure_future(_copy(other[0], one[1])),
    ]
    try:
        await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for copy in copies:
            copy.cancel()
        await asyncio.gather(*copies, return_exceptions=True)


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_READ):
        writer.write(data)
        await writer.drain()
