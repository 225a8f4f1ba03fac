"""Tasks that somebody holds: a task that nobody refers to may vanish in mid-flight."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class Tasks:
    """A set of running tasks. An exception that leaves a task reaches the loop's handler."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a coroutine of the present loop as a task, and hold it until it is done."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            context = {"message": "a task failed", "exception": error, "task": task}
            task.get_loop().call_exception_handler(context)

    async def finish(self, within: float) -> None:
        """Wait for what runs, for as many seconds at most, and cancel the rest."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=within)
        await self.close()

    async def close(self) -> None:
        """Cancel what runs, and wait for it."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def __len__(self) -> int:
        return len(self._tasks)
