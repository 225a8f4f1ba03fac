"""What all connections of clients share: settings, bounds, counters, and what is logged of them."""

from __future__ import annotations

import logging
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import formatdate
from typing import Protocol

from activator.driver import Driver
from activator.logs import Repeats
from activator.proxy.eviction import Eviction
from activator.proxy.observers import RequestLog, Tracer
from activator.proxy.pool import ConnectionPools
from activator.proxy.replies import Reply, too_many_connections, too_many_unfinished
from activator.proxy.request import RequestLimits
from activator.proxy.unfinished import UnfinishedHeads
from activator.proxy.unread import Peer
from activator.proxy.wait import WARM
from activator.tasks import Tasks
from activator.timers import Timers
from throttler.model import RevisionID
from throttler.revision import RevisionThrottler

logger = logging.getLogger(__name__)

#: What is ended where a peer does not read.
_NOT_READ = {Peer.CLIENT: "response to client", Peer.POD: "request to pod"}
#: Share of the process's files that connections of clients may take. A request needs two, one of
#: them its pod's; those that wait need one.
_SHARE_FOR_CLIENTS = 0.75
#: Share of those, besides, for clients that have been sent away and are not gone yet.
_SHARE_LEAVING = 1 / 16
#: Share of those for clients whose TLS has not begun, so that who sends nothing takes no place from
#: those on other ports.
_SHARE_FOR_HANDSHAKES = 0.5


class Connected(Protocol):
    """A client's connection, as much of it as ends with all others."""

    def drain(self) -> None:
        """The time to wait is over: a request that has no pod is told so."""

    def cut(self) -> None:
        """The time to finish is over: whatever runs ends."""


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
        self.unread = pools.unread
        self.unread.on_ended = self._tell_ended
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
        self.connections: set[Connected] = set()
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

    def _tell_ended(self, peer: Peer, address: str) -> None:
        """Log now and then that a peer which does not read was ended; see unread."""
        more = self._repeats.admit(("unread", peer), self.clock())
        if more is not None:
            logger.warning(
                "unread bytes reached the limit of %d: ended the %s that had waited longest, %s "
                "(and %d others since the last such line)",
                *(self.unread.most, _NOT_READ[peer], address, more),
            )

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


def _file_limit() -> float:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if soft == resource.RLIM_INFINITY else soft
