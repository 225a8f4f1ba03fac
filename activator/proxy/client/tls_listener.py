"""A listening port: accepts connections as long as there are files for them, with or without TLS.

The loop's own listeners cannot be paused. uvloop's accepts whatever has come in one turn, and
closes without a word what comes when the process has no file left; and it names no connection of
TLS before its handshake is over. This one leaves connections to the kernel, which queues them,
until there is room. Knows no HTTP and no proxy.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Final, Protocol

from activator.process.logs import Repeats
from activator.process.tasks import Tasks

logger = logging.getLogger(__name__)

#: Connections that are accepted in one turn of the loop; the rest is in the next.
_PER_TURN: Final = 16
#: Seconds until a listener that pauses looks again, with or without a notification.
_PAUSE: Final = 0.1
#: Seconds for a TLS handshake with a client; a client that sends nothing holds no file for longer.
_HANDSHAKE_TIMEOUT = 10.0
#: Seconds for a client to take the rest of its last answer, and to answer the end of TLS.
_SHUTDOWN_TIMEOUT: Final = 60.0


class Gate(Protocol):
    """Decides whether there is room for one more connection."""

    def may_accept(self, *, secure: bool) -> bool:
        """Return whether one may be accepted now; if not, the kernel keeps it."""

    def handshake_began(self) -> None:
        """A connection has been accepted whose TLS handshake is still to come."""

    def handshake_failed(self) -> None:
        """It came to no connection."""

    def on_room(self, wake: Callable[[], None], *, wanted: bool) -> None:
        """A connection waits: call ``wake`` whenever there may be room; or it waits no more."""


class Listener:
    """A listening socket of the running loop, as much of a server as uvicorn has a use for.

    Arguments:
        sock: listens, and does not block; closed by ``close``.
        make: returns the protocol object of a connection. Over TLS its ``connection_made`` is
            called when the handshake is over.
        gate: decides when to accept.
        arrivals: holds what has been accepted and is no connection yet. They outlive ``close``;
            the caller ends them.
        context: the certificate that clients are shown; None without TLS.
    """

    def __init__(
        self,
        sock: socket.socket,
        make: Callable[[], asyncio.Protocol],
        gate: Gate,
        arrivals: Tasks,
        context: ssl.SSLContext | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._sock = sock
        self._make = make
        self._gate = gate
        self._arrivals = arrivals
        self._context = context
        self._paused: asyncio.TimerHandle | None = None
        self._repeats = Repeats()
        self._loop.add_reader(self._sock, self._accept)

    def close(self) -> None:
        """Accept no more; does nothing the second time."""
        if self._paused is not None:
            self._paused.cancel()
            self._paused = None
            self._gate.on_room(self._look, wanted=False)
        if self._sock.fileno() >= 0:
            self._loop.remove_reader(self._sock)
            self._sock.close()

    async def wait_closed(self) -> None:
        """See asyncio.Server; ``close`` leaves nothing to wait for."""

    def _accept(self) -> None:
        secure = self._context is not None
        for accepted in range(_PER_TURN):
            if not self._gate.may_accept(secure=secure):
                # The loop calls again at once, if more clients wait behind those of this turn.
                if not accepted:
                    self._pause()
                return
            try:
                client, _ = self._sock.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                if self._repeats.admit("accept", self._loop.time()) is not None:
                    logger.warning("cannot accept connections: %s", error.strerror or error)
                self._pause()
                return
            client.setblocking(False)
            if secure:
                self._gate.handshake_began()
            self._arrivals.start(self._shake(client) if secure else self._join(client))

    def _pause(self) -> None:
        """Leave connections to the kernel until there may be room, or for a while."""
        self._loop.remove_reader(self._sock)
        self._paused = self._loop.call_later(_PAUSE, self._look)
        self._gate.on_room(self._look, wanted=True)

    def _look(self) -> None:
        """Go on if there is room."""
        if self._paused is None:
            return
        self._paused.cancel()
        if self._gate.may_accept(secure=self._context is not None):
            self._paused = None
            self._gate.on_room(self._look, wanted=False)
            self._loop.add_reader(self._sock, self._accept)
        else:
            self._paused = self._loop.call_later(_PAUSE, self._look)

    async def _join(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError):  # the client has left: the loop has closed it
            await self._loop.connect_accepted_socket(self._make, client)

    async def _shake(self, client: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(
                self._make,
                client,
                ssl=self._context,
                ssl_handshake_timeout=_HANDSHAKE_TIMEOUT,
                ssl_shutdown_timeout=_SHUTDOWN_TIMEOUT,
            )
        except BaseException as error:
            self._gate.handshake_failed()
            # It is no TLS, or not ours, or late, or the client has left: the loop has closed it.
            if not isinstance(error, OSError):
                raise
