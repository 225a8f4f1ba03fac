"""Publishes decisions to KEDA, and listens for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from activator.scale.keda.lazy_listener import LazyListener, NotStarted
from activator.scale.listeners.http_server import address, listen
from activator.scale.part import Part, PartContext
from activator.scale.publishing.board import Board
from activator.tls.files import TlsFileError, tls_files

logger = logging.getLogger(__name__)


def make(context: PartContext) -> Part:
    """Return the part that serves KEDA."""
    board = Board(context.loads, context.clock)
    restarts: list[Callable[[], Coroutine[None, None, None]]] = []

    def on_stop() -> None:
        # KEDA keeps its connection, and would ask this follower until the process ends.
        for restart in restarts:
            context.start(restart())

    board.on_stop = on_stop

    @asynccontextmanager
    async def listening() -> AsyncIterator[Mapping[str, str]]:
        settings = context.settings
        names = settings.grpc_tls_cert, settings.grpc_tls_key, settings.grpc_tls_client_ca
        if (files := tls_files(*names)) is not None:
            files.read()  # an unusable file must be an error of the start
        sock = listen(settings.bind, settings.grpc_port, "--grpc-port")
        named = address(sock)
        async with AsyncExitStack() as servers:

            async def start(host: str, port: int) -> None:
                # grpcio is imported here, when KEDA needs it.
                from activator.scale.keda.listener import KedaListener, KedaListenError
                from activator.scale.keda.server import ExternalScaler

                scaler = ExternalScaler(board, lambda: context.is_leader() and board.is_open)
                listener = KedaListener(scaler, files)
                try:
                    await listener.start(host, port)
                except (KedaListenError, TlsFileError) as error:
                    raise NotStarted(str(error)) from error
                servers.push_async_callback(listener.close)
                restarts.append(listener.restart)
                logger.info("KEDA has connected: serving it on %s", named)

            waiting = context.start(LazyListener(sock, start).run())
            try:
                yield {"grpc": named}
            finally:
                waiting.cancel()
                await asyncio.gather(waiting, return_exceptions=True)
                sock.close()

    return Part(effect=board, listeners=listening)
