"""The end of a connection whose request was not read to its end (RFC 9112 section 9.6).

Closing at once makes the kernel answer the unread bytes with a reset, which may destroy the
answer before the client has read it. So the sending side is closed, and what still comes is
thrown away: for a short time and a bounded number of bytes.
"""

from __future__ import annotations

import asyncio

#: Bytes and seconds after which the connection is closed whatever comes.
MAX_BYTES = 64 << 10
MAX_SECONDS = 2.0


class Linger(asyncio.Protocol):
    """Reads and forgets.

    Arguments:
        downstream: whose connection it is; is told when that is lost.
    """

    def __init__(self, downstream: asyncio.BaseProtocol, transport: asyncio.Transport) -> None:
        self._downstream = downstream
        self._transport = transport
        self._left = MAX_BYTES
        transport.resume_reading()
        if transport.can_write_eof():
            transport.write_eof()
        self._timer = asyncio.get_running_loop().call_later(MAX_SECONDS, transport.close)

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        self._left -= len(data)
        if self._left < 0:
            self._transport.close()

    def eof_received(self) -> bool:
        """See asyncio.Protocol."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self._timer.cancel()
        self._downstream.connection_lost(exc)
