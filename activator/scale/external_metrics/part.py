"""Publishes decisions to HPAs, and listens for the API server that reads them; off by default."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import final

from activator.scale.external_metrics.self_signed import self_signed
from activator.scale.listeners import http_server
from activator.scale.part import Part, PartContext
from activator.scale.publishing.board import Board
from activator.scale.settings import ScaleSettings
from activator.tls.certificates import CertificateError
from activator.tls.files import FileTls, TlsFileError, tls_files
from activator.tls.files import context as tls_context


@final
class ExternalMetricsPart(Board):
    """Publishes decisions to HPAs, and serves ``external.metrics.k8s.io``."""

    def __init__(self, context: PartContext, port: int) -> None:
        super().__init__(context.loads, context.clock)
        self._context = context
        self._port = port

    @asynccontextmanager
    async def listeners(self) -> AsyncIterator[Mapping[str, str]]:
        from activator.scale.external_metrics.application import create_app

        settings = self._context.settings
        tls = await asyncio.to_thread(server_tls, settings)
        sock = http_server.listen(settings.bind, self._port, "--external-metrics-port")
        app = create_app(self, self._context.is_leader)
        async with http_server.serving(app, sock, tls):
            yield {"external-metrics": http_server.address(sock)}


def make(context: PartContext) -> Part:
    """Return the part that serves ``external.metrics.k8s.io``; an empty one if it is off."""
    port = context.settings.external_metrics_port
    return Part() if port is None else ExternalMetricsPart(context, port)


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
