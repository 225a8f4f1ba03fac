"""Limits, budgets and counts that the pools of all pods share; closes idle connections in turn."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Protocol, final

from activator.proxy.transport.files import FileBudget
from activator.proxy.transport.peer_socket import UnreadBytes


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """Limits of idle connections, and of the time to open one.

    Attributes:
        max_idle: idle connections to all pods (Knative: 1,000).
        kept_per_pod: idle connections to one pod that stay although requests did not need them
            lately (Knative keeps at most 100).
        connect_timeout: seconds.
    """

    max_idle: int = 1000
    kept_per_pod: int = 100
    connect_timeout: float = 1.0


class IdlePool(Protocol):
    """A pool that may have idle connections.

    Attributes:
        may_have_idle: whether ``Resources`` searches the pool for one.
    """

    may_have_idle: bool

    def close_oldest_idle(self) -> object | None:
        """Close the connection that has been idle for longest, and return it; None without one."""


@final
class Resources:
    """Limits, budgets and counts that the pools of all pods share.

    Arguments:
        limits: the limits of idle connections.
        start: runs a coroutine, and keeps a reference to its task.
        clock: returns the time in seconds, monotonic.
        unread: the budget of bytes that pods and clients do not read.

    Attributes:
        files: the budget of open files.
        idle: number of idle connections in HTTP/1; connections: number of all connections.
        closing: idle connections that close because files are short.
        now: the time of the last search for expired connections, exact enough for idle times.
    """

    __slots__ = (
        "_with_idle",
        "clock",
        "closing",
        "connections",
        "files",
        "idle",
        "limits",
        "now",
        "start",
        "unread",
    )

    def __init__(
        self,
        limits: PoolLimits,
        start: Callable[[Coroutine[None, None, None]], object],
        clock: Callable[[], float],
        unread: UnreadBytes,
    ) -> None:
        self.limits = limits
        self.start = start
        self.clock = clock
        self.now = clock()
        self.unread = unread
        self.files = FileBudget()
        self.files.idle.append((self.close_one_idle, self._count_closing))
        self.idle = 0
        self.connections = 0
        self.closing: set[object] = set()
        self._with_idle: dict[IdlePool, None] = {}

    def _count_closing(self) -> int:
        return len(self.closing)

    def closed(self, connection: object) -> None:
        """Count a connection that has closed, and release its file."""
        self.connections -= 1
        self.closing.discard(connection)
        self.files.release()

    def with_idle(self, pool: IdlePool) -> None:
        """Search a pool for idle connections from now on, until a search finds none."""
        pool.may_have_idle = True
        self._with_idle[pool] = None

    def remove(self, pool: IdlePool) -> None:
        """Search a pool no longer, because it keeps no connections."""
        pool.may_have_idle = False
        self._with_idle.pop(pool, None)

    def close_one_idle(self) -> bool:
        """Close an idle connection, each time to another pod; return whether there was one.

        This costs O(1) in pods, because no pool without idle connections is searched twice.
        """
        while self._with_idle:
            pool = next(iter(self._with_idle))
            del self._with_idle[pool]
            connection = pool.close_oldest_idle()
            if connection is not None:
                self._with_idle[pool] = None
                self.closing.add(connection)
                return True
            pool.may_have_idle = False
        return False
