"""Finds out whether a client is still there while the loop cannot report it.

The loop reports nothing while reading pauses, or once the client has ended its sending side. Then
this module queries the kernel now and then (``transport.peer_socket``).
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
    """The check of the client of one HTTP/1 connection.

    Attributes:
        send_by: the latest time to send a request that waits for the client's kernel, seconds;
            infinite while none waits.
    """

    __slots__ = ("_inquiry", "_transport", "send_by")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._inquiry = ClientCheck()
        self.send_by = inf

    def restart(self) -> None:
        """Begin again with short pauses between checks."""
        self._inquiry.restart()

    def next(self, now: float) -> float:
        """Return when to check next, seconds."""
        return self._inquiry.next(now)

    def may_send(self, missing: int, send_interim: Callable[[], None] | None, now: float) -> bool:
        """Check the client right before a pod gets the request; abort if the client has left.

        Arguments:
            missing: bytes of the request's body that were announced and not read.
            send_interim: sends the client an interim response, which a closed client rejects; None
                if none may be sent.
            now: seconds.

        Returns:
            Whether the client is known to be there. If not and ``send_by`` is finite, ``check``
            finds out later.
        """
        found = self._inquiry.before_sending(self._transport, missing, send_interim, now)
        if found is ClientState.GONE:
            self._transport.abort()
        elif found is ClientState.PENDING:
            self.send_by = now + ACKNOWLEDGE_WITHIN
            self._inquiry.hurry()
        return found is ClientState.HERE

    def check(
        self, exchange: Exchange, missing: int, send_interim: Callable[[], None] | None, now: float
    ) -> float:
        """Check the client: abort if it has left, or resume a request that waits for its kernel.

        Arguments:
            exchange: the current exchange.
            missing, send_interim, now: as for ``may_send``.

        Returns:
            When to check next, seconds.
        """
        inquiry, transport = self._inquiry, self._transport
        if inquiry.is_over(transport, missing, send_interim, now):
            transport.abort()
            return inf
        if self.send_by < inf and (now >= self.send_by or inquiry.is_acknowledged(transport)):
            self.send_by = inf
            inquiry.restart()
            exchange.resume(now)
        return inquiry.next(now)
