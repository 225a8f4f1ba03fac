"""Serves an ASGI application on one port: for probes, metrics and people, not for traffic."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from typing import Any

import uvicorn

from activator.process.quiet_server import QuietServer

#: Seconds for which responses under way may last after the end of the server.
_LAST_RESPONSES = 2


class AddressError(Exception):
    """An address cannot be bound. The text names the address, the cause and the setting."""


def listen(host: str, port: int, setting: str) -> socket.socket:
    """Return a listening socket.

    Raises:
        AddressError: the address cannot be bound.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise AddressError(
            f"cannot listen on {host} port {port} ({setting}): {error.strerror or error}"
        ) from error


@contextlib.asynccontextmanager
async def serving(
    app: Any, sock: socket.socket, tls: ssl.SSLContext | None = None
) -> AsyncIterator[None]:
    """Serve an application on a listening socket; close it at the end.

    Arguments:
        tls: presents the certificate; None for plain HTTP.
    """
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=_LAST_RESPONSES,
    )
    config.load()
    config.ssl = tls  # uvicorn itself reads files, once
    server = QuietServer(config)
    task = asyncio.create_task(server.serve([sock]))  # noqa: TID251 # awaited below
    try:
        yield
    finally:
        server.should_exit = True
        await task
        sock.close()


def address(sock: socket.socket) -> str:
    """Return the address of a listening socket, as people read it."""
    host, port = sock.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
