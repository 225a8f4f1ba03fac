"""Publishes decisions to HPAs, and listens for the API server that reads them; off by default."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from activator.scale.external_metrics.self_signed import self_signed
from activator.scale.listeners import http_server
from activator.scale.part import Part, PartContext
from activator.scale.publishing.board import Board
from activator.scale.settings import ScaleSettings
from activator.tls.certificates import CertificateError
from activator.tls.files import FileTls, TlsFileError, tls_files
from activator.tls.files import context as tls_context


def make(context: PartContext) -> Part:
    """Return the part that serves ``external.metrics.k8s.io``; an empty one if it is off."""
    settings = context.settings
    port = settings.external_metrics_port
    if port is None:
        return Part()
    board = Board(context.loads, context.clock)

    @asynccontextmanager
    async def listening() -> AsyncIterator[Mapping[str, str]]:
        from activator.scale.external_metrics.application import create_app

        tls = await asyncio.to_thread(server_tls, settings)
        sock = http_server.listen(settings.bind, port, "--external-metrics-port")
        async with http_server.serving(create_app(board, context.is_leader), sock, tls):
            yield {"external-metrics": http_server.address(sock)}

    return Part(effect=board, listeners=listening)


def server_tls(settings: ScaleSettings) -> ssl.SSLContext:
    """Return the TLS context of the port.

    Raises:
        ListenError: the files cannot be used, or no certificate can be made.
    """
    names = settings.external_metrics_tls_cert, settings.external_metrics_tls_key
    ca = settings.external_metrics_client_ca
    try:
        if (files := tls_files(*names, ca)) is not None:
            return FileTls(files).context
        host = f"activator-scale.{settings.system_namespace}.svc"
        return tls_context(*self_signed(host), client_ca=Path(ca).read_bytes() if ca else None)
    except (TlsFileError, CertificateError, OSError) as error:
        raise http_server.ListenError(f"--external-metrics-port: {error}") from error
