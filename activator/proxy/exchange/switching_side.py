"""Declares an HTTP/1 connection whose protocol changes; ``tunnel`` takes it over."""

from __future__ import annotations

import asyncio
from typing import Protocol

from activator.proxy.message.response import Response
from activator.proxy.transport.peer_socket import Peer, UnreadBytes


class SwitchingSide(Protocol):
    """An HTTP/1 connection whose protocol changes: of a client, or to a pod."""

    def switch(self, response: Response, added_lines: bytes) -> None:
        """Pass on the pod's 101."""

    def take_over(self) -> tuple[asyncio.Transport, bytes]:
        """Hand the connection over to the tunnel.

        Returns:
            The transport, and the bytes that arrived behind the head.
        """

    def is_stopped(self) -> bool:
        """Return whether bytes wait because the peer does not read."""

    def unread_bytes(self) -> UnreadBytes:
        """Return the count of bytes that peers do not read."""

    def who(self) -> tuple[Peer, str]:
        """Return the side and the address of the peer."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Release the connection; see asyncio.Protocol."""
