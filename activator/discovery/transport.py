"""Adapts aiohttp's responses, sockets and proxies for requests to an API server.

Turns aiohttp's many errors into one. It must not know the requests, nor the server. Importing
aiohttp costs as much as kubernetes_asyncio, so it is imported only when it is needed.
"""

from __future__ import annotations

import ipaddress
import logging
import os
import urllib.request
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from activator.discovery.wire import ConnectionLostError
from activator.process.keepalive import SocketKind, find_dead

if TYPE_CHECKING:
    import aiohttp

logger = logging.getLogger(__name__)


class AiohttpResponse:
    """Implements ``wire.Response``."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    @property
    def status(self) -> int:
        """See wire.Response."""
        return self._response.status

    @property
    def retry_after(self) -> float:
        """See wire.Response."""
        value = self._response.headers.get("Retry-After", "")
        # API servers do not use the other form, a date.
        return float(value) if len(value) < 10 and value.isascii() and value.isdigit() else 0.0

    async def read(self, limit: int) -> bytes:
        """See wire.Response."""
        body = b""
        async for chunk in self.chunks():
            body += chunk
            if len(body) >= limit:
                break
        return body[:limit]

    async def chunks(self) -> AsyncIterator[bytes]:
        """See wire.Response."""
        import aiohttp

        try:
            async for chunk in self._response.content.iter_any():
                yield chunk
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ConnectionLostError(describe(error)) from error


def keep_alive(response: aiohttp.ClientResponse) -> None:
    """Set the socket options by which the kernel finds a dead peer.

    The socket of a short response may be closed already.
    """
    connection = response.connection
    transport = connection.transport if connection else None
    sock = transport.get_extra_info("socket") if transport else None
    if sock is None:
        return
    try:
        find_dead(sock, SocketKind.API_SERVER)
    except OSError:
        # The inactivity limit also finds a dead peer, but later.
        logger.debug("no TCP keep-alive on this connection", exc_info=True)


def environment_proxy(url: str) -> str | None:
    """Return the proxy for a URL by ``HTTPS_PROXY``, ``HTTP_PROXY`` and ``NO_PROXY``, as Go does.

    Python itself knows no address ranges in ``NO_PROXY``, which are common in clusters.

    Arguments:
        url: of the server.

    Returns:
        The proxy's URL; None if requests go directly, always so for loopback addresses.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    proxies = urllib.request.getproxies_environment()
    excepted = proxies.get("no", "").split(",")
    if host == "localhost" or _is_in(host, ["127.0.0.0/8", "::1/128", *excepted]):
        return None
    if urllib.request.proxy_bypass(parts.netloc):
        return None
    return proxies.get(parts.scheme)


def _is_in(host: str, ranges: list[str]) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    for text in ranges:
        try:
            if address in ipaddress.ip_network(text.strip(), strict=False):
                return True
        except ValueError:
            continue  # a name; proxy_bypass handles names
    return False


def describe(error: BaseException) -> str:
    """Return an error as text; some errors have no text of their own.

    aiohttp's text of a refused connection is Python's, with the address twice.
    """
    cause = getattr(error, "os_error", None)  # of aiohttp.ClientConnectorError
    if isinstance(cause, (ConnectionError, TimeoutError)) and cause.errno:
        why = os.strerror(cause.errno).lower()
        return f"the API server at {error.host}:{error.port} does not respond: {why}"  # type: ignore[attr-defined]
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
