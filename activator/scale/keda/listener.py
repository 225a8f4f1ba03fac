"""Listens for KEDA: a gRPC server on one port, with or without TLS."""

from __future__ import annotations

import logging
from typing import Any, Final

import grpc

from activator.scale.keda.server import ExternalScaler, handlers
from activator.tls.files import TlsFileError, TlsFiles

logger = logging.getLogger(__name__)

#: Two scalers on one port would both respond. KEDA may send a ping every 10 s (gRPC's least), also
#: without calls. A peer that is gone must not keep its streams.
_OPTIONS: Final = (
    ("grpc.so_reuseport", 0),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
    ("grpc.max_receive_message_length", 1 << 20),
)
#: Seconds for calls under way when the server closes; streams never end by themselves.
_LAST_CALLS: Final = 0.5


class KedaListenError(Exception):
    """The address cannot be bound; the text names it."""


class KedaListener:
    """The gRPC server of a scaler.

    Arguments:
        scaler: serves the calls.
        files: the certificate; None for plain HTTP/2.
    """

    def __init__(self, scaler: ExternalScaler, files: TlsFiles | None = None) -> None:
        self._scaler = scaler
        self._files = files
        self._server: Any = None
        self._address = "", 0

    async def start(self, host: str, port: int) -> int:
        """Listen, and return the port.

        Raises:
            KedaListenError: the address is in use, or not an address of this machine.
            TlsFileError: the files cannot be used.
        """
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        server = grpc.aio.server(options=_OPTIONS)
        server.add_generic_rpc_handlers((handlers(self._scaler),))
        try:
            if self._files is None:
                bound = server.add_insecure_port(address)
            else:
                bound = server.add_secure_port(address, _credentials(self._files))
        except RuntimeError:
            bound = 0
        if not bound:
            raise KedaListenError(f"cannot listen on {address}: it is in use, or not local")
        await server.start()
        self._server, self._address = server, (host, int(bound))
        return int(bound)

    async def restart(self) -> None:
        """Close all connections, and listen again; KEDA connects to the next leader."""
        if self._server is not None:
            await self._server.stop(_LAST_CALLS)
        if self._server is not None:  # not closed meanwhile
            await self.start(*self._address)

    async def close(self) -> None:
        """Close the port and all connections; KEDA connects to the next leader."""
        server, self._server = self._server, None
        if server is not None:
            await server.stop(_LAST_CALLS)


def _credentials(files: TlsFiles) -> Any:
    """Return credentials that follow the files.

    gRPC calls ``fetch`` before each handshake, from a thread of its own.
    """
    first = _configuration(files)
    seen = files.look()

    def fetch() -> Any:
        nonlocal seen
        try:
            if (now := files.look()) == seen:
                return None
            seen = now
            return _configuration(files)
        except (OSError, TlsFileError) as error:
            logger.warning("KEDA's port: the last certificate stays in force: %s", error)
            return None

    required = files.client_ca is not None
    return grpc.dynamic_ssl_server_credentials(first, fetch, required)


def _configuration(files: TlsFiles) -> Any:
    certificate, key, client_ca = files.read()
    return grpc.ssl_server_certificate_configuration([(key, certificate)], client_ca)
