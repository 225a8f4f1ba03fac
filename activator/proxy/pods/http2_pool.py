"""Connections to a pod that carry many requests: one as long as it has room, then more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Final, Protocol, final

from activator.proxy.exchange.sides import Asker
from activator.proxy.http2.hpack import line
from activator.proxy.pods.dial import DROPPED, OtherProtocolError, connect_cause, connect_error
from activator.proxy.pods.http2 import Capacity, Http2Pod, PodStream
from activator.proxy.transport.files import FileBudget, Waiter
from activator.proxy.transport.unread import UnreadBytes

#: Streams at a time as long as the pod has not said how many it takes (Go: the same).
_FIRST_STREAMS: Final = 100
#: Seconds for a pod to say that: with its first frame (RFC 9113 section 3.4), so nearly always in
#: one round trip. Servers of gRPC fail what is beyond their number, and do not refuse it.
_SETTLE_SECONDS: Final = 1.0


class PodOfPool(Protocol):
    """The pod and its file budget, as the pool of both versions knows them."""

    host_lines: bytes
    reachable: bool

    @property
    def files(self) -> FileBudget:
        """The budget of open files."""

    @property
    def unread(self) -> UnreadBytes:
        """What counts the bytes that peers do not read."""

    @property
    def address(self) -> str:
        """The pod's ``ip:port``."""

    @property
    def origin(self) -> str:
        """Where requests go, as ``scheme://ip:port``."""

    def count(self) -> None:
        """Count a connection that came."""

    def uncount(self, connection: object) -> None:
        """Count a connection that went."""

    def failed(self, error: str) -> str:
        """Record that a connection did not come to be; return where and why, for people."""

    async def open_http2(self, make: Callable[[], Http2Pod], waiter: Waiter) -> Http2Pod:
        """Connect, see pools.Pool.open.

        Raises:
            OSError: see dial.connect_tls.
        """

    def speaks_http1(self) -> None:
        """Record that the pod does not speak HTTP/2."""


@final
class Http2Pool:
    """The connections to one pod that speak HTTP/2.

    Arguments:
        pool: the pool of both versions.
        start: runs a coroutine and holds on to its task.
        clock: seconds, monotonic.

    Attributes:
        capacity: how many streams the pod takes.
    """

    def __init__(
        self,
        pool: PodOfPool,
        start: Callable[[Coroutine[None, None, None]], object],
        clock: Callable[[], float],
    ) -> None:
        self.pool = pool
        self._clock = clock
        self._start = start
        self._connections: list[Http2Pod] = []
        self.capacity = Capacity(_FIRST_STREAMS)
        self._waiting: list[Asker] = []
        self._dialing = False
        self._host_lines = b""
        self._host_blocks = b"", b""

    def clock(self) -> float:
        """Return the time, seconds, monotonic."""
        return self._clock()

    @property
    def address(self) -> str:
        """The pod's ``ip:port``."""
        return self.pool.address

    @property
    def origin(self) -> str:
        """Where requests go, as ``scheme://ip:port``."""
        return self.pool.origin

    @property
    def unread(self) -> UnreadBytes:
        """What counts the bytes that peers do not read."""
        return self.pool.unread

    def host_blocks(self) -> tuple[bytes, bytes]:
        """Return the fields that say which pod is asked: :scheme with :authority, and others."""
        if self._host_lines is not self.pool.host_lines:
            self._host_lines = self.pool.host_lines
            fields = [each.split(b": ", 1) for each in self._host_lines.split(b"\r\n")[:-1]]
            secure = self.pool.origin.startswith("https")
            front = line(b":scheme", b"https" if secure else b"http")
            rest = b""
            for name, value in fields:
                if name == b"Host":
                    front += line(b":authority", value)
                else:
                    rest += line(name.lower(), value)
            self._host_blocks = front, rest
        return self._host_blocks

    def place(self) -> PodStream | None:
        """Return a place for one more request; None where no connection has room."""
        connection = self.take()
        return None if connection is None else PodStream(connection)

    def take(self) -> Http2Pod | None:
        """Return a connection with room for one more request, or None."""
        for connection in self._connections:
            if connection.has_room():
                return connection
        return None

    def dial(self, asker: Asker) -> None:
        """Open a connection; what asks for one meanwhile gets the same."""
        self._waiting.append(asker)
        if not self._dialing:
            self._dialing = True
            self._start(self._dial())

    async def _dial(self) -> None:
        try:
            upstream = await self.pool.open_http2(lambda: Http2Pod(self), self)
        except OtherProtocolError:
            self._refuse()
            return
        except OSError as error:
            self._fail(connect_error(error), connect_cause(error))
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(_SETTLE_SECONDS):
                await upstream.has_begun.wait()
        if upstream.is_foreign:
            self._refuse()
        elif not upstream.settled and upstream.transport.is_closing():
            self._fail(DROPPED, "connect-failed")
        else:
            self._share(upstream)

    def _share(self, upstream: Http2Pod) -> None:
        """Give a new connection to those that wait; who finds no room opens the next one."""
        self._dialing = False
        self.pool.reachable = True
        # Not before: over TLS a pod proves only now that it is one of its namespace.
        if not upstream.transport.is_closing() and upstream not in self._connections:
            self._connections.append(upstream)
        waiting, self._waiting = self._waiting, []
        welcome = upstream.has_room()
        for asker in waiting:
            if upstream.has_room():
                asker.on_connected(PodStream(upstream))
            elif not welcome:
                asker.on_refused("the pod takes no streams")
            elif asker.wants_connection:
                self.dial(asker)

    @property
    def files(self) -> FileBudget:
        """The budget of open files."""
        return self.pool.files

    @property
    def wants_connection(self) -> bool:
        """See files.Waiter."""
        return any(asker.wants_connection for asker in self._waiting)

    def _refuse(self) -> None:
        self._dialing = False
        self.pool.speaks_http1()
        waiting, self._waiting = self._waiting, []
        for asker in waiting:
            asker.on_other_protocol("the pod does not speak HTTP/2")

    def _fail(self, error: str, cause: str) -> None:
        self._dialing = False
        error = self.pool.failed(error)
        waiting, self._waiting = self._waiting, []
        for asker in waiting:
            asker.on_dial_failed(error, cause)

    def take_idle(self) -> Http2Pod | None:
        """See files.Waiter: a request has ended on a connection, which has room again."""
        return self.take()

    def is_foreign(self) -> None:
        """Record that the pod does not speak HTTP/2."""
        self.pool.speaks_http1()

    def announced(self, streams: int) -> None:
        """Take how many streams a pod takes on a connection. One that takes none for now may take
        as many as before when it takes any: only a new connection tells."""
        self.capacity.most = streams or _FIRST_STREAMS

    def opened(self, upstream: Http2Pod) -> None:
        """Count a new connection."""
        self.pool.count()

    def closed(self, upstream: Http2Pod) -> None:
        """Forget a connection."""
        if upstream in self._connections:
            self._connections.remove(upstream)
        self.pool.uncount(upstream)

    def close_idle(self, before: float) -> None:
        """Close the connections that have been idle since before that time."""
        for connection in list(self._connections):
            if connection.is_idle_since(before):
                connection.close()

    def close_oldest_idle(self) -> Http2Pod | None:
        """Close a connection that is idle, and return it; None without one."""
        idle = [
            each for each in self._connections if each.has_no_request() and not each.is_ending()
        ]
        if not idle:
            return None
        oldest = min(idle, key=lambda each: each.idle_since)
        oldest.close()
        return oldest

    def retire(self) -> None:
        """Take no more requests; what runs is finished."""
        for connection in list(self._connections):
            connection.retire()
