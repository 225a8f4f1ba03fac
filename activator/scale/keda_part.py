"""Publishes decisions to KEDA, and listens for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from activator.scale.board import Board
from activator.scale.http_server import ListenError
from activator.scale.part import Context, Part
from activator.scale.publishing import Publishing
from activator.scale.settings import ScaleSettings
from activator.scale.tls_files import TlsFiles


def make(context: Context) -> Part:
    """Return the part that serves KEDA."""
    board = Board(context.loads, context.clock)

    @asynccontextmanager
    async def listening() -> AsyncIterator[Mapping[str, str]]:
        # grpcio takes 10 MiB and 0.1 s, so it is imported when it is needed.
        from activator.scale.keda.listener import KedaListener, KedaListenError
        from activator.scale.keda.server import ExternalScaler

        settings = context.settings
        scaler = ExternalScaler(board, lambda: context.is_leader() and board.is_open)
        listener = KedaListener(scaler, tls_files(settings))
        try:
            port = await listener.start(settings.bind, settings.grpc_port)
        except KedaListenError as error:
            raise ListenError(f"{error} (--grpc-port)") from error
        try:
            yield {"grpc": f"{settings.bind}:{port}"}
        finally:
            await listener.close()

    return Part(effect=Publishing(board), listeners=listening)


def tls_files(settings: ScaleSettings) -> TlsFiles | None:
    """Return the files of KEDA's port; None for plain HTTP/2."""
    if not settings.grpc_tls_cert or not settings.grpc_tls_key:
        return None
    authorities = Path(settings.grpc_tls_client_ca) if settings.grpc_tls_client_ca else None
    return TlsFiles(Path(settings.grpc_tls_cert), Path(settings.grpc_tls_key), authorities)
