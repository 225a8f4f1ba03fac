"""An answer of an API server as it comes out of aiohttp, and the socket below it.

Turns aiohttp's many errors into one. It must not know what is asked, nor of whom.
aiohttp comes with kubernetes_asyncio and is as costly to import, so it is only imported in use.
"""

from __future__ import annotations

import ipaddress
import logging
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
        # The other form, a date, is not used by API servers.
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
    """Lets the kernel find out that the peer is gone. A short answer has no socket any more."""
    connection = response.connection
    transport = connection.transport if connection else None
    sock = transport.get_extra_info("socket") if transport else None
    if sock is None:
        return
    try:
        find_dead(sock, SocketKind.API_SERVER)
    except OSError:
        # The inactivity limit finds a dead peer too, only later.
        logger.debug("no TCP keepalive on this connection", exc_info=True)


def environment_proxy(url: str) -> str | None:
    """The proxy that ``HTTPS_PROXY`` and its like name for a URL, as Go reads them.

    Python's own reading knows no address ranges in ``NO_PROXY``, which clusters are full of.

    Arguments:
        url: where requests go.

    Returns:
        The proxy's URL, or None where requests go directly; always so to loopback addresses.
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
            continue  # a name, which others judge
    return False


def describe(error: BaseException) -> str:
    """An error in a few words; some have no text of their own."""
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
