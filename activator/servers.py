"""Opens the listeners of one activator, the data ports last, and closes them in order.

All listeners are servers of uvicorn in one loop, without signal handlers.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, ExitStack
from email.utils import formatdate
from functools import partial
from itertools import count
from typing import Any, Final, cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from activator.admin.application import create_app, create_metrics_app
from activator.admin.event_feed import EventFeed
from activator.admin.profiling import create_profiling_app
from activator.process.memory import Memory
from activator.process.timers import Tasks
from activator.proxy.client.connection import Admission, ClientPort
from activator.proxy.client.listener import (
    GatedServer,
    PausingListener,
    ServicePorts,
    data_server,
    listen,
    service_listener,
)
from activator.proxy.tcp.clients import TcpClients
from activator.records.source_status import ObjectWarning
from activator.runtime import Runtime, StartError
from activator.settings.config import Settings
from activator.tls.certificates import ServerTls, metrics_tls
from activator.tls.store import store_tls

logger = logging.getLogger(__name__)

#: Share of the drain time in which queued requests may still get a pod. The rest is for responses.
_DRAIN_WAITING = 0.8
#: Seconds after the drain time in which clients may read the last responses.
_LAST_RESPONSES = 1.0
#: Seconds between checks that all listeners are open. The kernel may close one (`ss --kill`). The
#: loop does not report that, since it continues after a failed accept(2).
_CHECK_LISTENERS = 1.0
#: Most bytes of a request head on the ports that are not for traffic.
MOST_HEAD: Final = 64 << 10


class Servers:
    """The listeners: opened together, closed together.

    Attributes:
        addresses: of the open listeners, by name.
    """

    def __init__(self, runtime: Runtime) -> None:
        """Open the ports.

        Raises:
            BindError: a port is not available; none stays open.
            TlsFileError: the metrics port's certificate is not usable.
        """
        settings = runtime.settings
        self.runtime = runtime
        self._tasks: dict[GatedServer, asyncio.Task[None]] = {}
        self._lifespan = AsyncExitStack()
        secure = metrics_tls(settings)
        store = self._store = store_tls(settings)
        self.sockets = _listen(settings)
        self.addresses = {name: _address(sock) for name, sock in self.sockets.items()}
        self._events = EventFeed(runtime.driver.events)
        connections = runtime.pools.files.shares.admin
        self._tcp = TcpClients(runtime.proxy)
        self.service_ports = ServicePorts(runtime.proxy, settings.bind, self._tcp.accept)
        runtime.driver.on_route = self.service_ports.set_route
        self._app = create_app(
            runtime,
            settings.admin_hosts,
            self._events,
            settings.scaler_page_url,
            self.addresses.get("admit", ""),
            port_warnings=self._port_warnings,
            add_on=settings.dialect == ("keda",),
        )
        self.admin = _asgi_server(self._app, connections)
        self.metrics = _asgi_server(create_metrics_app(runtime), connections)
        self._profiling = _asgi_server(create_profiling_app(runtime.profiling), connections)
        if secure is not None:
            runtime.observers.certificates["metrics"] = secure
            self.metrics.secure[self.sockets["metrics"]] = secure.context
        if store is not None:
            runtime.observers.certificates["https"] = store
        self._memory = Memory(runtime.observers.pauses.observe)
        self._data = data_server(runtime.proxy)
        self._admission: PausingListener | None = None

    def _port_warnings(self) -> Iterator[ObjectWarning]:
        own = {sock.getsockname()[1]: f"port {name}" for name, sock in self.sockets.items()}
        return self.service_ports.warnings(own)

    async def start(self) -> None:
        """Start all servers; the data ports last, when everything else works.

        This method enters the application's lifespan, not uvicorn. uvicorn would turn its errors
        into exit status 3, and could not be stopped while it starts.

        Raises:
            StartError: a part does not start.
            BindError: the port for TLS is not available.
        """
        await self._lifespan.enter_async_context(self._app.router.lifespan_context(self._app))
        sockets = self.sockets
        data = [sockets[name] for name in ("http", "h2c") if name in sockets]
        if self.runtime.internal_tls.started:
            data.append(self._listen_tls(self.runtime.internal_tls.server))
        elif self._store is not None:
            data.append(self._listen_tls(self._store))
            self.runtime.tasks.start(self._store.follow())
        await self._serve(self.admin, sockets["admin"])
        await self._serve(self.metrics, sockets["metrics"])
        if "profiling" in sockets:
            await self._serve(self._profiling, sockets["profiling"])
        # This check of all objects blocks no request, since no data port is open yet.
        self._memory.begin()
        total = self.runtime.driver.throttler.total
        self.runtime.tasks.start(self._memory.keep(lambda: total.depth))
        await self._serve(self._data, *data)
        self.service_ports.start()
        if "admit" in sockets:
            self._admission = self._listen_for_proxies(sockets["admit"])

    async def _serve(self, server: GatedServer, *sockets: socket.socket) -> None:
        task = asyncio.create_task(server.serve(list(sockets)))  # noqa: TID251 # held in _tasks
        self._tasks[server] = task
        while not server.started:
            await asyncio.wait([task], timeout=0.005)
            if task.done():
                task.result()
                raise StartError("start-up failed")

    def _listen_tls(self, secure: ServerTls) -> socket.socket:
        """Open the port for TLS; only after discovery the activator knows that it is needed."""
        settings = self.runtime.settings
        sock = listen(settings.bind, settings.https_port, "--https-port")
        self.sockets["https"] = sock
        self.addresses["https"] = _address(sock)
        self._data.secure[sock] = secure.context
        return sock

    def _listen_for_proxies(self, sock: socket.socket) -> PausingListener:
        """Accept proxies on the admission port; its connections end as clients' do."""
        settings = self.runtime.settings
        admission = Admission(settings.admit_prefix.encode(), settings.max_target_bytes)
        return service_listener(self.runtime.proxy, sock, ClientPort(admission=admission))

    async def failed(self) -> None:
        """Return when a listener has ended by itself; the log says which."""
        while True:
            for name, sock in self.sockets.items():
                if not _is_listening(sock):
                    logger.error("the listener %s has failed: %s", name, self.addresses[name])
                    return
            now = asyncio.get_running_loop().time()
            await asyncio.sleep(_CHECK_LISTENERS - now % _CHECK_LISTENERS)

    async def stop_data(self, drain_timeout: float) -> int:
        """Close the data ports at once, and let requests finish within the drain time.

        Arguments:
            drain_timeout: seconds.

        Returns:
            How many connections with open requests were closed at its end.
        """
        self._stop_accepting()
        self._data.should_exit = True
        task, proxy = self._tasks[self._data], self.runtime.proxy
        if await _is_done(task, drain_timeout * _DRAIN_WAITING):
            return 0
        proxy.drain()
        if await _is_done(task, drain_timeout * (1 - _DRAIN_WAITING)):
            return 0
        cut = proxy.force_end()
        await _is_done(task, _LAST_RESPONSES)
        self._data.force_exit = True
        return cut

    def _stop_accepting(self) -> None:
        """Close the ports that no server of uvicorn has; open connections stay."""
        self.service_ports.close()
        if self._admission is not None:
            self._admission.close()

    async def stop(self) -> None:
        """Close all servers and sockets."""
        self._memory.end()
        self._events.close()
        self._stop_accepting()
        for server in self._tasks:
            server.should_exit = True
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._tcp.poller.close()
        for sock in self.sockets.values():
            sock.close()  # after a failed start, some sockets have no server
        await self._lifespan.aclose()


async def _is_done(task: asyncio.Task[None], within: float) -> bool:
    done, _ = await asyncio.wait([task], timeout=within)
    return bool(done)


def _listen(settings: Settings) -> dict[str, socket.socket]:
    wanted = {
        "http": (settings.bind, settings.http_port),
        "h2c": (settings.bind, settings.h2c_port),
        "admin": (settings.admin_bind, settings.admin_port),
        "metrics": (settings.metrics_bind, settings.metrics_port),
        "profiling": (settings.bind, settings.profiling_port),
        "admit": (settings.bind, settings.admit_port),
    }
    with ExitStack() as opened:
        sockets = {
            name: opened.enter_context(listen(host, port, f"--{name}-port"))
            for name, (host, port) in wanted.items()
            if port is not None
        }
        opened.pop_all()
    return sockets


def _is_listening(sock: socket.socket) -> bool:
    option = getattr(socket, "SO_ACCEPTCONN", None)
    if option is None:  # this system has no such option; an open socket listens
        return sock.fileno() >= 0
    try:
        return bool(sock.getsockopt(socket.SOL_SOCKET, option))
    except OSError as error:  # the socket is closed, unless this system lacks the option
        return error.errno == errno.ENOPROTOOPT


class _AdminConnection(HttpToolsProtocol):
    """A connection to a port that is not for traffic.

    uvicorn limits neither the number of connections nor the length of a head. A client of the
    metrics port could use every file of the process, or its memory by one request. Above the limit
    a new connection closes the oldest, so that kubelet's probe is served: it is new each time.

    Arguments:
        most: limit of connections of a port.
    """

    _numbers = count()

    def __init__(self, *args: Any, most: int, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._most = most

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.number = next(self._numbers)
        self._head = 0
        # uvloop's transport does not inherit from asyncio.Transport.
        super().connection_made(cast(asyncio.Transport, transport))
        if len(self.connections) > self._most:
            connections = cast("set[_AdminConnection]", self.connections)
            oldest = min(connections, key=lambda each: each.number)
            self.connections.discard(oldest)
            oldest.transport.abort()

    def data_received(self, data: bytes) -> None:
        self._head += len(data)
        if self._head > MOST_HEAD:
            self.transport.abort()
        else:
            self._renew_date()
            super().data_received(data)

    def _renew_date(self) -> None:
        """Renew the Date field of responses; uvicorn's timer would make an idle process run."""
        date = formatdate(usegmt=True).encode()
        self.server_state.default_headers = [(b"date", date), *self.config.encoded_headers]

    def on_headers_complete(self) -> None:
        self._head = 0
        super().on_headers_complete()


class _AdminGate:
    """Limits the connections without a first request.

    Arguments:
        arrivals: the connections without a first request; most: their limit.
    """

    def __init__(self, arrivals: Tasks, most: int) -> None:
        self._arrivals = arrivals
        self._most = most

    def may_accept(self, *, secure: bool) -> bool:
        return len(self._arrivals) < self._most

    def handshake_began(self) -> None:
        """Do nothing: no handshake is counted."""

    def handshake_failed(self) -> None:
        """Do nothing: no handshake is counted."""

    def on_room(self, wake: Callable[[], None], *, wanted: bool) -> None:
        """Do nothing: the listener checks again by itself."""


def _asgi_server(app: Any, most: int) -> GatedServer:
    """Return the server of a port that is not for traffic.

    Arguments:
        most: limit of its connections.
    """
    arrivals = Tasks()
    config = uvicorn.Config(
        app,
        # uvicorn expects a class, but only calls it.
        http=partial(_AdminConnection, most=most),  # type: ignore[arg-type] # see above
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=2,
        server_header=False,
    )
    return GatedServer(config, _AdminGate(arrivals, most), arrivals)


def _address(sock: socket.socket) -> str:
    host, port = sock.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
