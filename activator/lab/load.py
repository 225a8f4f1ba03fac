"""Steady traffic of one client, and what became of it.

Must not know what is done to the pods meanwhile.
"""

from __future__ import annotations

import asyncio
import time
from asyncio import Task, TaskGroup
from collections import Counter
from collections.abc import Callable, Coroutine
from statistics import median
from typing import Any

from activator.lab.client import Reply

#: Sends one request, given its method and the id that it is to have.
Ask = Callable[[str, str], Coroutine[Any, Any, Reply]]


class Load:
    """Requests at a steady pace, each on a connection of its own, until `stop`.

    Attributes:
        replies: answers by method, in the order in which they came.
        posts: the ids of all POSTs that were sent.
    """

    def __init__(self, ask: Ask, rate: float, posts: int = 0) -> None:
        """
        Arguments:
            ask: sends one request; may not raise.
            rate: requests a second.
            posts: every such request is a POST; 0 for none.
        """
        self._ask = ask
        self._rate = rate
        self._post_every = posts
        self._sent = 0
        self._stop = asyncio.Event()
        self._answered = asyncio.Event()
        self._running: Task[None] | None = None
        self.posts: set[str] = set()
        self.replies: dict[str, list[Reply]] = {"GET": [], "POST": []}

    def start(self, tasks: TaskGroup) -> None:
        """Begins; the caller must `stop`."""
        self._running = tasks.create_task(self._run())

    async def stop(self) -> None:
        """Sends no more, and returns when all is answered."""
        self._stop.set()
        if self._running is not None:
            await self._running

    async def more(self, count: int) -> None:
        """Returns when so many further requests were answered."""
        wanted = self._count + count
        while self._count < wanted:
            self._answered.clear()
            await self._answered.wait()

    def statuses(self, method: str) -> dict[int, int]:
        """How many answers had which status; 0 is no answer."""
        return dict(sorted(Counter(reply.status for reply in self.replies[method]).items()))

    def summary(self) -> str:
        """All of it in a line."""
        return "; ".join(self._of(method) for method, told in self.replies.items() if told)

    def _of(self, method: str) -> str:
        took = [reply.took * 1000 for reply in self.replies[method]]
        found = ", ".join(f"{n} times {status}" for status, n in self.statuses(method).items())
        return f"{method} /: {found}; median {median(took):,.0f} ms, most {max(took):,.0f} ms"

    @property
    def _count(self) -> int:
        return sum(map(len, self.replies.values()))

    async def _run(self) -> None:
        began = time.monotonic()
        async with TaskGroup() as tasks:
            while not self._stop.is_set():
                self._sent += 1
                post = self._post_every and self._sent % self._post_every == 0
                tasks.create_task(self._one("POST" if post else "GET", f"load-{self._sent}"))
                await self._until(began + self._sent / self._rate)

    async def _until(self, moment: float) -> None:
        try:
            async with asyncio.timeout(max(0.0, moment - time.monotonic())):
                await self._stop.wait()
        except TimeoutError:
            pass

    async def _one(self, method: str, request_id: str) -> None:
        if method == "POST":
            self.posts.add(request_id)
        self.replies[method].append(await self._ask(method, request_id))
        self._answered.set()
