"""Hands a client's HTTP/1 connection over to a tunnel when its protocol changes."""

from __future__ import annotations

import asyncio
from typing import Protocol, final

from activator.proxy.message.response import Response, switching_head
from activator.proxy.transport.peer_socket import Peer, UnreadBytes


class Switched(Protocol):
    """The client's connection."""

    def write(self, data: bytes) -> None:
        """Send bytes to the client."""

    def take_ahead(self) -> bytes:
        """Return the bytes behind the request. From now on the tunnel reads."""

    def is_full(self) -> bool:
        """Return whether bytes wait because the client does not read."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Release the connection; see asyncio.Protocol."""


@final
class Http1Switch:
    """The client's sides.SwitchingSide.

    Arguments:
        client: the connection.
        transport: its transport.
        unread: the count of bytes that peers do not read.
        peer: the client's ``ip:port``.
    """

    __slots__ = ("_client", "_peer", "_transport", "_unread")

    def __init__(
        self, client: Switched, transport: asyncio.Transport, unread: UnreadBytes, peer: str
    ) -> None:
        self._client = client
        self._transport = transport
        self._unread = unread
        self._peer = peer

    def switch(self, response: Response, added_lines: bytes) -> None:
        """See SwitchingSide."""
        self._client.write(switching_head(response, added_lines))

    def take_over(self) -> tuple[asyncio.Transport, bytes]:
        """See SwitchingSide."""
        return self._transport, self._client.take_ahead()

    def is_stopped(self) -> bool:
        """See SwitchingSide."""
        return self._client.is_full()

    def unread_bytes(self) -> UnreadBytes:
        """See SwitchingSide."""
        return self._unread

    def who(self) -> tuple[Peer, str]:
        """See SwitchingSide."""
        return Peer.CLIENT, self._peer

    def connection_lost(self, exc: Exception | None) -> None:
        """See SwitchingSide."""
        self._client.connection_lost(exc)
