"""One dial of the autoscaler: all addresses of its name, and the opening handshake.

Must not know frames, nor when to dial again. Knative: gorilla's default dialer, in
pkg/websocket/connection.go (knative.dev/pkg).
"""

from __future__ import annotations

import asyncio
import socket
from http import HTTPStatus
from typing import Any, Final

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus, InvalidURI
from websockets.uri import parse_uri

from activator.autoscaler.token import bearers
from activator.process.sockets import connected

#: Bytes that a peer may send at once, and per second in the long run. The autoscaler sends only
#: pongs. 256 KiB of empty pings, the most that one read returns, blocked the loop for 30 s.
BURST_BYTES: Final = 16 << 10
BYTES_PER_SECOND: Final = 4 << 10


class Dialer:
    """Dials one address, as often as the caller asks for it.

    Arguments:
        url: ``ws://host:port``.
        handshake: seconds from the dial (with name lookup) to the end of the opening handshake.
        close: seconds for the closing handshake.
        token_file: has the token for the peer; empty for none. Each dial reads it.

    Raises:
        ValueError: ``url`` is not a WebSocket URL.
    """

    def __init__(self, url: str, handshake: float, close: float, token_file: str = "") -> None:
        self._url = url
        self._token_file = token_file
        self._address = _checked(url)
        self._handshake_seconds = handshake
        self._close_seconds = close

    async def dial(self) -> ClientConnection:
        """Return a new connection.

        Raises:
            TimeoutError: the dial or the handshake took too long.
            PermissionError: the peer wants another token.
            Exception: any other cause: the look-up, the network, a peer without WebSocket.
        """
        fields = {}
        if self._token_file:
            fields["Authorization"] = bearers(self._token_file)[0].decode("latin-1")
        try:
            async with asyncio.timeout(self._handshake_seconds):
                return await self._handshake(await connected(*self._address), fields)
        except InvalidStatus as error:
            if error.response.status_code != HTTPStatus.UNAUTHORIZED:
                raise
            sent = f"the token of {self._token_file}" if self._token_file else "no token"
            raise PermissionError(f"the peer responded 401 to {sent}") from error
        except TimeoutError as error:
            raise TimeoutError("timed out during the dial or the opening handshake") from error

    async def _handshake(self, sock: socket.socket, fields: dict[str, str]) -> ClientConnection:
        return await _Connect(
            self._url,
            additional_headers=fields,
            sock=sock,
            compression=None,
            proxy=None,
            user_agent_header="activator",
            open_timeout=None,  # ``dial`` has the deadline
            close_timeout=self._close_seconds,
            create_connection=Connection,
            ping_interval=None,  # the link sends pings; the library would wait for each pong
        )


def _checked(url: str) -> tuple[str, int]:
    """Return the host and the port of a URL.

    Raises:
        ValueError: it is no WebSocket URL.
    """
    try:
        uri = parse_uri(url)
    except (InvalidURI, ValueError) as error:  # ValueError: the port is no port
        raise ValueError(
            f"the autoscaler's URL {url!r} is wrong: {error}; "
            "give one like ws://autoscaler.knative-serving.svc.cluster.local:8080"
        ) from error
    return uri.host, uri.port


class _Connect(connect):
    """A dial that treats a redirect as an error: the peer is not the autoscaler."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


class Connection(ClientConnection):
    """A connection that ends when the peer sends more than an autoscaler ever does.

    Attributes:
        flooded: whether the connection ended for that reason.
    """

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.flooded = False
        self._allowance = float(BURST_BYTES)
        self._refilled_at = self.loop.time()

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        now = self.loop.time()
        earned = (now - self._refilled_at) * BYTES_PER_SECOND
        self._allowance = min(self._allowance + earned, BURST_BYTES) - len(data)
        self._refilled_at = now
        if self._allowance < 0:
            self.flooded = True
            self.transport.abort()
        else:
            super().data_received(data)
