"""Shares out open files: a connection gets one, waits for one, or closes for another.

Each client and each connection to a pod is an open file, so a request in flight uses two. The
kernel gives the process a fixed number. If traffic used all of them, the process could not serve
metrics, probe a pod or read a manifest. So traffic has a budget, and the rest is a reserve. This
module only counts. It uses no HTTP and no socket. Knative has no counterpart.
"""

from __future__ import annotations

import asyncio
import logging
import resource
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from activator.process.logs import Repeats

logger = logging.getLogger(__name__)

#: The limit if the kernel has none.
_UNLIMITED: Final = 1 << 20
#: Share of traffic's files for clients. The rest is for connections to pods, so that a full queue
#: can always be served.
_SHARE_FOR_CLIENTS: Final = 0.75
#: From this limit on, the reserve and the share for rejected clients suffice for two peaks. uvloop
#: accepts 4,096 connections on each of two ports in one turn. Rejected clients may stay silent, at
#: 10,000 new ones a second.
_ROOMY: Final = 1 << 18
#: Seconds until the budget serves its queues again without an event.
_SERVE_EVERY: Final = 0.25
#: Length of the queue from which on the budget removes requests of clients that have left.
_CLEAN_AT: Final = 1024
#: Below this limit the shares suffice for only a few requests.
LOW_LIMIT: Final = 256


@dataclass(frozen=True, slots=True)
class FileShares:
    """The shares of the process's open files.

    Attributes:
        limit: open files that the process may have.
        reserve: for listeners, admin, metrics, discovery, logs and all else that is not traffic.
        admin: part of the reserve: most connections of each port for admin, metrics and profiles.
        probes: part of the reserve for probes, when traffic has used all of its own files.
        rejected: for clients that get an error response at once, and for idle clients that close.
        traffic: for clients that are served, and for connections to pods.
        clients: most of traffic's files that clients may have.
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
        """Whether all connections of one turn of the loop fit, so that no listener has to pause."""
        return self.limit >= _ROOMY

    def __str__(self) -> str:
        return (
            f"open files: limit {self.limit}, {self.traffic} for traffic (at most {self.clients} "
            f"of them for clients), {self.rejected} for clients that are rejected, "
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
        """Whether it still needs a connection."""

    def take_idle(self) -> object | None:
        """Return a connection of its own pod that has become idle; None without one."""


class _Entry(NamedTuple):
    """The entry of one waiter in a queue."""

    waiter: Waiter
    granted: asyncio.Future[object | None]


class FileBudget:
    """Counts the files of traffic, and queues connections to pods while there is no free file.

    Arguments:
        shares: the number of files of each kind; by default from the limit of the process.

    Attributes:
        pods: number of connections to pods that are open, or being opened.
        waiting: number of connections to pods that wait for a file. Each response reads it.
        clients: returns the number of files that clients have.
        on_room: called when a file may be free; paused listeners resume then.
    """

    def __init__(self, shares: FileShares | None = None) -> None:
        self.shares = share_out(file_limit()) if shares is None else shares
        self.pods = 0
        self.waiting = 0
        self.clients: Callable[[], int] = lambda: 0
        self.on_room: set[Callable[[], None]] = set()
        #: Pairs of functions, the cheapest loss first. The first function closes one idle
        #: connection, and returns whether there was one. The second returns how many connections
        #: that the first closed are still open.
        self.idle: list[tuple[Callable[[], bool], Callable[[], int]]] = []
        self._probes: deque[_Entry] = deque()
        self._requests: deque[_Entry] = deque()
        self._is_due = False
        self._timer: asyncio.TimerHandle | None = None
        self._clean_at = _CLEAN_AT
        self._repeats = Repeats()

    @property
    def used(self) -> int:
        """The number of files that traffic has."""
        return self.clients() + self.pods

    def has_room(self, *, probe: bool = False) -> bool:
        """Return whether the budget has a file for a connection to a pod.

        Arguments:
            probe: whether the connection may use the files for probes.
        """
        shares = self.shares
        return self.used < shares.traffic + (shares.probes if probe else 0)

    def make_room(self) -> bool:
        """Close one idle connection; return whether there was one."""
        return any(close_one() for close_one, _ in self.idle)

    # -- connections to pods ---------------------------------------------------------------------

    def take_now(self, *, probe: bool = False) -> bool:
        """Return whether the caller may open a file at once; see ``take``."""
        if self.waiting or not self.has_room(probe=probe):
            return False
        self.pods += 1
        return True

    async def take(self, waiter: Waiter, *, probe: bool = False) -> object | None:
        """Wait for a file for a connection to a pod.

        Arguments:
            waiter: the request or probe that needs the connection.
            probe: whether it may use the files for probes.

        Returns:
            None if the caller may open a file; it calls ``release`` when the file is closed. Else
            a connection of its pod that has become idle meanwhile.

        Raises:
            ConnectionAbortedError: the waiter no longer needs the connection.
        """
        if self.take_now(probe=probe):
            return None
        entry = _Entry(waiter, asyncio.get_running_loop().create_future())
        (self._probes if probe else self._requests).append(entry)
        self.waiting += 1
        self._serve_soon()
        if not probe:
            self._remove_cancelled()
        try:
            return await entry.granted
        except asyncio.CancelledError:
            if _is_granted(entry.granted):
                self.release()
            raise

    def release(self) -> None:
        """Release the file of a connection to a pod that closed, or that could not be opened."""
        self.pods -= 1
        self.freed()

    def freed(self) -> None:
        """Serve the queues: a file, or a connection to a pod, may have become free."""
        if self._requests or self._probes or self.on_room:
            self._serve_soon()

    def _serve_soon(self) -> None:
        """Serve the queues in the next turn of the loop, when the caller's step is complete."""
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._serve)

    def _serve(self) -> None:
        self._is_due = False
        for queue, probe in ((self._probes, True), (self._requests, False)):
            while queue and self._serve_first(queue[0], probe=probe):
                queue.popleft()
                self.waiting -= 1
        closing = sum(count() for _, count in self.idle)
        while closing < self.waiting and self.make_room():
            closing += 1
        if closing < len(self._requests):
            self._warn(len(self._requests))
        if self.waiting and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_SERVE_EVERY, self._serve_again)
        for resume in list(self.on_room):
            resume()

    def _serve_again(self) -> None:
        """Serve the queues again: no event marks the moment at which a client counts as idle."""
        self._timer = None
        self._serve()

    def _serve_first(self, entry: _Entry, *, probe: bool) -> bool:
        """Serve the first entry of a queue if possible; return whether it no longer waits."""
        if entry.granted.done():
            return True
        if not entry.waiter.wants_connection:
            entry.granted.set_exception(ConnectionAbortedError("the request has ended"))
            return True
        connection = entry.waiter.take_idle()
        if connection is None:
            if not self.has_room(probe=probe):
                return False
            self.pods += 1
        entry.granted.set_result(connection)
        return True

    def _remove_cancelled(self) -> None:
        """Remove requests whose clients have left from a long queue."""
        queue = self._requests
        if len(queue) < self._clean_at:
            return
        for entry in [each for each in queue if not each.waiter.wants_connection]:
            self._serve_first(entry, probe=False)
        self._requests = deque(entry for entry in queue if not entry.granted.done())
        self.waiting = len(self._requests) + len(self._probes)
        self._clean_at = max(_CLEAN_AT, 2 * len(self._requests))

    def _warn(self, count: int) -> None:
        if self._repeats.admit("waiting", asyncio.get_running_loop().time()) is not None:
            logger.warning(
                "%d requests wait for a free file to connect to their pods: "
                "raise the limit of open files, which is %d",
                *(count, self.shares.limit),
            )


def _is_granted(granted: asyncio.Future[object | None]) -> bool:
    """Return whether the wait ended with a file: not by an error or a cancellation."""
    over = not granted.done() or granted.cancelled() or granted.exception() is not None
    return not over and granted.result() is None
