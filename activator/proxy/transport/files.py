"""The budget of open files: which connection gets one, waits for one, or closes for another.

Each client and each connection to a pod is an open file, so a request in flight has two. The kernel
gives the process a fixed number. A process that spends all of them on traffic cannot accept the
request for its metrics, probe a pod or read a manifest. So traffic has a budget, and the rest is
kept. Counts only; it knows no HTTP and no socket. Knative has no counterpart.
"""

from __future__ import annotations

import asyncio
import logging
import resource
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from activator.process.logs import Repeats

logger = logging.getLogger(__name__)

#: What counts as the limit where the kernel has none.
_UNLIMITED: Final = 1 << 20
#: Share of the files of traffic that clients may have. The rest is left for pods, so that a queue
#: full of waiting clients can always be served.
_SHARE_FOR_CLIENTS: Final = 0.75
#: From this limit on the reserve and the door hold what uvloop accepts in one turn (4,096 on each
#: of two ports) and what silent clients that are turned away take up, at 10,000 a second.
_ROOMY: Final = 1 << 18
#: Seconds until those that wait are looked at again, whatever happens meanwhile.
_AGAIN: Final = 0.25
#: Requests in the queue from which on those of clients that have left are looked for.
_TIDY_AT: Final = 1024
#: Below this limit the shares are too small for more than a handful of requests.
LOW_LIMIT: Final = 256


@dataclass(frozen=True, slots=True)
class FileShares:
    """How the files of the process are shared out.

    Attributes:
        limit: open files that the process may have.
        reserve: for listeners, admin, metrics, discovery, logs and whatever else is no traffic.
        admin: of these, connections that each port for admin, metrics and profiles may have.
        probes: of the reserve, for probes when traffic has used up its own.
        rejected: for clients that are turned away, and for idle clients that are on their way out.
        traffic: for clients that are served, and for connections to pods.
        clients: of these, at most for clients.
    """

    limit: int
    reserve: int
    admin: int
    probes: int
    rejected: int
    traffic: int
    clients: int

    @property
    def roomy(self) -> bool:
        """Whether a listener need not pause: all connections of one turn fit in any case."""
        return self.limit >= _ROOMY

    def __str__(self) -> str:
        return (
            f"open files: limit {self.limit}, {self.traffic} for traffic (at most {self.clients} "
            f"of them for clients), {self.rejected} for clients that are turned away, "
            f"{self.reserve} in reserve"
        )


def share_out(limit: int) -> FileShares:
    """Return the shares of a limit of open files."""
    reserve = 64 + limit // 8
    rejected = max(limit // 16, 8)
    traffic = max(limit - reserve - rejected, limit // 4, 4)
    return FileShares(
        limit=limit,
        reserve=reserve,
        admin=min(max(limit // 32, 16), 128),
        probes=min(max(limit // 32, 8), 256),
        rejected=rejected,
        traffic=traffic,
        clients=max(1, int(_SHARE_FOR_CLIENTS * traffic)),
    )


def file_limit() -> int:
    """Return how many files this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _UNLIMITED if soft == resource.RLIM_INFINITY else soft


class Waiter(Protocol):
    """A request or a probe that waits for a file in order to connect to a pod."""

    @property
    def wants_connection(self) -> bool:
        """Whether it still needs the connection."""

    def take_idle(self) -> object | None:
        """Take a connection of its own pod that has become idle, if there is one."""


class _Place:
    """One waiter's place in the queue."""

    __slots__ = ("came", "waiter")

    def __init__(self, waiter: Waiter) -> None:
        self.waiter = waiter
        self.came: asyncio.Future[object | None] = asyncio.get_running_loop().create_future()


class FileBudget:
    """Counts the files of traffic, and queues the connections for which there is none.

    Arguments:
        shares: how many there are of each kind.

    Attributes:
        pods: connections to pods that are open, or being opened.
        waiting: how many connections to pods wait for a file. Each response looks at it.
        clients: returns how many files clients have.
        on_room: called when a file may have become free; listeners that pause wait for that.
    """

    def __init__(self, shares: FileShares | None = None) -> None:
        self.shares = share_out(file_limit()) if shares is None else shares
        self.pods = 0
        self.waiting = 0
        self.clients: Callable[[], int] = lambda: 0
        self.on_room: set[Callable[[], None]] = set()
        #: Pairs of functions, the cheapest loss first. The first closes one idle connection and
        #: returns whether there was one. The second returns how many of these are still open.
        self.idle: list[tuple[Callable[[], bool], Callable[[], int]]] = []
        self._probes: deque[_Place] = deque()
        self._requests: deque[_Place] = deque()
        self._looking = False
        self._again: asyncio.TimerHandle | None = None
        self._tidy_at = _TIDY_AT
        self._repeats = Repeats()

    @property
    def used(self) -> int:
        """How many files traffic has."""
        return self.clients() + self.pods

    def has_room(self, *, probe: bool = False) -> bool:
        """Return whether a connection to a pod may be opened."""
        shares = self.shares
        return self.used < shares.traffic + (shares.probes if probe else 0)

    def make_room(self) -> bool:
        """Close one idle connection; return whether there was one."""
        return any(close_one() for close_one, _ in self.idle)

    # -- connections to pods ---------------------------------------------------------------------

    async def take(self, waiter: Waiter, *, probe: bool = False) -> object | None:
        """Wait for a file to connect to a pod with.

        Arguments:
            probe: whether it may use the files that are kept for probes.

        Returns:
            None when the caller may open a file, which it has to ``release``; else a connection
            of its pod that has become idle meanwhile.

        Raises:
            ConnectionAbortedError: the waiter does not need the connection any more.
        """
        if not self.waiting and self.has_room(probe=probe):
            self.pods += 1
            return None
        place = _Place(waiter)
        (self._probes if probe else self._requests).append(place)
        self.waiting += 1
        self._look()
        if not probe:
            self._tidy()
        try:
            return await place.came
        except asyncio.CancelledError:
            if _is_granted(place.came):
                self.release()
            raise

    def release(self) -> None:
        """Return the file of a connection to a pod that is closed, or could not be opened."""
        self.pods -= 1
        self.freed()

    def freed(self) -> None:
        """Serve those that wait: a file, or a connection to a pod, may have become free."""
        if self._requests or self._probes or self.on_room:
            self._look()

    def _look(self) -> None:
        """Serve the queues in the next turn of the loop, when the caller's step is complete."""
        if not self._looking:
            self._looking = True
            asyncio.get_running_loop().call_soon(self._serve)

    def _serve(self) -> None:
        self._looking = False
        for queue, probe in ((self._probes, True), (self._requests, False)):
            while queue and self._serve_first(queue[0], probe=probe):
                queue.popleft()
                self.waiting -= 1
        leaving = sum(count() for _, count in self.idle)
        while leaving < self.waiting and self.make_room():
            leaving += 1
        if leaving < len(self._requests):
            self._warn(len(self._requests))
        if self.waiting and self._again is None:
            self._again = asyncio.get_running_loop().call_later(_AGAIN, self._serve_again)
        for wake in list(self.on_room):
            wake()

    def _serve_again(self) -> None:
        """Look again: a client counts as idle only after a while, and no event marks that."""
        self._again = None
        self._serve()

    def _serve_first(self, place: _Place, *, probe: bool) -> bool:
        """Return whether the first in a queue waits no more."""
        if place.came.done():
            return True
        if not place.waiter.wants_connection:
            place.came.set_exception(ConnectionAbortedError("the request has ended"))
            return True
        connection = place.waiter.take_idle()
        if connection is None:
            if not self.has_room(probe=probe):
                return False
            self.pods += 1
        place.came.set_result(connection)
        return True

    def _tidy(self) -> None:
        """Remove requests whose clients have left from the queue, when they may be many."""
        queue = self._requests
        if len(queue) < self._tidy_at:
            return
        for place in [each for each in queue if not each.waiter.wants_connection]:
            self._serve_first(place, probe=False)
        self._requests = deque(place for place in queue if not place.came.done())
        self.waiting = len(self._requests) + len(self._probes)
        self._tidy_at = max(_TIDY_AT, 2 * len(self._requests))

    def _warn(self, count: int) -> None:
        if self._repeats.admit("waiting", asyncio.get_running_loop().time()) is not None:
            logger.warning(
                "%d requests wait for a free file to connect to their pods: "
                "raise the limit of open files, which is %d",
                *(count, self.shares.limit),
            )


def _is_granted(came: asyncio.Future[object | None]) -> bool:
    """Whether a file was granted; not so where the wait was cancelled, or ended otherwise."""
    over = not came.done() or came.cancelled() or came.exception() is not None
    return not over and came.result() is None
