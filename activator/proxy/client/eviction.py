"""All connections of clients; which idle one is closed where there is no place for one more.

Idle connections stay open as long as there is room, as Knative's do. Where one more client comes
than there are places, one of them is evicted: first of those without any request, then of those in
HTTP/2, since GOAWAY loses no request, then of all. Of a few, the one that has been idle longest is
closed. Knows no HTTP and no socket.

Each connection has two references to its neighbours and one to its queue. An entry in a set and
one in an OrderedDict, which do the same, take 140 bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol, final

#: Connections that are looked at in one turn. They move to the end, so that the rest comes later.
_SAMPLE: Final = 16
#: Seconds of silence before which none is closed: its next request may be on its way.
_SILENCE: Final = 1.0


class Evictable(Protocol):
    """A client's connection.

    Attributes:
        idle_since: when its last request ended, or when it was made.
        queue: where it is; before, after: its neighbours there. Only this module sets these.
    """

    idle_since: float
    queue: EvictableQueue | None
    before: Evictable | None
    after: Evictable | None

    def may_be_evicted(self) -> bool:
        """Return whether nothing runs on it, and nothing of a request has been read."""

    def evict(self) -> bool:
        """Close, unless unread bytes have arrived; return whether it closes."""

    def drain(self) -> None:
        """Respond to requests that have no pod: the time to wait is over."""

    def force_end(self) -> None:
        """End each request that runs: the time to finish is over."""

    def shutdown(self) -> None:
        """Respond to the present requests, and to no more: the server stops."""


@final
class EvictableQueue:
    """Connections in the order in which they are looked at; each step is O(1)."""

    __slots__ = ("_first", "_last", "_size")

    def __init__(self) -> None:
        self._first: Evictable | None = None
        self._last: Evictable | None = None
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def first(self, most: int) -> list[Evictable]:
        """Return the first so many."""
        found: list[Evictable] = []
        connection = self._first
        while connection is not None and len(found) < most:
            found.append(connection)
            connection = connection.after
        return found

    def append(self, connection: Evictable) -> None:
        """Add one that is in no queue."""
        last = self._last
        connection.queue, connection.before, connection.after = self, last, None
        if last is None:
            self._first = connection
        else:
            last.after = connection
        self._last = connection
        self._size += 1

    def remove(self, connection: Evictable) -> None:
        """Remove one that is in this queue."""
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
    """The connections of all clients, by how little is lost with them.

    Attributes:
        turned_away: those for which there is no room; each gets one response.
    """

    def __init__(self) -> None:
        self._silent = EvictableQueue()
        self._http2 = EvictableQueue()
        self._http1 = EvictableQueue()
        self._evicted = EvictableQueue()
        self.turned_away = EvictableQueue()

    def __len__(self) -> int:
        return sum(map(len, self._queues()))

    def __iter__(self) -> Iterator[Evictable]:
        """Return all, as they are now: they may close meanwhile."""
        return iter(
            [connection for queue in self._queues() for connection in queue.first(len(queue))]
        )

    def _queues(self) -> tuple[EvictableQueue, ...]:
        return self._silent, self._http2, self._http1, self._evicted, self.turned_away

    def add(self, connection: Evictable, *, http2: bool = False) -> None:
        """Add a new connection, or one that speaks HTTP/2 from now on and was removed."""
        (self._http2 if http2 else self._silent).append(connection)

    def turn_away(self, connection: Evictable) -> None:
        """Add a new connection for which there is no room."""
        self.turned_away.append(connection)

    def on_first_request(self, connection: Evictable) -> None:
        """Record that a client has sent its first request."""
        _move(connection, self._http1)

    def remove(self, connection: Evictable) -> None:
        """Remove a connection that is closed; does nothing the second time."""
        if connection.queue is not None:
            connection.queue.remove(connection)

    @property
    def evicted(self) -> int:
        """How many have been evicted and are not closed yet."""
        return len(self._evicted)

    def make_room(self, now: float, most: int) -> bool:
        """Evict one client; return whether one closes.

        Arguments:
            now: seconds; most: how many may be closing at a time.
        """
        if len(self._evicted) >= most:
            return False
        for connections in (self._silent, self._http2, self._http1):
            for connection in _longest_idle(connections, now):
                if connection.evict():
                    _move(connection, self._evicted)
                    return True
        return False


def _move(connection: Evictable, to: EvictableQueue) -> None:
    """Move a connection to the end of a queue, out of the one that it is in."""
    if connection.queue is not None:
        connection.queue.remove(connection)
    to.append(connection)


def _longest_idle(connections: EvictableQueue, now: float) -> list[Evictable]:
    """Return those of the next few that may be evicted, the longest idle first."""
    found = []
    for connection in connections.first(_SAMPLE):
        _move(connection, connections)
        if connection.may_be_evicted() and connection.idle_since + _SILENCE <= now:
            found.append(connection)
    return sorted(found, key=lambda connection: connection.idle_since)
