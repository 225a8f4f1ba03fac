"""A client's connection until it is encrypted: counted from its first moment, given up in time.

The loop's own listeners for TLS tell nobody of a connection before its handshake is over: who
sends nothing would hold files that no bound counts. Knows no HTTP.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Coroutine
from typing import Protocol, cast

#: Seconds for a TLS handshake with a client; whoever sends nothing holds no file for longer.
HANDSHAKE_TIMEOUT = 10.0
#: Seconds for a client to take the rest of its last answer, and to answer the end of TLS.
SHUTDOWN_TIMEOUT = 60.0


class Gate(Protocol):
    """Who bounds the connections.

    Attributes:
        handshakes: how many are under way; counted here.
    """

    handshakes: int

    def has_room(self) -> bool:
        """Whether one more connection may be open."""


class Handshake(asyncio.Protocol):
    """One connection; the protocol that ``make`` returns takes it over when it is encrypted.

    Arguments:
        start: runs a coroutine and holds on to its task.
    """

    def __init__(
        self,
        make: Callable[[], asyncio.Protocol],
        context: ssl.SSLContext,
        gate: Gate,
        start: Callable[[Coroutine[None, None, None]], object],
    ) -> None:
        self._make = make
        self._context = context
        self._gate = gate
        self._start = start
        # What the client sent right behind its part of the handshake.
        self._early = bytearray()
        self._lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        plain = cast(asyncio.Transport, transport)
        if not self._gate.has_room():
            plain.abort()
            return
        plain.pause_reading()
        self._gate.handshakes += 1
        self._start(self._shake(plain))

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        self._early += data

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self._lost = True

    async def _shake(self, plain: asyncio.Transport) -> None:
        try:
            secure = await asyncio.get_running_loop().start_tls(
                plain,
                self,
                self._context,
                server_side=True,
                ssl_handshake_timeout=HANDSHAKE_TIMEOUT,
                ssl_shutdown_timeout=SHUTDOWN_TIMEOUT,
            )
        except OSError:  # it is no TLS, or not ours, or late, or the client has left
            plain.abort()
            return
        except asyncio.CancelledError:
            plain.abort()
            raise
        finally:
            self._gate.handshakes -= 1
        if secure is None or self._lost:
            plain.abort()
            return
        protocol = self._make()
        secure.set_protocol(protocol)
        protocol.connection_made(secure)
        if self._early:
            protocol.data_received(bytes(self._early))
