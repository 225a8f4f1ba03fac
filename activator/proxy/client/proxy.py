"""What all connections of clients share: settings, bounds, counters, and log lines about them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from activator.driver import Driver
from activator.process.logs import Repeats
from activator.process.tasks import Tasks
from activator.process.timers import Timers
from activator.proxy.client.eviction import Evictable, Eviction
from activator.proxy.client.head_budget import HeadBudget
from activator.proxy.exchange.pod_wait import WARM
from activator.proxy.exchange.services import ProxyCounters, Services
from activator.proxy.exchange.sides import PodPools
from activator.proxy.message.own_responses import OwnResponse, too_many_connections, too_many_heads
from activator.proxy.message.request import RequestLimits
from activator.proxy.transport.unread import Peer

logger = logging.getLogger(__name__)

#: What is ended where a peer does not read.
_NOT_READ = {Peer.CLIENT: "a response to client", Peer.POD: "a request to pod"}
#: Share of the clients' files for those whose TLS has not begun, so that a client that sends
#: nothing takes no place from those on other ports.
_SHARE_FOR_HANDSHAKES = 0.5
#: Addresses of clients that are remembered: an ingress has many connections from a few addresses.
_MOST_ADDRESSES: Final = 256


class Proxy:
    """What all connections share.

    Arguments:
        hold_bytes: bytes of a body that are read while its request waits, or kept to repeat it.
        header_timeout: seconds for a request head to arrive.
        unfinished_header_bytes: bytes of all in-progress request heads.
        idle_from_arrival: whether a revision's idle time-out counts while a request waits.
        unhealthy: says why we are not ready, or nothing.
        server_timing: whether responses that waited say for how long, in ``Server-Timing``.
        cold_start_header: whether responses say whether they waited for a pod to start.

    Attributes:
        services: what exchanges use, and what may change at any time: tracer, request log,
            draining.
    """

    def __init__(
        self,
        driver: Driver,
        pools: PodPools,
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
        self.services = Services(
            driver,
            pools,
            hold_bytes=hold_bytes,
            idle_from_arrival=idle_from_arrival,
            server_timing=server_timing,
            notes=WARM if cold_start_header else b"",
        )
        self.header_timeout = header_timeout
        self.unread = pools.unread
        self.unread.on_ended = self._log_ended
        self.head_budget = HeadBudget(unfinished_header_bytes)
        self.unhealthy = unhealthy
        self.counters: ProxyCounters = self.services.counters
        self.files = files = pools.files
        files.clients = self._places
        files.idle.append((self._evict_one, lambda: self.connections.evicted))
        #: Connections of clients beyond this are turned away.
        self.max_connections = files.shares.clients
        self.connections = Eviction()
        #: Connections for which there is no room; each gets one response.
        self.turned_away = self.connections.turned_away
        self._addresses: dict[str, bytes] = {}
        #: Clients that are no connections yet; and how many of them are in a TLS handshake.
        self.arrivals = Tasks()
        self.handshakes = 0
        self._repeats: Repeats = self.services.repeats

    # -- room ------------------------------------------------------------------------------------

    def _places(self) -> int:
        """Return how many files clients have that are served, or are to be."""
        away = len(self.turned_away) + self.connections.evicted
        return len(self.connections) + self.handshakes - away

    def _evict_one(self) -> bool:
        """Close an idle client; see files.FileBudget.idle."""
        return self.connections.make_room(self.clock(), 1 + self.files.shares.rejected // 2)

    def find_room(self) -> bool:
        """Return whether a new client may be served; what is idle is closed for it if need be."""
        files, places = self.files, self._places()
        if places >= self.max_connections:
            return self._evict_one()
        if places + files.pods < files.shares.traffic and not files.waiting:
            return True
        return files.make_room()

    def turn_away(self, client: Evictable) -> None:
        """Record that there is no room for a new client, and log it now and then."""
        self.connections.turn_away(client)
        self.counters.turned_away += 1
        if self._repeats.admit("turned away", self.clock()) is not None:
            files = self.files
            logger.warning(
                "no file is free for more clients, %d clients and %d connections to pods are open: "
                "new clients get 503; raise the limit of open files, which is %d",
                *(self._places(), files.pods, files.shares.limit),
            )

    def remove(self, client: Evictable) -> None:
        """Remove a connection that is closed; its file is free."""
        self.connections.remove(client)
        self.files.freed()

    def address(self, peer: str) -> bytes:
        """Return an IP address as requests name it: one object for all connections of a client."""
        known = self._addresses
        address = known.get(peer)
        if address is None:
            if len(known) >= _MOST_ADDRESSES:
                known.clear()
            address = known[peer] = peer.encode()
        return address

    def may_accept(self, *, secure: bool) -> bool:
        """See listener.Gate."""
        if secure and self._too_many_handshakes():
            return False
        shares, files = self.files.shares, self.files
        here = len(self.connections) + len(self.arrivals) + files.pods
        return here < shares.traffic + shares.rejected

    def _too_many_handshakes(self) -> bool:
        return self.handshakes >= max(1, int(_SHARE_FOR_HANDSHAKES * self.max_connections))

    def handshake_began(self) -> None:
        """See listener.Gate."""
        self.handshakes += 1

    def handshake_failed(self) -> None:
        """See listener.Gate."""
        self.handshakes -= 1
        self.files.freed()

    def on_room(self, wake: Callable[[], None], *, wanted: bool) -> None:
        """See listener.Gate."""
        (self.files.on_room.add if wanted else self.files.on_room.discard)(wake)
        if not wanted or not self._too_many_handshakes():
            return
        if self._repeats.admit("handshakes", self.clock()) is not None:
            logger.warning(
                "%d clients have not ended their TLS handshakes: more wait to be accepted",
                self.handshakes,
            )

    def too_many_connections(self) -> OwnResponse:
        """Return the response to a client for which there is no room."""
        return too_many_connections(self.services.retry_after())

    def too_many_heads(self) -> OwnResponse:
        """Return the response to a head that has no room, and log it now and then."""
        self.log_too_many_heads()
        return too_many_heads(self.services.retry_after())

    def log_too_many_heads(self) -> None:
        """Log now and then that an in-progress head was refused for want of room."""
        if self._repeats.admit("unfinished heads", self.clock()) is not None:
            used = self.head_budget.bytes
            logger.warning("%d bytes of in-progress request heads, more are refused", used)

    def _log_ended(self, peer: Peer, address: str) -> None:
        """Log now and then that a peer which does not read was ended; see unread."""
        more = self._repeats.admit(("unread", peer), self.clock())
        if more is not None:
            logger.warning(
                "unread bytes reached the limit of %d: ended %s %s, which had not "
                "read for the longest time (and %d others since the last such line)",
                *(self.unread.most, _NOT_READ[peer], address, more),
            )

    def drain(self) -> None:
        """Respond to what still waits for a pod: the time to wait is over."""
        for downstream in self.connections:
            downstream.drain()

    def force_end(self) -> int:
        """End every request: the time to finish is over. Return how many connections there are."""
        connections = list(self.connections)
        for downstream in connections:
            downstream.force_end()
        return len(connections)
