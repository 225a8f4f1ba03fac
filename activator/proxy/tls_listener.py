"""A port for TLS: accepts connections and counts their handshakes from the first moment.

The loop's own listeners tell nobody of a connection before its handshake is over: who sends nothing
would hold files that no bound counts. Knows no HTTP and no proxy.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable

from activator.logs import Repeats
from activator.tasks import Tasks

logger = logging.getLogger(__name__)

#: Connections that are accepted in one turn of the loop, 0.1 ms each; the rest is in the next.
_PER_TURN = 16
#: Seconds without accepting once the kernel has no file or memory for it (asyncio's).
_PAUSE = 1.0
#: Seconds for a TLS handshake with a client; whoever sends nothing holds no file for longer.
_HANDSHAKE_TIMEOUT = 10.0
#: Seconds for a client to take the rest of its last answer, and to answer the end of TLS.
_SHUTDOWN_TIMEOUT = 60.0


class TlsListener:
    """A listening socket of the running loop, as much of a server as uvicorn has a use for.

    Arguments:
        sock: listens, and does not block; closed by ``close``.
        context: what clients are shown.
        make: returns the protocol object of a connection, which first hears of it when it is
            encrypted.
        admit: whether a connection may begin TLS; it is closed at once if not.
        handshakes: holds those under way. They outlive ``close``; the caller ends them.
    """

    def __init__(
        self,
        sock: socket.socket,
        context: ssl.SSLContext,
        make: Callable[[], asyncio.Protocol],
        admit: Callable[[], bool],
        handshakes: Tasks,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._sock = sock
        self._context = context
        self._make = make
        self._admit = admit
        self._handshakes = handshakes
        self._paused: asyncio.TimerHandle | None = None
        self._repeats = Repeats()
        self._listen()

    def close(self) -> None:
        """Accept no more; does nothing the second time."""
        if self._paused is not None:
            self._paused.cancel()
        if self._sock.fileno() >= 0:
            self._loop.remove_reader(self._sock)
            self._sock.close()

    async def wait_closed(self) -> None:
        """See asyncio.Server; ``close`` leaves nothing to wait for."""

    def _listen(self) -> None:
        self._paused = None
        self._loop.add_reader(self._sock, self._accept)

    def _accept(self) -> None:
        for _ in range(_PER_TURN):
            try:
                client, _ = self._sock.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause(error)
                return
            if self._admit():
                client.setblocking(False)
                self._handshakes.start(self._shake(client))
            else:
                client.close()

    def _pause(self, error: OSError) -> None:
        """Leave connections to the kernel for a while: trying again would fail at every turn."""
        self._loop.remove_reader(self._sock)
        self._paused = self._loop.call_later(_PAUSE, self._listen)
        if self._repeats.admit("accept", self._loop.time()) is not None:
            logger.warning("cannot accept connections over TLS: %s", error.strerror or error)

    async def _shake(self, client: socket.socket) -> None:
        # It is no TLS, or not ours, or late, or the client has left: the loop has closed it.
        with contextlib.suppress(OSError):
            await self._loop.connect_accepted_socket(
                self._make,
                client,
                ssl=self._context,
                ssl_handshake_timeout=_HANDSHAKE_TIMEOUT,
                ssl_shutdown_timeout=_SHUTDOWN_TIMEOUT,
            )
