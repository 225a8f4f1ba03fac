"""The data ports: uvicorn's server with our protocol.

uvicorn owns sockets and connections' life; this module gives it the protocol class, and nothing
else of HTTP is uvicorn's.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Iterator
from typing import Any, cast

import uvicorn

from activator.process.keepalive import SocketKind, find_dead
from activator.process.tasks import Tasks
from activator.proxy.client.http1 import Http1Client
from activator.proxy.client.proxy import Proxy
from activator.proxy.client.tls_listener import Gate, Listener

#: Connections that the kernel keeps for us until they are accepted.
BACKLOG = 4096
#: Seconds for handshakes that are under way when the ports close.
_LAST_HANDSHAKES = 1.0


class QuietServer(uvicorn.Server):
    """uvicorn's server without its signal handlers: the process has one, in ``app``; with listeners
    that pause; and with a certificate for some of its sockets, where uvicorn has one for all or
    none. The connections of all sockets end together.

    Arguments:
        gate: decides when to accept.
        arrivals: holds what has been accepted and is no connection yet.
        pausing: whether ports without TLS need listeners that pause. The loop's own cannot, and
            take half the time per connection (measured: 57 and 115 us).

    Attributes:
        secure: by listening socket, what its clients are shown.
    """

    def __init__(
        self, config: uvicorn.Config, gate: Gate, arrivals: Tasks, *, pausing: bool = True
    ) -> None:
        self._stop = asyncio.Event()
        super().__init__(config)
        self._pausing = pausing
        self.secure: dict[socket.socket, ssl.SSLContext] = {}
        self._gate = gate
        self._arrivals = arrivals

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield

    @property
    def should_exit(self) -> bool:
        """Whether the server is to stop; setting it stops the server at once."""
        return self._stop.is_set()

    @should_exit.setter
    def should_exit(self, value: bool) -> None:
        if value:
            self._stop.set()
        else:
            self._stop.clear()

    async def main_loop(self) -> None:
        """Wait until the server is to stop.

        uvicorn wakes ten times a second for each server, to see whether it is to stop and to renew
        the Date field. Protocols of this server renew that field themselves.
        """
        await self._stop.wait()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """See uvicorn.Server."""
        ours = [sock for sock in sockets or () if self._pausing or sock in self.secure]
        await super().startup([sock for sock in sockets or () if sock not in ours])
        for sock in ours:
            context = self.secure.get(sock)
            listener = Listener(sock, self._protocol, self._gate, self._arrivals, context)
            # It has the two methods that uvicorn calls.
            self.servers.append(listener)  # type: ignore[arg-type] # see above

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """See uvicorn.Server. Who is in the middle of a handshake may bring one request."""
        for server in self.servers:
            server.close()
        await self._arrivals.finish(_LAST_HANDSHAKES)
        await super().shutdown(sockets)

    def _protocol(self) -> asyncio.Protocol:
        """Return the protocol object of a new connection."""
        # A class, but for the data ports a callable.
        make = cast(Callable[..., asyncio.Protocol], self.config.http_protocol_class)
        return make(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )


def data_server(proxy: Proxy) -> QuietServer:
    """Return the server for the data ports; ``serve(sockets=…)`` runs it until ``should_exit``,
    and then until its last connection has ended, or ``force_exit``."""

    def protocol(
        config: Any, server_state: Any, app_state: Any, _loop: object = None
    ) -> Http1Client:
        # In place of uvicorn's set: uvicorn shuts these down, and waits until none is left.
        server_state.connections = proxy.connections
        return Http1Client(proxy)

    config = uvicorn.Config(
        app=_no_application,
        # uvicorn wants a class; it calls it and no more.
        http=protocol,  # type: ignore[arg-type] # see above
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        backlog=BACKLOG,
    )
    pausing = not proxy.files.shares.roomy
    return QuietServer(config, proxy, proxy.arrivals, pausing=pausing)


async def _no_application(scope: Any, receive: Any, send: Any) -> None:
    """uvicorn's configuration demands one; our protocol calls none."""
    raise RuntimeError("the data ports have no ASGI application")


class ListenError(Exception):
    """An address cannot be had; the text says which, why, and which setting names it."""


def listen(host: str, port: int, setting: str) -> socket.socket:
    """Return a listening socket.

    Arguments:
        setting: where the port comes from, to name it in an error.

    Raises:
        ListenError: the address cannot be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol's number, or asyncio would leave Nagle's algorithm on.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        find_dead(sock, SocketKind.CLIENT)
        sock.bind((host, port))
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        reason = (error.strerror or str(error)).lower()
        raise ListenError(f"cannot listen on {where} ({setting}): {reason}") from None
    return sock
