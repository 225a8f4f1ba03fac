"""What the pools of all pods share: limits, budgets, counts, and which pool closes an idle one."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Protocol, final

from activator.proxy.transport.files import FileBudget
from activator.proxy.transport.unread import UnreadBytes


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """Bounds on idle connections, and on the time to open one.

    Attributes:
        max_idle: in all (Knative: 1,000); max_idle_per_pod: to one pod (Knative: 100).
        connect_timeout: seconds.
    """

    max_idle: int = 1000
    max_idle_per_pod: int = 100
    connect_timeout: float = 1.0


class IdlePool(Protocol):
    """A pool that may have idle connections.

    Attributes:
        may_have_idle: whether ``Resources`` searches it for one.
    """

    may_have_idle: bool

    def close_oldest_idle(self) -> object | None:
        """Close the connection that has been idle longest, and return it; None without one."""


@final
class Resources:
    """What the pools of all pods share.

    Arguments:
        limits: bounds on idle connections.
        start: runs a coroutine and holds on to its task.
        clock: seconds, monotonic.
        unread: bytes that pods, and clients, do not read.

    Attributes:
        files: the budget of open files.
        idle: how many connections in HTTP/1 are idle; connections: how many there are of all.
        closing: idle connections that are being closed, since a file is short.
        now: the time at the last search for expired connections, which is exact enough for them.
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
        self.files.idle.append((self.close_one_idle, self._count_leaving))
        self.idle = 0
        self.connections = 0
        self.closing: set[object] = set()
        self._with_idle: dict[IdlePool, None] = {}

    def _count_leaving(self) -> int:
        return len(self.closing)

    def closed(self, connection: object) -> None:
        """Count a connection that has closed; its file is free."""
        self.connections -= 1
        self.closing.discard(connection)
        self.files.release()

    def with_idle(self, pool: IdlePool) -> None:
        """Remember that a pool has an idle connection, until a search finds none."""
        pool.may_have_idle = True
        self._with_idle[pool] = None

    def remove(self, pool: IdlePool) -> None:
        """Search a pool no more: it keeps no connection."""
        pool.may_have_idle = False
        self._with_idle.pop(pool, None)

    def close_one_idle(self) -> bool:
        """Close a connection that is idle, each time of another pod; return whether there is one.

        O(1) in pods, since a pool without an idle connection is not searched twice.
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
