"""Runs tasks and keeps references to them: asyncio may collect a task without one while it runs.

See https://docs.python.org/3/library/asyncio-task.html#asyncio.create_task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class Tasks:
    """A set of running tasks. The loop's exception handler gets each exception of a task."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a coroutine in the running loop, and return its task."""
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
        """Wait until all tasks are done; cancel the rest after ``within`` seconds."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=within)
        await self.close()

    async def close(self) -> None:
        """Cancel all tasks, and wait until they are done."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def __len__(self) -> int:
        return len(self._tasks)
