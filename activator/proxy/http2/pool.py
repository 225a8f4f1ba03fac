"""Connections to pods that carry many requests: one as long as it has room, then more."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Final

from activator.proxy.dial import connect, connect_cause, connect_error
from activator.proxy.http2.hpack import line
from activator.proxy.http2.upstream import Http2Upstream

if TYPE_CHECKING:
    from activator.proxy.http2.exchange import Http2Exchange
    from activator.proxy.pool import Pool

#: Streams at a time as long as the pod has not said how many it takes (Go: the same).
_FIRST_STREAMS: Final = 100


class Http2Pool:
    """The connections to one pod.

    Arguments:
        pool: the pod's connections of HTTP/1: knows where it is.
        start: runs a coroutine and holds on to its task.
        within: seconds to open a connection.
        clock: seconds, monotonic.

    Attributes:
        most: streams that the pod takes on one connection, as far as it is known.
    """

    def __init__(
        self,
        pool: Pool,
        start: Callable[[Coroutine[None, None, None]], object],
        within: float,
        clock: Callable[[], float],
    ) -> None:
        self.pool = pool
        self.clock = clock
        self._start = start
        self._within = within
        self._connections: list[Http2Upstream] = []
        self.most = _FIRST_STREAMS
        self._waiting: list[Http2Exchange] = []
        self._dialing = False
        self._host_lines = b""
        self._host_block = b""

    @property
    def host_block(self) -> bytes:
        """The request fields that say which pod is asked, :authority first."""
        if self._host_lines is not self.pool.host_lines:
            self._host_lines = self.pool.host_lines
            fields = [each.split(b": ", 1) for each in self._host_lines.split(b"\r\n")[:-1]]
            self._host_block = b"".join(
                line(b":authority" if name == b"Host" else name.lower(), value)
                for name, value in fields
            )
        return self._host_block

    def take(self) -> Http2Upstream | None:
        """Return a connection with room for one more request, or None."""
        for connection in self._connections:
            if connection.has_room:
                return connection
        return None

    def dial(self, exchange: Http2Exchange) -> None:
        """Open a connection; what asks for one meanwhile gets the same."""
        self._waiting.append(exchange)
        if not self._dialing:
            self._dialing = True
            self._start(self._dial())

    async def _dial(self) -> None:
        upstream = Http2Upstream(self)
        try:
            await connect(upstream, self.pool.host, self.pool.port, self._within)
        except OSError as error:
            self._fail(connect_error(error), connect_cause(error))
            return
        self._dialing = False
        self.pool.reachable = True
        waiting, self._waiting = self._waiting, []
        for at, exchange in enumerate(waiting):
            if upstream.has_room:
                exchange.on_connected(upstream)
            elif at and exchange.wants_connection:
                self.dial(exchange)
            elif exchange.wants_connection:
                exchange.on_dial_failed("the pod closed the new connection", "connect-failed")

    def _fail(self, error: str, cause: str) -> None:
        self._dialing = False
        self.pool.reachable = False
        waiting, self._waiting = self._waiting, []
        for exchange in waiting:
            exchange.on_dial_failed(error, cause)

    def opened(self, upstream: Http2Upstream) -> None:
        """Count a new connection."""
        self._connections.append(upstream)
        self.pool.count(1)

    def closed(self, upstream: Http2Upstream) -> None:
        """Forget a connection."""
        self._connections.remove(upstream)
        self.pool.count(-1)

    def close_idle(self, before: float) -> None:
        """Close the connections that have been idle since before that time."""
        for connection in list(self._connections):
            if not connection.streams and connection.idle_since < before:
                connection.close()

    def retire(self) -> None:
        """Take no more requests; what runs is finished."""
        for connection in list(self._connections):
            connection.retire()
