"""Holds the objects that all connections of clients share: settings, limits, counters, warnings.

``Eviction`` lists all connections, and chooses the idle one to close when files run short. Idle
connections stay open while files are free, as in Knative. If files run short, a new client evicts
an idle connection. Connections without any request go first. Then HTTP/2 connections, since GOAWAY
loses no request, and at last all others. Of a few candidates, the one that has been idle longest is
closed. Each connection refers to its two neighbours and to its queue. An entry in a set and one in
an OrderedDict would do the same, and take 140 bytes.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import lru_cache
from math import inf
from typing import Final, final

from activator.process.logs import Repeats
from activator.process.timers import Tasks
from activator.proxy.client.heads_in_progress import HeadBudget
from activator.proxy.exchange.exchange import end_stranded
from activator.proxy.exchange.services import ProxyCounters, ProxyServices
from activator.proxy.message.own_responses import OwnResponse, too_many_connections, too_many_heads
from activator.proxy.message.request import RequestLimits
from activator.proxy.transport.peer_socket import PeerKind

#: Candidates of one eviction. They move to the end of their queue, so the next one sees others.
_SAMPLE: Final = 16
#: Seconds that a connection must have been idle, since its next request may be on its way.
_MIN_IDLE_SECONDS: Final = 1.0


class Evictable(ABC):
    """A connection of a client, as an element of a queue of ``Eviction``.

    Attributes:
        idle_since: when its last request ended, or when it was opened; seconds.
        queue: the ``EvictableQueue`` that it is in; only that class sets it.
        before, after: its neighbours in the queue; only that class sets them.
    """

    __slots__ = ("after", "before", "idle_since", "queue")

    def __init__(self) -> None:
        self.idle_since = -inf
        self.queue: EvictableQueue | None = None
        self.before: Evictable | None = None
        self.after: Evictable | None = None

    @abstractmethod
    def may_be_evicted(self) -> bool:
        """Return whether no request is in progress, and no byte of one has been read."""

    @abstractmethod
    def evict(self) -> bool:
        """Close for a new client; return whether it will close."""

    @abstractmethod
    def shutdown(self) -> None:
        """Finish the current requests and accept no others, because the server stops."""

    @abstractmethod
    def drain(self) -> None:
        """End the requests without a pod, because the time to wait for one is over."""

    @abstractmethod
    def force_end(self) -> None:
        """End every request, because the drain time is over."""


@final
class EvictableQueue:
    """Connections in the order in which they become candidates; each step is O(1).

    Attributes:
        size: how many there are; only this class sets it.
    """

    __slots__ = ("_first", "_last", "size")

    def __init__(self) -> None:
        self._first: Evictable | None = None
        self._last: Evictable | None = None
        self.size = 0

    def first(self, most: int) -> list[Evictable]:
        """Return at most ``most`` connections from the front."""
        found: list[Evictable] = []
        connection = self._first
        while connection is not None and len(found) < most:
            found.append(connection)
            connection = connection.after
        return found

    def append(self, connection: Evictable) -> None:
        """Append a connection that is in no queue."""
        last = self._last
        connection.queue, connection.before, connection.after = self, last, None
        if last is None:
            self._first = connection
        else:
            last.after = connection
        self._last = connection
        self.size += 1

    def remove(self, connection: Evictable) -> None:
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
        self.size -= 1


@final
class Eviction:
    """The connections of all clients, in the order in which they are evicted.

    Attributes:
        evicted: the evicted connections that are not closed yet.
        turned_away: the connections beyond the limit; each gets one response.
    """

    def __init__(self) -> None:
        self._silent = EvictableQueue()
        self._http2 = EvictableQueue()
        self._http1 = EvictableQueue()
        self._tcp = EvictableQueue()
        self._served = self._silent, self._http2, self._http1, self._tcp  # the first go first
        self.evicted = EvictableQueue()
        self.turned_away = EvictableQueue()

    def __len__(self) -> int:
        # Each new connection asks several times: a loop would cost as much as a system call.
        served = self._silent.size + self._http2.size + self._http1.size + self._tcp.size
        return served + self.evicted.size + self.turned_away.size

    def __iter__(self) -> Iterator[Evictable]:
        """Iterate over a copy, since connections may close meanwhile."""
        queues = (*self._served, self.evicted, self.turned_away)
        return iter([connection for queue in queues for connection in queue.first(queue.size)])

    def add(self, connection: Evictable, *, http2: bool = False) -> None:
        """Add a new connection, or one that was removed because it changes to HTTP/2."""
        (self._http2 if http2 else self._silent).append(connection)

    def on_first_request(self, connection: Evictable) -> None:
        """Record that a client has sent its first request."""
        _move(connection, self._http1)

    def keep(self, connection: Evictable) -> None:
        """Record that a connection of a TCP Service waits for a pod, or has one."""
        _move(connection, self._tcp)

    def remove(self, connection: Evictable) -> None:
        """Remove a closed connection; do nothing the second time."""
        if connection.queue is not None:
            connection.queue.remove(connection)

    def make_room(self, now: float, most: int) -> bool:
        """Evict one idle connection.

        Arguments:
            now: seconds.
            most: how many evicted connections may be closing at a time.

        Returns:
            Whether a connection closes.
        """
        if self.evicted.size >= most:
            return False
        for connections in self._served:
            for connection in _longest_idle(connections, now):
                if connection.evict():
                    _move(connection, self.evicted)
                    return True
        return False


def _move(connection: Evictable, to: EvictableQueue) -> None:
    """Move a connection from its queue to the end of another."""
    if connection.queue is not None:
        connection.queue.remove(connection)
    to.append(connection)


def _longest_idle(connections: EvictableQueue, now: float) -> list[Evictable]:
    """Return the next few connections that may be evicted, the longest idle first."""
    found = []
    for connection in connections.first(_SAMPLE):
        _move(connection, connections)
        if connection.may_be_evicted() and connection.idle_since + _MIN_IDLE_SECONDS <= now:
            found.append(connection)
    return sorted(found, key=lambda connection: connection.idle_since)


logger = logging.getLogger(__name__)

#: The message that ends because its receiver does not read.
_NOT_READ = {PeerKind.CLIENT: "a response to client", PeerKind.POD: "a request to pod"}
#: The part of the clients' files for clients in a TLS handshake. So clients that send nothing
#: cannot use the files of clients on other ports.
_SHARE_FOR_HANDSHAKES = 0.5
#: How an IPv6 socket shows an IPv4 address (RFC 4291, section 2.5.5.2).
_MAPPED: Final = "::ffff:"


@lru_cache(maxsize=256)  # an ingress has many connections from a few addresses
def address_of(peer: str) -> bytes:
    """Return an IP address as bytes; all connections of a client share one object.

    A socket for both families shows an IPv4 client as ``::ffff:10.0.0.1``. Pods and logs get the
    IPv4 address.
    """
    return peer.removeprefix(_MAPPED).encode()


class Proxy:
    """The objects and settings that all connections share.

    Arguments:
        services: the objects of exchanges. Some may change at any time: tracer, request log,
            draining.
        request_limits: the limits of a request head.
        header_timeout: seconds for a request head to arrive.
        unfinished_header_bytes: limit of the bytes of all in-progress request heads.
        unhealthy: returns why the activator is not ready; empty while it is ready.

    Attributes:
        max_connections: connections beyond this number get 503.
        connections: all connections of clients.
        turned_away: the connections beyond the limit; each gets one response.
        arrivals: the tasks of accepted sockets that are no connections yet.
        handshakes: how many of these are in a TLS handshake.
    """

    def __init__(
        self,
        services: ProxyServices,
        *,
        request_limits: RequestLimits,
        header_timeout: float,
        unfinished_header_bytes: int = 32 << 20,
        unhealthy: Callable[[], str],
    ) -> None:
        self.services = services
        self.driver, self.pools, self.timers = services.driver, services.pools, services.timers
        self.clock = self.driver.clock
        self.request_limits = request_limits
        self.driver.on_stranded = end_stranded
        self.header_timeout = header_timeout
        self.unread = self.pools.unread
        self.unread.on_ended = self._log_ended
        self.head_budget = HeadBudget(unfinished_header_bytes)
        self.unhealthy = unhealthy
        self.counters: ProxyCounters = self.services.counters
        self.files = files = self.pools.files
        files.clients = self._places
        files.idle.append((self._evict_one, lambda: self.connections.evicted.size))
        self.max_connections = files.shares.clients
        self.connections = Eviction()
        self.turned_away = self.connections.turned_away
        self.arrivals = Tasks()
        self.handshakes = 0
        self._repeats: Repeats = self.services.repeats

    # -- room ------------------------------------------------------------------------------------

    def _places(self) -> int:
        """Return how many files belong to clients that are served, or that may be."""
        away = self.turned_away.size + self.connections.evicted.size
        return len(self.connections) + self.handshakes - away

    def _evict_one(self) -> bool:
        """Close an idle client; see files.FileBudget.idle."""
        return self.connections.make_room(self.clock(), 1 + self.files.shares.rejected // 2)

    def find_room(self) -> bool:
        """Return whether a new client may be served; evict an idle one if files run short."""
        files, places = self.files, self._places()
        if places >= self.max_connections:
            return self._evict_one()
        if places + files.pods < files.shares.traffic and not files.waiting:
            return True
        return files.make_room()

    def count_turned_away(self) -> None:
        """Count a new client beyond the limit, and log a warning now and then."""
        self.counters.turned_away += 1
        if self._repeats.admit("turned away", self.clock()) is not None:
            files = self.files
            logger.warning(
                "the limit of open files (%d) is reached: new clients get 503, or without HTTP are "
                "closed; raise it "
                "(open: %d clients, %d connections to pods)",
                *(files.shares.limit, self._places(), files.pods),
            )

    def remove(self, client: Evictable) -> None:
        """Remove a closed connection; its file is free."""
        self.connections.remove(client)
        self.files.freed()

    def may_accept(self, *, secure: bool) -> bool:
        """Return whether a connection may be accepted now; if not, the kernel keeps it."""
        if secure and self._too_many_handshakes():
            return False
        shares, files = self.files.shares, self.files
        here = len(self.connections) + len(self.arrivals) + files.pods
        return here < shares.traffic + shares.rejected

    def _too_many_handshakes(self) -> bool:
        return self.handshakes >= max(1, int(_SHARE_FOR_HANDSHAKES * self.max_connections))

    def handshake_began(self) -> None:
        """Count an accepted connection whose TLS handshake begins."""
        self.handshakes += 1

    def handshake_failed(self) -> None:
        """Count no more a connection whose TLS handshake has failed."""
        self.handshakes -= 1
        self.files.freed()

    def on_room(self, notify: Callable[[], None], *, wanted: bool) -> None:
        """Start or stop to notify a listener whenever a file may be free."""
        (self.files.on_room.add if wanted else self.files.on_room.discard)(notify)
        if not wanted or not self._too_many_handshakes():
            return
        if self._repeats.admit("handshakes", self.clock()) is not None:
            logger.warning(
                "%d TLS handshakes are in progress: further clients wait to be accepted",
                self.handshakes,
            )

    def too_many_connections(self) -> OwnResponse:
        """Return the response to a client beyond the limit of connections."""
        return too_many_connections(self.services.retry_after())

    def too_many_heads(self) -> OwnResponse:
        """Return the response to a head beyond the budget, and log a warning now and then."""
        self.log_too_many_heads()
        return too_many_heads(self.services.retry_after())

    def log_too_many_heads(self) -> None:
        """Log now and then that in-progress heads have used up their budget."""
        if self._repeats.admit("unfinished heads", self.clock()) is not None:
            used = self.head_budget.bytes
            logger.warning("%d bytes of in-progress request heads: further heads are refused", used)

    def _log_ended(self, peer: PeerKind, address: str) -> None:
        """Log now and then that a peer's message ended because the peer did not read."""
        more = self._repeats.admit(("unread", peer), self.clock())
        if more is not None:
            logger.warning(
                "unread bytes reached the limit of %d: ended %s %s, which had not "
                "read for the longest time (and %d others since the last such line)",
                *(self.unread.most, _NOT_READ[peer], address, more),
            )

    def drain(self) -> None:
        """Respond to requests without a pod, because the time to wait for one is over."""
        for downstream in self.connections:
            downstream.drain()

    def force_end(self) -> int:
        """End every request, because the drain time is over; return the number of connections."""
        connections = list(self.connections)
        for downstream in connections:
            downstream.force_end()
        return len(connections)
