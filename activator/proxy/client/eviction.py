"""Lists all connections of clients, and chooses the idle one to close when files run short.

Idle connections stay open while files are free, as in Knative. If files run short, a new client
evicts an idle connection. Connections without any request go first. Then HTTP/2 connections, since
GOAWAY loses no request, and at last all others. Of a few candidates, the one that has been idle
longest is closed. Pure.

Each connection refers to its two neighbours and to its queue. An entry in a set and one in an
OrderedDict would do the same, and take 140 bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, final

if TYPE_CHECKING:
    from activator.proxy.client.connection import ClientConnection

#: Candidates of one eviction. They move to the end of their queue, so the next one sees others.
_SAMPLE: Final = 16
#: Seconds that a connection must have been idle, since its next request may be on its way.
_MIN_IDLE_SECONDS: Final = 1.0


@final
class EvictableQueue:
    """Connections in the order in which they become candidates; each step is O(1)."""

    __slots__ = ("_first", "_last", "_size")

    def __init__(self) -> None:
        self._first: ClientConnection | None = None
        self._last: ClientConnection | None = None
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def first(self, most: int) -> list[ClientConnection]:
        """Return at most ``most`` connections from the front."""
        found: list[ClientConnection] = []
        connection = self._first
        while connection is not None and len(found) < most:
            found.append(connection)
            connection = connection.after
        return found

    def append(self, connection: ClientConnection) -> None:
        """Append a connection that is in no queue."""
        last = self._last
        connection.queue, connection.before, connection.after = self, last, None
        if last is None:
            self._first = connection
        else:
            last.after = connection
        self._last = connection
        self._size += 1

    def remove(self, connection: ClientConnection) -> None:
        """Remove a connection that is in this queue."""
        before, after = connection.before, connection.after
        if before is None:
            self._first = after
        else:
            before.after = after
        if after is None:
            self._last = before
        else:
            after.before = before
        connection.queue = connection.before = connection.after = None
        self._size -= 1


@final
class Eviction:
    """The connections of all clients, in the order in which they are evicted.

    Attributes:
        turned_away: the connections beyond the limit; each gets one response.
    """

    def __init__(self) -> None:
        self._silent = EvictableQueue()
        self._http2 = EvictableQueue()
        self._http1 = EvictableQueue()
        self._evicted = EvictableQueue()
        self.turned_away = EvictableQueue()

    def __len__(self) -> int:
        return sum(map(len, self._queues()))

    def __iter__(self) -> Iterator[ClientConnection]:
        """Iterate over a copy, since connections may close meanwhile."""
        return iter(
            [connection for queue in self._queues() for connection in queue.first(len(queue))]
        )

    def _queues(self) -> tuple[EvictableQueue, ...]:
        return self._silent, self._http2, self._http1, self._evicted, self.turned_away

    def add(self, connection: ClientConnection, *, http2: bool = False) -> None:
        """Add a new connection, or one that was removed because it changes to HTTP/2."""
        (self._http2 if http2 else self._silent).append(connection)

    def turn_away(self, connection: ClientConnection) -> None:
        """Add a new connection beyond the limit."""
        self.turned_away.append(connection)

    def on_first_request(self, connection: ClientConnection) -> None:
        """Record that a client has sent its first request."""
        _move(connection, self._http1)

    def remove(self, connection: ClientConnection) -> None:
        """Remove a closed connection; do nothing the second time."""
        if connection.queue is not None:
            connection.queue.remove(connection)

    @property
    def evicted(self) -> int:
        """The number of evicted connections that are not closed yet."""
        return len(self._evicted)

    def make_room(self, now: float, most: int) -> bool:
        """Evict one idle connection.

        Arguments:
            now: seconds.
            most: how many evicted connections may be closing at a time.

        Returns:
            Whether a connection closes.
        """
        if len(self._evicted) >= most:
            return False
        for connections in (self._silent, self._http2, self._http1):
            for connection in _longest_idle(connections, now):
                if connection.evict():
                    _move(connection, self._evicted)
                    return True
        return False


def _move(connection: ClientConnection, to: EvictableQueue) -> None:
    """Move a connection from its queue to the end of another."""
    if connection.queue is not None:
        connection.queue.remove(connection)
    to.append(connection)


def _longest_idle(connections: EvictableQueue, now: float) -> list[ClientConnection]:
    """Return the next few connections that may be evicted, the longest idle first."""
    found = []
    for connection in connections.first(_SAMPLE):
        _move(connection, connections)
        if connection.may_be_evicted() and connection.idle_since + _MIN_IDLE_SECONDS <= now:
            found.append(connection)
    return sorted(found, key=lambda connection: connection.idle_since)
