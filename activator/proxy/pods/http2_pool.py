"""Connections to pods that carry many requests: one as long as it has room, then more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Final

from activator.keepalive import SocketKind, find_dead
from activator.proxy.http2.hpack import line
from activator.proxy.pods.dial import DROPPED, OtherProtocolError, connect_cause, connect_error
from activator.proxy.pods.http2 import Http2Upstream
from activator.proxy.transport.files import FileBudget

if TYPE_CHECKING:
    from activator.proxy.exchange.http2_exchange import Http2Exchange
    from activator.proxy.pods.pools import Pool

#: Streams at a time as long as the pod has not said how many it takes (Go: the same).
_FIRST_STREAMS: Final = 100
#: Seconds for a pod to say that: with its first frame (RFC 9113 section 3.4), so nearly always in
#: one round trip. Servers of gRPC fail what is beyond their number, and do not refuse it.
_SETTLE_SECONDS: Final = 1.0


class Http2Pool:
    """The connections to one pod.

    Arguments:
        pool: the pod's connections of HTTP/1: knows where it is.
        start: runs a coroutine and holds on to its task.
        clock: seconds, monotonic.

    Attributes:
        most: streams that the pod takes on one connection, as far as it is known.
        bearable: the same, as its refusals show it: what a connection had left when it refused one
            more, and one more again at each answer. Else those that wait would all be refused once
            for each that is answered. What refuses all does not go by their number.
        answers: how many it has given.
    """

    def __init__(
        self,
        pool: Pool,
        start: Callable[[Coroutine[None, None, None]], object],
        clock: Callable[[], float],
    ) -> None:
        self.pool = pool
        self.clock = clock
        self._start = start
        self._connections: list[Http2Upstream] = []
        self.most = _FIRST_STREAMS
        self.bearable = inf
        self.answers = 0
        self._waiting: list[Http2Exchange] = []
        self._dialing = False
        self._host_lines = b""
        self._host_blocks = b"", b""

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

    def take(self) -> Http2Upstream | None:
        """Return a connection with room for one more request, or None."""
        for connection in self._connections:
            if connection.has_room():
                return connection
        return None

    def dial(self, exchange: Http2Exchange) -> None:
        """Open a connection; what asks for one meanwhile gets the same."""
        self._waiting.append(exchange)
        if not self._dialing:
            self._dialing = True
            self._start(self._dial())

    async def _dial(self) -> None:
        try:
            upstream = await self.pool.open(lambda: Http2Upstream(self), inf, self, http2=True)
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

    def _share(self, upstream: Http2Upstream) -> None:
        """Give a new connection to those that wait; who finds no room opens the next one."""
        self._dialing = False
        self.pool.reachable = True
        # Not before: over TLS a pod proves only now that it is one of its namespace.
        if not upstream.transport.is_closing() and upstream not in self._connections:
            self._connections.append(upstream)
        waiting, self._waiting = self._waiting, []
        welcome = upstream.has_room()
        for exchange in waiting:
            if upstream.has_room():
                exchange.on_connected(upstream)
            elif not welcome:
                exchange.on_refused("the pod takes no streams")
            elif exchange.wants_connection:
                self.dial(exchange)

    @property
    def files(self) -> FileBudget:
        """The budget of open files."""
        return self.pool.files

    @property
    def wants_connection(self) -> bool:
        """See files.Waiter."""
        return any(exchange.wants_connection for exchange in self._waiting)

    def _refuse(self) -> None:
        self._dialing = False
        waiting, self._waiting = self._waiting, []
        for exchange in waiting:
            exchange.on_other_protocol()

    def _fail(self, error: str, cause: str) -> None:
        self._dialing = False
        error = self.pool.failed(error)
        waiting, self._waiting = self._waiting, []
        for exchange in waiting:
            exchange.on_dial_failed(error, cause)

    def take_idle(self) -> Http2Upstream | None:
        """See files.Waiter: a request has ended on a connection, which has room again."""
        return self.take()

    def announced(self, streams: int) -> None:
        """Take how many streams a pod takes on a connection. One that takes none for now may take
        as many as before when it takes any: only a new connection tells."""
        self.most = streams or _FIRST_STREAMS

    def opened(self, upstream: Http2Upstream) -> None:
        """Count a new connection."""
        self.pool.count()
        # No PING: servers of gRPC end connections on which many come.
        find_dead(upstream.transport.get_extra_info("socket"), SocketKind.POD)

    def closed(self, upstream: Http2Upstream) -> None:
        """Forget a connection."""
        if upstream in self._connections:
            self._connections.remove(upstream)
        self.pool.uncount(upstream)

    def close_idle(self, before: float) -> None:
        """Close the connections that have been idle since before that time."""
        for connection in list(self._connections):
            if not connection.streams and connection.idle_since < before:
                connection.close()

    def close_oldest_idle(self) -> Http2Upstream | None:
        """Close a connection that is idle, and return it; None without one."""
        idle = [each for each in self._connections if not each.streams and not each.ending]
        if not idle:
            return None
        oldest = min(idle, key=lambda each: each.idle_since)
        oldest.close()
        return oldest

    def retire(self) -> None:
        """Take no more requests; what runs is finished."""
        for connection in list(self._connections):
            connection.retire()
