"""Publishes decisions and route objects to KEDA; opens its port without grpcio until it connects.

grpcio takes 10 MiB that most clusters never need. The first connection starts the gRPC server at
the same address. The bytes of that connection are copied to the server, so its client notices
nothing; later ones go to the server itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final, final

from activator.process.timers import cancel
from activator.scale.board import Board
from activator.scale.http_server import AddressError, address, listen
from activator.scale.keda.routes import Routes
from activator.scale.part import PartContext
from activator.tls.certificates import TlsFileError, tls_files

logger = logging.getLogger(__name__)


@final
class KedaPart(Board):
    """Publishes decisions to KEDA, and serves it.

    Attributes:
        routes: the route objects of the HTTP add-on; None without the dialect ``keda``.
    """

    def __init__(self, context: PartContext) -> None:
        super().__init__(context.loads, context.clock)
        self._context = context
        settings = context.settings
        self.routes: Routes | None = None
        if "keda" in settings.dialect:
            self.routes = Routes(context.loads, settings.interceptors, context.clock)
            self.views = self.routes.views
        self._restarts: list[Callable[[], Coroutine[None, None, None]]] = []

    def stop(self, now: float) -> None:
        """Write nothing more.

        KEDA keeps its connection, and would ask this follower until the process ends.
        """
        super().stop(now)
        if self.routes is not None:
            self.routes.release()
        for restart in self._restarts:
            self._context.start(restart())

    @asynccontextmanager
    async def listeners(self) -> AsyncIterator[Mapping[str, str]]:
        context, settings = self._context, self._context.settings
        names = settings.grpc_tls_cert, settings.grpc_tls_key, settings.grpc_tls_client_ca
        if (files := tls_files(*names)) is not None:
            files.read()  # an unusable file must be an error of the start
        sock = listen(settings.bind, settings.grpc_port, "--grpc-port")
        named = address(sock)
        async with AsyncExitStack() as servers:

            async def start(host: str, port: int) -> None:
                # grpcio is imported here, when KEDA needs it.
                from activator.scale.keda.server import ExternalScaler, KedaListener

                scaler = ExternalScaler(
                    self, lambda: context.is_leader() and self.is_open, self.routes
                )
                listener = KedaListener(scaler, files)
                await listener.start(host, port)
                servers.push_async_callback(listener.close)
                self._restarts.append(listener.restart)
                logger.info("KEDA has connected: serving it on %s", named)

            tasks = [context.start(serve_later(sock, start))]
            if self.routes is not None:
                # The polls need aiohttp, which is expensive to import.
                from activator.scale.keda.polling import poll_queues

                port, interval = settings.interceptors_port, settings.queue_interval
                polls = poll_queues(self.routes, port, interval, context.start)
                tasks.append(context.start(polls))
            try:
                yield {"grpc": named}
            finally:
                await cancel(*tasks)
                sock.close()


# -- the port before KEDA connects

_READ: Final = 64 << 10
#: The own address that leads to a listener on all addresses.
_LOCAL: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}
#: Seconds until a server that could not start is started again.
RETRY: Final = 1.0
_Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def serve_later(sock: socket.socket, start: Callable[[str, int], Awaitable[object]]) -> None:
    """Wait for the first connection, then start the server and join them until the connection ends.

    Arguments:
        sock: a listening socket, which is closed before the server starts.
        start: starts the server at a host and a port; if it cannot, it raises AddressError,
            TlsFileError or OSError.
    """
    sock.setblocking(False)
    try:
        first, _ = await asyncio.get_running_loop().sock_accept(sock)
    finally:
        host, port = sock.getsockname()[:2]
        # The server binds the same address.
        sock.close()
    client = await asyncio.open_connection(sock=first)
    try:
        await _started(host, port, start)
        server = await asyncio.open_connection(_LOCAL.get(host, host), port)
        try:
            await _join(client, server)
        finally:
            await _close(server[1])
    except OSError as error:
        logger.debug("the first connection ended: %s", error)
    finally:
        await _close(client[1])


async def _started(host: str, port: int, start: Callable[[str, int], Awaitable[object]]) -> None:
    """Start the server. Try again until it starts: nothing else listens at the address."""
    before = ""
    while True:
        try:
            await start(host, port)
            return
        except (AddressError, TlsFileError, OSError) as error:
            if str(error) != before:
                before = str(error)
                logger.warning("cannot serve KEDA: %s; trying again every %g s", error, RETRY)
        await asyncio.sleep(RETRY)


async def _join(one: _Stream, other: _Stream) -> None:
    """Copy bytes both ways until one side closes."""
    ways = (one, other), (other, one)
    copies = [asyncio.ensure_future(_copy(read, write)) for (read, _), (_, write) in ways]
    try:
        await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await cancel(*copies)


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_READ):
        writer.write(data)
        await writer.drain()
