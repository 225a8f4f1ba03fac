"""Closes a connection whose request was not read completely (RFC 9112 section 9.6).

If the activator closed it at once, the kernel would reset the connection because of unread bytes.
The reset may destroy the response before the client has read it. So the activator closes only its
sending side, and discards input: some clients read the response only after their whole request.
Beyond a limit it stops reading. Go's server waits too (rstAvoidanceDelay in net/http/server.go).
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol, final

#: Bytes of a request that are discarded at most, once its response is complete.
MAX_BYTES: Final = 128 << 20
#: Seconds without such bytes after which the connection, or the stream of HTTP/2, ends.
MAX_SECONDS: Final = 2.0
#: Seconds after which it ends in any case (Knative's default for a whole request).
LONGEST_SECONDS: Final = 300.0


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
        self._moved = False
        transport.resume_reading()
        if transport.can_write_eof():
            transport.write_eof()
        self._loop = asyncio.get_running_loop()
        self._until = self._loop.time() + LONGEST_SECONDS
        self._timer = self._loop.call_later(MAX_SECONDS, self._on_time)

    def _on_time(self) -> None:
        """Close, unless bytes have arrived meanwhile and more may follow."""
        if not self._moved or self._loop.time() >= self._until:
            self._transport.close()
            return
        self._moved = False
        self._timer = self._loop.call_later(MAX_SECONDS, self._on_time)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol; never called, since the connection exists already."""

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        self._left -= len(data)
        self._moved = self._left >= 0
        if not self._moved:
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
