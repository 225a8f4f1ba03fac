"""Publishes decisions to KEDA, and listens for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import final

from activator.scale.keda.lazy_listener import LazyListener, NotStarted
from activator.scale.listeners.http_server import address, listen
from activator.scale.part import PartContext
from activator.scale.publishing.board import Board
from activator.tls.files import TlsFileError, tls_files

logger = logging.getLogger(__name__)


@final
class KedaPart(Board):
    """Publishes decisions to KEDA, and serves it."""

    def __init__(self, context: PartContext) -> None:
        super().__init__(context.loads, context.clock)
        self._context = context
        self._restarts: list[Callable[[], Coroutine[None, None, None]]] = []

    def stop(self, now: float) -> None:
        """Write nothing more.

        KEDA keeps its connection, and would ask this follower until the process ends.
        """
        super().stop(now)
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
                from activator.scale.keda.listener import KedaListener, KedaListenError
                from activator.scale.keda.server import ExternalScaler

                scaler = ExternalScaler(self, lambda: context.is_leader() and self.is_open)
                listener = KedaListener(scaler, files)
                try:
                    await listener.start(host, port)
                except (KedaListenError, TlsFileError) as error:
                    raise NotStarted(str(error)) from error
                servers.push_async_callback(listener.close)
                self._restarts.append(listener.restart)
                logger.info("KEDA has connected: serving it on %s", named)

            waiting = context.start(LazyListener(sock, start).run())
            try:
                yield {"grpc": named}
            finally:
                waiting.cancel()
                await asyncio.gather(waiting, return_exceptions=True)
                sock.close()
