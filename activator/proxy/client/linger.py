"""Closes a connection whose request was not read completely (RFC 9112 section 9.6).

If the activator closed it at once, the kernel would reset the connection because of unread bytes.
The reset may destroy the response before the client has read it. So the activator closes only its
sending side, and discards input for a short time. Beyond a limit it stops reading: the client
cannot send more, and reads the response. Go's server waits too (rstAvoidanceDelay in
net/http/server.go).
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol, final

#: Bytes that are read and discarded at most.
MAX_BYTES: Final = 64 << 10
#: Seconds after which the connection closes in any case.
MAX_SECONDS: Final = 2.0


class ConnectionOwner(Protocol):
    """The object that handled the connection before."""

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""


@final
class Linger:
    """A protocol that reads and discards input until the connection closes.

    Arguments:
        handler: its ``connection_lost`` is called when the connection is lost.
    """

    def __init__(self, handler: ConnectionOwner, transport: asyncio.Transport) -> None:
        self._owner = handler
        self._transport = transport
        self._left = MAX_BYTES
        transport.resume_reading()
        if transport.can_write_eof():
            transport.write_eof()
        self._timer = asyncio.get_running_loop().call_later(MAX_SECONDS, transport.close)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol; never called, since the connection exists already."""

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        self._left -= len(data)
        if self._left < 0:
            self._transport.pause_reading()

    def pause_writing(self) -> None:
        """See asyncio.Protocol."""

    def resume_writing(self) -> None:
        """See asyncio.Protocol."""

    def eof_received(self) -> bool:
        """See asyncio.Protocol."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self._timer.cancel()
        self._owner.connection_lost(exc)
