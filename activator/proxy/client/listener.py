"""Opens the data ports: uvicorn's server with the activator's own protocol.

uvicorn owns the sockets and ends connections. HTTP is the activator's: this module gives uvicorn
the protocol class.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Any, cast

import uvicorn

from activator.process.keepalive import SocketKind, find_dead
from activator.process.quiet_server import QuietServer
from activator.process.tasks import Tasks
from activator.proxy.client.http1 import Http1Client
from activator.proxy.client.proxy import Proxy
from activator.proxy.client.tls_listener import Gate, Listener
from activator.proxy.exchange.lookup import ClientPort

#: Connections that the kernel queues until they are accepted.
BACKLOG = 4096
#: Seconds for handshakes that are in progress when the ports close.
_LAST_HANDSHAKES = 1.0


class GatedServer(QuietServer):
    """uvicorn's server with two further differences.

    Its listeners can pause. Some of its sockets may have a certificate, where uvicorn has one for
    all or none. The connections of all sockets end together.

    Arguments:
        config: uvicorn's configuration.
        gate: decides when to accept.
        arrivals: the tasks of accepted sockets that are no connections yet.
        pausing: whether ports without TLS need listeners that pause. The loop's own cannot pause,
            and take half the time per connection (measured: 57 µs instead of 115 µs).

    Attributes:
        secure: the TLS context of each listening socket that has one.
    """

    def __init__(
        self, config: uvicorn.Config, gate: Gate, arrivals: Tasks, *, pausing: bool = True
    ) -> None:
        super().__init__(config)
        self._pausing = pausing
        self.secure: dict[socket.socket, ssl.SSLContext] = {}
        self._gate = gate
        self._arrivals = arrivals

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """See uvicorn.Server."""
        ours = [sock for sock in sockets or () if self._pausing or sock in self.secure]
        await super().startup([sock for sock in sockets or () if sock not in ours])
        for sock in ours:
            context = self.secure.get(sock)
            listener = Listener(sock, self._protocol, self._gate, self._arrivals, context)
            # A Listener has the two methods that uvicorn calls.
            self.servers.append(listener)  # type: ignore[arg-type] # see above

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """See uvicorn.Server. A client in the middle of a TLS handshake may send one request."""
        for server in self.servers:
            server.close()
        await self._arrivals.finish(_LAST_HANDSHAKES)
        await super().shutdown(sockets)

    def _protocol(self) -> asyncio.Protocol:
        """Return the protocol object of a new connection."""
        # uvicorn declares a class; the data ports have a function.
        make = cast(Callable[..., asyncio.Protocol], self.config.http_protocol_class)
        return make(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )


def data_server(proxy: Proxy) -> GatedServer:
    """Return the server for the data ports.

    ``serve(sockets=…)`` runs it until ``should_exit`` is set. After that it runs until the last
    connection has ended, or ``force_exit`` is set.

    Arguments:
        proxy: the objects that all connections share.
    """

    def protocol(
        config: Any, server_state: Any, app_state: Any, _loop: object = None
    ) -> Http1Client:
        # Replaces uvicorn's set. uvicorn shuts these connections down, and waits for their end.
        server_state.connections = proxy.connections
        return Http1Client(proxy)

    config = uvicorn.Config(
        app=_no_application,
        # uvicorn declares a class, and only calls it.
        http=protocol,  # type: ignore[arg-type] # see above
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        backlog=BACKLOG,
    )
    pausing = not proxy.files.shares.roomy
    return GatedServer(config, proxy, proxy.arrivals, pausing=pausing)


def service_listener(proxy: Proxy, sock: socket.socket, port: ClientPort) -> Listener:
    """Return the listener of a port that belongs to one Service, or of the admission port.

    It accepts clients at once.

    Its connections end when the connections of the data ports do.

    Arguments:
        proxy: the objects that all connections share.
        sock: a listening socket; ``Listener.close`` closes it.
        port: its record.
    """
    # The connection has the methods of a protocol, not its type.
    make = cast(Callable[[], asyncio.Protocol], lambda: Http1Client(proxy, port))
    return Listener(sock, make, proxy, proxy.arrivals)


async def _no_application(scope: Any, receive: Any, send: Any) -> None:
    """Satisfy uvicorn's configuration; the activator's protocol never calls an application."""
    raise RuntimeError("the data ports have no ASGI application")


class ListenError(Exception):
    """An address cannot be bound. The text names the address, the cause and the setting."""


def listen(host: str, port: int, setting: str) -> socket.socket:
    """Return a listening socket.

    Arguments:
        host: the address.
        port: the port; 0 for any free one.
        setting: the setting of the port, for the error.

    Raises:
        ListenError: the address cannot be bound.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Without the protocol's number, asyncio would leave Nagle's algorithm on.
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
