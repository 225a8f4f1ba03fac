"""The data ports: uvicorn's server with our protocol, and what all connections share.

uvicorn owns sockets and connections' life; this module gives it the protocol class, and nothing
else of HTTP is uvicorn's.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from email.utils import formatdate
from typing import Any, cast

import uvicorn

from activator.driver import Driver
from activator.logs import Repeats
from activator.proxy.client_connection import ClientConnection
from activator.proxy.downstream import Downstream
from activator.proxy.eviction import Eviction
from activator.proxy.http2.downstream import Http2Downstream
from activator.proxy.observers import RequestLog, Tracer
from activator.proxy.pool import ConnectionPools
from activator.proxy.replies import Reply, too_many_connections, too_many_unfinished
from activator.proxy.request import RequestLimits
from activator.proxy.tls_listener import TlsListener
from activator.proxy.unfinished import UnfinishedHeads
from activator.proxy.wait import WARM
from activator.tasks import Tasks
from activator.timers import Timers
from throttler.model import RevisionID
from throttler.revision import RevisionThrottler

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class ProxyCounters:
    """What is counted outside any revision."""

    unknown_revisions: int = 0
    bad_requests: int = 0


class Proxy:
    """What all connections share.

    Arguments:
        hold_bytes: bytes of a body that are read while its request waits, or kept to repeat it.
        header_timeout: seconds for a request head to arrive.
        unfinished_header_bytes: bytes of all heads that have not come to their end.
        idle_from_arrival: whether a revision's idle time-out counts while a request waits.
        unhealthy: says why we are not ready, or nothing.
        server_timing: whether answers that waited say for how long, in ``Server-Timing``.
        cold_start_header: whether answers say whether they waited for a pod to start.

    Attributes:
        notes: field lines of ours for each answer, unless something else becomes known of it.
    """

    def __init__(
        self,
        driver: Driver,
        pools: ConnectionPools,
        *,
        request_limits: RequestLimits,
        hold_bytes: int,
        header_timeout: float,
        unfinished_header_bytes: int = 32 << 20,
        idle_from_arrival: bool = False,
        unhealthy: Callable[[], str],
        server_timing: bool = False,
        cold_start_header: bool = False,
    ) -> None:
        self.driver = driver
        self.pools = pools
        self.clock = driver.clock
        self.timers = Timers(driver.clock)
        self.request_limits = request_limits
        self.hold_bytes = hold_bytes
        self.header_timeout = header_timeout
        self.unfinished_heads = UnfinishedHeads(unfinished_header_bytes)
        self.idle_from_arrival = idle_from_arrival
        self.unhealthy = unhealthy
        self.server_timing = server_timing
        self.notes = WARM if cold_start_header else b""
        self.counters = ProxyCounters()
        #: Who watches requests; None while that is off. May change at any time.
        self.tracer: Tracer | None = None
        self.request_log: RequestLog | None = None
        #: Connections of clients beyond this are refused: the rest of the process's files is for
        #: pods, probes and discovery, without which no client is served.
        self.max_connections = int(_SHARE_FOR_CLIENTS * _file_limit())
        #: Set when the process is to end: each answer from then on is the last on its connection,
        #: so that clients go elsewhere before it is closed.
        self.draining = False
        self.connections: set[ClientConnection | Http2Downstream] = set()
        self.eviction = Eviction()
        #: Clients that are no connections yet: their TLS has not begun.
        self.handshakes = Tasks()
        self._repeats = Repeats()
        self._date = b""
        self._date_of = 0

    def date(self) -> bytes:
        """Return the present date as a Date field has it; made once a second."""
        now = int(time.time())
        if now != self._date_of:
            self._date_of = now
            self._date = formatdate(now, usegmt=True).encode()
        return self._date

    def find_room(self) -> bool:
        """Whether one more client may be connected; one that is idle goes for it if need be."""
        eviction, most = self.eviction, self.max_connections
        here = len(self.connections) + len(self.handshakes)
        if here - eviction.leaving < most:
            return True
        return eviction.make_room(self.clock(), 1 + int(_SHARE_LEAVING * most))

    def admit_handshake(self) -> bool:
        """Return whether one more client may begin TLS; if not, that is logged now and then."""
        most = max(1, int(_SHARE_FOR_HANDSHAKES * self.max_connections))
        if len(self.handshakes) >= most:
            self._tell_too_many("clients have not ended their TLS handshakes", most)
        elif not self.find_room():
            self._tell_too_many("connections are open", self.max_connections)
        else:
            return True
        return False

    def _tell_too_many(self, what: str, count: int) -> None:
        if self._repeats.admit(what, self.clock()) is not None:
            logger.warning("%d %s, more are refused: raise the limit of open files", count, what)

    def too_many_connections(self) -> bytes:
        """Return the answer to a connection beyond the bound, and log it now and then."""
        self._tell_too_many("connections are open", self.max_connections)
        reply = too_many_connections(self.retry_after())
        return reply.render(date=self.date(), head_only=False, keep_alive=False, minor=1)

    def too_many_unfinished(self) -> Reply:
        """Return the answer to a head for whose rest there is no room, and log it now and then."""
        self.tell_too_many_unfinished()
        return too_many_unfinished(self.retry_after())

    def tell_too_many_unfinished(self) -> None:
        """Log now and then that somebody's head was refused for want of room."""
        if self._repeats.admit("unfinished heads", self.clock()) is not None:
            used = self.unfinished_heads.bytes
            logger.warning("%d bytes of unfinished request heads, more are refused", used)

    def retry_after(self, revision: RevisionThrottler | None = None) -> int:
        """Return when a client that is refused now may come again: whole seconds.

        At once while the process ends: on its next connection it finds another activator.

        Arguments:
            revision: whose client; None where that is not known.
        """
        if self.draining:
            return 0
        if revision is None:
            return self.driver.throttler.retry_after()
        return revision.retry_after(self.clock())

    def tell(self, revision: RevisionID, reply: Reply) -> None:
        """Log an answer of ours that a revision's client got; of one kind, one now and then."""
        more = self._repeats.admit((revision, reply.status, reply.reason), self.clock())
        if more is not None:
            others = "1 other" if more == 1 else f"{more} others"
            also = f" (and {others} since the last such line)" if more else ""
            logger.warning(
                "answered %d: %s%s",
                reply.status,
                reply.why,
                also,
                extra={"revision": str(revision)},
            )

    def drain(self) -> None:
        """Answer what still waits for a pod: the time to wait is over."""
        for downstream in list(self.connections):
            downstream.drain()

    def cut(self) -> int:
        """End every request: the time to finish is over. Return how many connections there are."""
        connections = list(self.connections)
        for downstream in connections:
            downstream.cut()
        return len(connections)


#: Connections that the kernel keeps for us until they are accepted.
BACKLOG = 4096
#: Seconds for handshakes that are under way when the ports close.
_LAST_HANDSHAKES = 1.0


class QuietServer(uvicorn.Server):
    """uvicorn's server without its signal handlers: the process has one, in ``app``; and with a
    certificate for some of its sockets, where uvicorn has one for all or none. The connections of
    all sockets end together.

    Arguments:
        admit_handshake: whether one more client may begin TLS.
        handshakes: is to hold those under way.

    Attributes:
        secure: by listening socket, what its clients are shown.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        admit_handshake: Callable[[], bool] = lambda: True,
        handshakes: Tasks | None = None,
    ) -> None:
        super().__init__(config)
        self.secure: dict[socket.socket, ssl.SSLContext] = {}
        self._admit_handshake = admit_handshake
        self._handshakes = Tasks() if handshakes is None else handshakes

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """See uvicorn.Server."""
        await super().startup([sock for sock in sockets or () if sock not in self.secure])
        for sock, context in self.secure.items():
            listener = TlsListener(
                sock, context, self._protocol, self._admit_handshake, self._handshakes
            )
            # It has the two methods that uvicorn calls.
            self.servers.append(listener)  # type: ignore[arg-type] # see above

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """See uvicorn.Server. Who is in the middle of a handshake may bring one request."""
        for server in self.servers:
            server.close()
        await self._handshakes.finish(_LAST_HANDSHAKES)
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
    ) -> Downstream:
        # uvicorn's own set: it tells these to shut down, and waits until it is empty.
        proxy.connections = server_state.connections
        return Downstream(proxy)

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
    return QuietServer(config, proxy.admit_handshake, proxy.handshakes)


async def _no_application(scope: Any, receive: Any, send: Any) -> None:
    """uvicorn's configuration demands one; our protocol calls none."""
    raise RuntimeError("the data ports have no ASGI application")


def _find_the_dead(sock: socket.socket) -> None:
    """Have the kernel ask clients that are silent whether they are there; accepted connections
    inherit it. A host that has vanished is found after 2.5 minutes (Go: the same 15 s, 9 times)."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 9)):
        if hasattr(socket, option):  # macOS has them under other names
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


#: Share of the process's files that connections of clients may take. A request needs two, one of
#: them its pod's; those that wait need one.
_SHARE_FOR_CLIENTS = 0.75
#: Share of those, besides, for clients that have been sent away and are not gone yet.
_SHARE_LEAVING = 1 / 16
#: Share of those for clients whose TLS has not begun, so that who sends nothing takes no place from
#: those on other ports.
_SHARE_FOR_HANDSHAKES = 0.5


def _file_limit() -> float:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if soft == resource.RLIM_INFINITY else soft


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
        _find_the_dead(sock)
        sock.bind((host, port))
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        reason = (error.strerror or str(error)).lower()
        raise ListenError(f"cannot listen on {where} ({setting}): {reason}") from None
    return sock
