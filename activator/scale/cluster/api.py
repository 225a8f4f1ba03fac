"""Carries out one request for an object of an API server at a time: a write, or a read.

The back-off is the caller's: a slice has its own pauses, a workload the next tick.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

K = TypeVar("K")
W = TypeVar("W")

#: Starts a coroutine as a task.
Start = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]


class KeyedWriter(Generic[K, W]):
    """Carries out writes and reads: one at a time for each object, and ``most`` for all.

    The newest wish for an object counts. One that comes while another one of the object is carried
    out follows it.

    Arguments:
        start: starts a coroutine as a task.
        carry_out: carries out a wish for an object.
        most: writes at a time.
        refill: called after each write; it may put further wishes.
    """

    def __init__(
        self,
        start: Start,
        carry_out: Callable[[K, W], Coroutine[Any, Any, None]],
        most: float = float("inf"),
        refill: Callable[[], object] | None = None,
    ) -> None:
        self._start = start
        self._carry_out = carry_out
        self._most = most
        self._refill = refill
        self._waiting: dict[K, W] = {}
        self._next: dict[K, W] = {}
        self._writing: set[K] = set()
        self._tasks = 0

    def put(self, key: K, wish: W) -> None:
        """Carry out a wish as soon as no write of the object is under way."""
        if key in self._writing:
            self._next[key] = wish
            return
        is_new = key not in self._waiting
        self._waiting[key] = wish
        if is_new and self._tasks < self._most:
            self._tasks += 1
            self._start(self._work())

    def read(self, key: K, wish: W) -> None:
        """Carry out a wish that only reads, unless a wish for the object is about to do that."""
        if not self.is_busy(key):
            self.put(key, wish)

    def clear(self) -> None:
        """Remove all wishes that have not begun."""
        self._waiting.clear()
        self._next.clear()

    def is_busy(self, key: K) -> bool:
        """Return whether a wish for an object waits or is carried out."""
        return key in self._writing or key in self._waiting

    def has_next(self, key: K) -> bool:
        """Return whether a wish for an object has not begun."""
        return key in self._waiting or key in self._next

    @property
    def waiting(self) -> int:
        """The number of wishes that have not begun."""
        return len(self._waiting) + len(self._next)

    @property
    def has_room(self) -> bool:
        """Whether a further wish begins at once."""
        return len(self._waiting) + len(self._writing) < self._most

    async def _work(self) -> None:
        try:
            while self._waiting:
                key = next(iter(self._waiting))
                wish = self._waiting.pop(key)
                self._writing.add(key)
                try:
                    await self._carry_out(key, wish)
                finally:
                    self._writing.discard(key)
                    if key in self._next:
                        self._waiting[key] = self._next.pop(key)
                if self._refill is not None:
                    self._refill()
        finally:
            self._tasks -= 1


def micro_time(clock: datetime) -> str:
    """Return a time as MicroTime: RFC 3339 with exactly six decimals, which Lease requires."""
    return clock.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
