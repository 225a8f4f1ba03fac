"""Accepts connections on one port while files are free for them, with or without TLS.

The loop's own listeners cannot pause. uvloop's accepts all connections in one turn, and silently
closes those beyond the limit of open files. Also, it reports a TLS connection only after the
handshake. This listener leaves connections in the kernel's queue until files are free. It knows
neither HTTP nor the proxy.
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

#: Connections that are accepted in one turn of the loop; others wait for the next turn.
_PER_TURN: Final = 16
#: Seconds until a paused listener checks again, with or without a notification.
_PAUSE: Final = 0.1
#: Seconds for a TLS handshake with a client. A client that sends nothing uses a file for this long.
_HANDSHAKE_TIMEOUT = 10.0
#: Seconds for a client to read the rest of its last response, and to confirm the end of TLS.
_SHUTDOWN_TIMEOUT: Final = 60.0


class Gate(Protocol):
    """The object that decides whether a listener may accept one more connection."""

    def may_accept(self, *, secure: bool) -> bool:
        """Return whether a connection may be accepted now; if not, the kernel keeps it.

        Arguments:
            secure: whether a TLS handshake follows.
        """

    def handshake_began(self) -> None:
        """Count an accepted connection whose TLS handshake begins."""

    def handshake_failed(self) -> None:
        """Count no more a connection whose TLS handshake has failed."""

    def on_room(self, notify: Callable[[], None], *, wanted: bool) -> None:
        """Start or stop to notify a listener whenever a file may be free.

        Arguments:
            notify: called each time.
            wanted: True to start, False to stop.
        """


class Listener:
    """A listening socket of the running loop, with the two methods of a server that uvicorn calls.

    Arguments:
        sock: a listening, non-blocking socket; ``close`` closes it.
        make: returns the protocol object of a connection. With TLS, its ``connection_made`` is
            called after the handshake.
        gate: decides when to accept.
        arrivals: the tasks of accepted sockets that are no connections yet. ``close`` does not end
            them; the caller does.
        context: has the certificate for clients; None without TLS.
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
        """Accept no more connections; do nothing the second time."""
        if self._paused is not None:
            self._paused.cancel()
            self._paused = None
            self._gate.on_room(self._check, wanted=False)
        if self._sock.fileno() >= 0:
            self._loop.remove_reader(self._sock)
            self._sock.close()

    async def wait_closed(self) -> None:
        """See asyncio.Server; ``close`` leaves nothing to wait for."""

    def _accept(self) -> None:
        secure = self._context is not None
        for accepted in range(_PER_TURN):
            if not self._gate.may_accept(secure=secure):
                # After an accepted client the loop calls again at once, if more clients wait.
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
        """Leave connections to the kernel until a file may be free, or for a while."""
        self._loop.remove_reader(self._sock)
        self._paused = self._loop.call_later(_PAUSE, self._check)
        self._gate.on_room(self._check, wanted=True)

    def _check(self) -> None:
        """Accept again if the gate allows it."""
        if self._paused is None:
            return
        self._paused.cancel()
        if self._gate.may_accept(secure=self._context is not None):
            self._paused = None
            self._gate.on_room(self._check, wanted=False)
            self._loop.add_reader(self._sock, self._accept)
        else:
            self._paused = self._loop.call_later(_PAUSE, self._check)

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
            # An OSError is a failed handshake: the loop has closed the socket.
            if not isinstance(error, OSError):
                raise
