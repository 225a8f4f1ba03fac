"""Opens the data ports, and the ports that belong to one plain Service each.

uvicorn's server owns the sockets of the data ports and ends connections; this module gives it the
activator's own listeners and protocol. The scaler allots a Service its port, and makes the
activator an endpoint of the Service there. So the port alone names the Service. A port that cannot
be bound is tried again and affects no other port.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final, Protocol, cast

import uvicorn

from activator.process.logs import Repeats
from activator.process.quiet_server import QuietServer
from activator.process.sockets import SocketKind, find_dead
from activator.process.timers import Tasks
from activator.proxy.client.connection import ClientPort
from activator.proxy.client.http1 import Http1ClientConnection
from activator.proxy.client.proxy import Proxy
from activator.records.narration import identity
from activator.records.source_status import ObjectWarning
from throttler.model import RevisionID, ServiceRoute

logger = logging.getLogger(__name__)

#: Connections that the kernel queues until they are accepted.
BACKLOG = 4096
#: Seconds for handshakes that are in progress when the ports close.
_LAST_HANDSHAKES = 1.0
#: Connections that are accepted in one turn of the loop; others wait for the next turn.
PER_TURN: Final = 16
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


class PausingListener:
    """A listening socket of the running loop, with the two methods of a server that uvicorn calls.

    It accepts connections while files are free for them. The loop's own listeners cannot pause.
    uvloop's accepts all connections in one turn, and silently closes those beyond the limit of open
    files. Also, it reports a TLS connection only after the handshake. This listener leaves
    connections in the kernel's queue until files are free. It knows neither HTTP nor the proxy.

    Arguments:
        sock: a listening, non-blocking socket; ``close`` closes it.
        make: returns the protocol object of a connection. With TLS, its ``connection_made`` is
            called after the handshake.
        gate: decides when to accept.
        arrivals: the tasks of accepted sockets that are no connections yet. ``close`` does not end
            them; the caller does.
        context: has the certificate for clients; None without TLS.

    Attributes:
        paused: the timer of the next check; None while it accepts.
        accept: gets each accepted socket with the address of its client, instead of ``make``; None
            for connections of HTTP.
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
        self.paused: asyncio.TimerHandle | None = None
        self.accept: Callable[[socket.socket, Any], None] | None = None
        self._repeats = Repeats()
        self._loop.add_reader(self._sock, self._accept)

    def close(self) -> None:
        """Accept no more connections; do nothing the second time."""
        if self.paused is not None:
            self.paused.cancel()
            self.paused = None
            self._gate.on_room(self._check, wanted=False)
        if self._sock.fileno() >= 0:
            self._loop.remove_reader(self._sock)
            self._sock.close()

    async def wait_closed(self) -> None:
        """Return at once, since ``close`` leaves nothing to wait for."""

    def _accept(self) -> None:
        secure = self._context is not None
        for accepted in range(PER_TURN):
            if not self._gate.may_accept(secure=secure):
                # After an accepted client the loop calls again at once, if more clients wait.
                if not accepted:
                    self._pause()
                return
            try:
                client, peer = self._sock.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                if self._repeats.admit("accept", self._loop.time()) is not None:
                    logger.warning("cannot accept connections: %s", error.strerror or error)
                self._pause()
                return
            client.setblocking(False)
            if self.accept is not None:
                self.accept(client, peer)
                continue
            if secure:
                self._gate.handshake_began()
            self._arrivals.start(self._shake(client) if secure else self._join(client))

    def _pause(self) -> None:
        """Leave connections to the kernel until a file may be free, or for a while."""
        self._loop.remove_reader(self._sock)
        self.paused = self._loop.call_later(_PAUSE, self._check)
        self._gate.on_room(self._check, wanted=True)

    def _check(self) -> None:
        """Accept again if the gate allows it."""
        if self.paused is None:
            return
        self.paused.cancel()
        if self._gate.may_accept(secure=self._context is not None):
            self.paused = None
            self._gate.on_room(self._check, wanted=False)
            self._loop.add_reader(self._sock, self._accept)
        else:
            self.paused = self._loop.call_later(_PAUSE, self._check)

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
        """Listen on all sockets; uvicorn listens on the sockets that need no own listener."""
        ours = [sock for sock in sockets or () if self._pausing or sock in self.secure]
        await super().startup([sock for sock in sockets or () if sock not in ours])
        for sock in ours:
            context = self.secure.get(sock)
            listener = PausingListener(sock, self._protocol, self._gate, self._arrivals, context)
            # A PausingListener has the two methods that uvicorn calls.
            self.servers.append(listener)  # type: ignore[arg-type] # see above

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End all connections. A client in a TLS handshake may send one request first."""
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
    ) -> Http1ClientConnection:
        # Replaces uvicorn's set. uvicorn shuts these connections down, and waits for their end.
        server_state.connections = proxy.connections
        return Http1ClientConnection(proxy)

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


def service_listener(proxy: Proxy, sock: socket.socket, port: ClientPort) -> PausingListener:
    """Return the listener of a port that belongs to one Service, or of the admission port.

    It accepts clients at once. Its connections end when the connections of the data ports do.

    Arguments:
        proxy: the objects that all connections share.
        sock: a listening socket; ``PausingListener.close`` closes it.
        port: its record.
    """
    # The connection has the methods of a protocol, not its type.
    make = cast(Callable[[], asyncio.Protocol], lambda: Http1ClientConnection(proxy, port))
    return PausingListener(sock, make, proxy, proxy.arrivals)


async def _no_application(scope: Any, receive: Any, send: Any) -> None:
    """Satisfy uvicorn's configuration; the activator's protocol never calls an application."""
    raise RuntimeError("the data ports have no ASGI application")


class BindError(Exception):
    """An address cannot be bound. The text names the address, the cause and the setting."""


def listen(host: str, port: int, setting: str) -> socket.socket:
    """Return a listening socket.

    Arguments:
        host: the address.
        port: the port; 0 for any free one.
        setting: the setting of the port, for the error.

    Raises:
        BindError: the address cannot be bound.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Without the protocol's number, asyncio would leave Nagle's algorithm on.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # accepted sockets inherit it
        find_dead(sock, SocketKind.CLIENT)
        sock.bind((host, port))
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        reason = (error.strerror or str(error)).lower()
        if error.errno == errno.EADDRINUSE and setting.startswith("--"):
            reason += f"; {setting} 0 takes any free port"
        raise BindError(f"cannot listen on {where} ({setting}): {reason}") from None
    return sock


_MAX_PORT: Final = 65_535
#: Seconds until a port that could not be bound is tried again.
RETRY: Final = 5.0
#: Seconds for which an HTTP/2 client with a stream open all the time keeps its connection, although
#: a new one would reach the pods.
PATIENCE: Final = 10.0
#: Seconds for which a port stays open after its slice is gone or has another port. The proxies of
#: nodes and ingresses follow slices late, and would have their clients refused.
LINGER: Final = 10.0


class ServicePort:
    """The port of one Service.

    Attributes:
        number: the port.
        port: the record of its connections.
        listener: None while it cannot be bound.
        error: why it cannot be bound, as logged; empty if it is.
        timer: when the port begins to insist on new connections.
        end: when the port closes; None while its Service has it.
    """

    def __init__(self, service: RevisionID, number: int) -> None:
        self.number = number
        self.port = ClientPort(str(service).encode("latin-1", "replace"))
        self.listener: PausingListener | None = None
        self.error = ""
        self.timer: asyncio.TimerHandle | None = None
        self.end: asyncio.TimerHandle | None = None

    def set_reconnect(self, on: bool) -> None:
        """Ask clients to reconnect from now on, or no more."""
        if on is self.port.reconnect:
            return
        self.port.reconnect = on
        self.port.insists = False
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        if on:
            self.timer = asyncio.get_running_loop().call_later(PATIENCE, self._insist)

    def _insist(self) -> None:
        self.port.insists = True

    def close(self) -> None:
        """Accept no more clients; open connections stay."""
        for timer in (self.timer, self.end):
            if timer is not None:
                timer.cancel()
        if self.listener is not None:
            self.listener.close()


class ServicePorts:
    """The ports of all Services.

    Arguments:
        proxy: the objects that all connections share.
        host: the address to bind.
        accept: gets each accepted socket of a TCP Service, with the address of its client.

    Attributes:
        ports: the ports, by Service; only this class changes them.
    """

    def __init__(
        self,
        proxy: Proxy,
        host: str,
        accept: Callable[[RevisionID, socket.socket, Any], None],
    ) -> None:
        self._proxy = proxy
        self._host = host
        self._accept = accept
        self._routes: dict[RevisionID, ServiceRoute] = {}
        self.ports: dict[RevisionID, ServicePort] = {}
        self._ending: dict[int, ServicePort] = {}
        self._started = False
        self._retry: asyncio.TimerHandle | None = None

    def set_route(self, service: RevisionID, route: ServiceRoute) -> None:
        """Listen on the port of a Service; see driver.Driver.on_route.

        A port that a known Service no longer has stays open for ``LINGER`` seconds. Without hosts,
        a Service of HTTP is unknown, and the port closes at once.
        """
        if 0 < route.port <= _MAX_PORT:
            self._routes[service] = route
        else:
            self._routes.pop(service, None)
        if self._started:
            self._apply(service, is_known=bool(route.hosts) or route.is_tcp)

    def start(self) -> None:
        """Open all ports, because the activator is ready for requests."""
        self._started = True
        for service in self._routes:
            self._apply(service)

    def close(self) -> None:
        """Close all ports at once; open connections stay."""
        self._started = False
        for port in (*self.ports.values(), *self._ending.values()):
            port.close()
        self.ports.clear()
        self._ending.clear()
        if self._retry is not None:
            self._retry.cancel()

    def numbers(self) -> dict[RevisionID, int]:
        """Return the open ports."""
        return {id: port.number for id, port in self.ports.items() if port.listener is not None}

    def warnings(self, own: Mapping[int, str]) -> Iterator[ObjectWarning]:
        """Yield the ports that cannot be bound, each with its Service, the cause and the remedy.

        Arguments:
            own: the other ports of the activator, each with its name for people.
        """
        holders = {number: f"Service {service}" for service, number in self.numbers().items()}
        holders |= {number: f"the activator itself ({name})" for number, name in own.items()}
        for service, port in self.ports.items():
            if port.error:
                holder = holders.get(port.number)
                text = (
                    f"{port.error}{f'; {holder} listens there' if holder else ''}; choose another "
                    f"activator.dev/listen-port, or in a cluster other --takeover-ports"
                )
                about = service.namespace, service.name, service.name
                yield ObjectWarning("Service", *about, text, "port-conflict", service.kind)

    def _apply(self, service: RevisionID, *, is_known: bool = True) -> None:
        """Open or close the port of a Service, as its route demands."""
        route, port = self._routes.get(service, ServiceRoute()), self.ports.get(service)
        if not is_known:
            self._close_all_ending(service)
        if port is not None and port.number != route.port:
            del self.ports[service]
            self._leave(port, LINGER if is_known else 0.0)
            port = None
        if port is None and route.port:
            port = self.ports[service] = self._take(service, route.port)
        if port is None:
            return
        if port.listener is None:
            self._open(service, port)
        else:
            self._choose(service, port)
        port.set_reconnect(route.reconnect)

    def _choose(self, service: RevisionID, port: ServicePort) -> None:
        """Accept the next connections on a port in the protocol of its Service."""
        route = self._routes.get(service)
        if port.listener is not None and route is not None:
            is_tcp = route.is_tcp
            port.listener.accept = partial(self._accept, service) if is_tcp else None

    def _leave(self, port: ServicePort, seconds: float) -> None:
        """Close a port later, so that connections that are on their way find it open."""
        if port.listener is None or not seconds:
            port.close()
            return
        port.set_reconnect(True)
        self._ending[port.number] = port
        port.end = asyncio.get_running_loop().call_later(seconds, self._close_ending, port.number)

    def _close_ending(self, number: int) -> None:
        self._ending.pop(number).close()

    def _close_all_ending(self, service: RevisionID) -> None:
        name = str(service).encode("latin-1", "replace")
        for number in [n for n, port in self._ending.items() if port.port.service == name]:
            self._close_ending(number)

    def _take(self, service: RevisionID, number: int) -> ServicePort:
        """Return the port of a Service; the same one again if it has not closed yet."""
        port = ServicePort(service, number)
        ending = self._ending.pop(number, None)
        if ending is None:
            return port
        if ending.port.service != port.port.service or ending.end is None:
            ending.close()
            return port
        ending.end.cancel()
        ending.end = None
        return ending

    def _open(self, service: RevisionID, port: ServicePort) -> None:
        about = identity(service)
        try:
            sock = listen(self._host, port.number, f"the port of service {service}")
        except BindError as error:
            if str(error) != port.error:
                port.error = str(error)
                logger.warning("%s; trying again every %g s", error, RETRY, extra=about)
            if self._retry is None:
                self._retry = asyncio.get_running_loop().call_later(RETRY, self._open_missing)
            return
        logger.info("listening on port %d of service %s", port.number, service, extra=about)
        port.error = ""
        port.listener = service_listener(self._proxy, sock, port.port)
        self._choose(service, port)

    def _open_missing(self) -> None:
        self._retry = None
        for service, port in self.ports.items():
            if port.listener is None:
                self._open(service, port)
