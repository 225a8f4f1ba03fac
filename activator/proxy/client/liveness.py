"""Whether a client is there that the loop does not report on.

The loop reports nothing while we do not read from a client, or once the client has ended its
sending side. Then we query the kernel now and then (``transport.peer_socket``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf
from typing import final

from activator.proxy.exchange.exchange import Exchange
from activator.proxy.transport.peer_socket import ACKNOWLEDGE_WITHIN, ClientCheck, ClientState


@final
class Liveness:
    """Looks at the client of one connection in HTTP/1.

    Attributes:
        send_by: when a request is sent at the latest that waits for the client's kernel, seconds;
            infinite while none waits.
    """

    __slots__ = ("_inquiry", "_transport", "send_by")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._inquiry = ClientCheck()
        self.send_by = inf

    def restart(self) -> None:
        """Make the next looks soon."""
        self._inquiry.restart()

    def next(self, now: float) -> float:
        """Return when to look next."""
        return self._inquiry.next(now)

    def may_send(self, missing: int, ask: Callable[[], None] | None, now: float) -> bool:
        """Look right before a pod gets the request; abort the connection of a client that has left.

        Arguments:
            missing: bytes of the request that were announced and not read.
            ask: sends the client something harmless; None where nothing can be sent.
            now: the time, seconds.

        Returns:
            Whether the client is there. If not and ``send_by`` is finite, ``look`` finds out.
        """
        found = self._inquiry.before_sending(self._transport, missing, ask, now)
        if found is ClientState.GONE:
            self._transport.abort()
        elif found is ClientState.PENDING:
            self.send_by = now + ACKNOWLEDGE_WITHIN
            self._inquiry.hurry()
        return found is ClientState.HERE

    def look(
        self, exchange: Exchange, missing: int, ask: Callable[[], None] | None, now: float
    ) -> float:
        """Look once: abort the connection of a client that has left, or resume a request that
        waited for the client's kernel.

        Arguments:
            exchange: the one that runs; the others are those of ``may_send``.

        Returns:
            When to look next.
        """
        inquiry, transport = self._inquiry, self._transport
        if inquiry.is_over(transport, missing, ask, now):
            transport.abort()
            return inf
        if self.send_by < inf and (now >= self.send_by or inquiry.is_acknowledged(transport)):
            self.send_by = inf
            inquiry.restart()
            exchange.resume(now)
        return inquiry.next(now)
