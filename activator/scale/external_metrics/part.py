"""Publishes decisions to HPAs, and listens for the API server that reads them; off by default."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, final

from activator.scale import http_server
from activator.scale.board import Board
from activator.scale.part import Part, PartContext
from activator.scale.settings import ScaleSettings
from activator.tls.certificates import CertificateError, FileTls, TlsFileError, tls_files
from activator.tls.certificates import context as tls_context


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
        AddressError: the files cannot be used, or no certificate can be made.
    """
    names = settings.external_metrics_tls_cert, settings.external_metrics_tls_key
    ca = settings.external_metrics_client_ca
    try:
        if (files := tls_files(*names, ca)) is not None:
            return FileTls(files).context
        host = f"activator-scale.{settings.system_namespace}.svc"
        return tls_context(*self_signed(host), client_ca=Path(ca).read_bytes() if ca else None)
    except (TlsFileError, CertificateError, OSError) as error:
        raise http_server.AddressError(f"--external-metrics-port: {error}") from error


# -- a certificate for clients that do not verify it, by the program ``openssl``
#
# Python makes no certificates, and a package for it would be in each image for this one use.

_DAYS: Final = 3650
_TIMEOUT: Final = 20.0
_CONFIG: Final = b"[req]\ndistinguished_name=names\n[names]\n"
_COMMAND: Final = (
    *("openssl", "req", "-x509", "-config", "/dev/stdin", "-nodes", "-days", str(_DAYS)),
    *("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
    *("-keyout", "/dev/stdout", "-out", "/dev/stdout"),
)
_BEGIN: Final = b"-----BEGIN CERTIFICATE-----"


def self_signed(host: str) -> tuple[bytes, bytes]:
    """Return a new certificate and its key, PEM; no file holds them.

    Arguments:
        host: the name in the certificate.

    Raises:
        TlsFileError: this machine has no ``openssl``, or it fails.
    """
    names = ("-subj", "/CN=activator-scale", "-addext", f"subjectAltName=DNS:{host}")
    try:
        ended = subprocess.run(
            [*_COMMAND, *names], input=_CONFIG, capture_output=True, timeout=_TIMEOUT, check=True
        )
    except FileNotFoundError:
        raise TlsFileError("no program openssl to make a certificate: give files") from None
    except subprocess.SubprocessError as error:
        raise TlsFileError(f"openssl made no certificate: {error}") from error
    key, begin, certificate = ended.stdout.partition(_BEGIN)
    return begin + certificate, key
