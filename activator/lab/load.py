"""Steady traffic of one client, with all its responses."""

from __future__ import annotations

import asyncio
import time
from asyncio import Task, TaskGroup
from collections import Counter
from collections.abc import Callable, Coroutine
from statistics import median
from typing import Any

from activator.lab.client import ClientResponse

#: Sends one request with this method and id.
Send = Callable[[str, str], Coroutine[Any, Any, ClientResponse]]


class SteadyTraffic:
    """Requests at a steady rate, each on a new connection, until `stop`.

    Attributes:
        responses: by method, in the order of their arrival.
        posts: the ids of all POSTs that were sent.
    """

    def __init__(self, send: Send, rate: float, posts: int = 0, target: str = "/") -> None:
        """
        Arguments:
            send: sends one request; must not raise.
            rate: requests per second.
            posts: one request in so many is a POST; 0 for none.
            target: of the requests, for the summary.
        """
        self._send = send
        self._rate = rate
        self._post_every = posts
        self._target = target
        self._sent = 0
        self._stop = asyncio.Event()
        self._responded = asyncio.Event()
        self._running: Task[None] | None = None
        self.posts: set[str] = set()
        self.responses: dict[str, list[ClientResponse]] = {"GET": [], "POST": []}

    def start(self, tasks: TaskGroup) -> None:
        """Begin to send; the caller must call `stop`."""
        self._running = tasks.create_task(self._run())

    async def stop(self) -> None:
        """Stop sending; return when every request has a response or has failed."""
        self._stop.set()
        if self._running is not None:
            await self._running

    async def more(self, count: int) -> None:
        """Return when so many further requests have a response or have failed."""
        wanted = self._count + count
        while self._count < wanted:
            self._responded.clear()
            await self._responded.wait()

    def statuses(self, method: str) -> dict[int, int]:
        """Return the number of responses by status; 0 stands for no response."""
        return dict(sorted(Counter(response.status for response in self.responses[method]).items()))

    def summary(self) -> str:
        """Return statuses and durations of all requests in one line."""
        return "; ".join(self._of(method) for method, found in self.responses.items() if found)

    def _of(self, method: str) -> str:
        took = [response.took * 1000 for response in self.responses[method]]
        found = ", ".join(f"{n} times {status}" for status, n in self.statuses(method).items())
        line = f"{method} {self._target}: {found}"
        return f"{line}; median {median(took):,.0f} ms, maximum {max(took):,.0f} ms"

    @property
    def _count(self) -> int:
        return sum(map(len, self.responses.values()))

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
        self.responses[method].append(await self._send(method, request_id))
        self._responded.set()
