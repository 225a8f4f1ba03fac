"""Tasks are held, their failures are logged, and closing ends them."""

from __future__ import annotations

import asyncio
import gc

import pytest

from activator.process.timers import Tasks
from tests.conftest import both_loops

pytestmark = both_loops


@pytest.mark.untraced
async def test_a_task_runs_without_another_reference():
    tasks = Tasks()
    done = asyncio.Event()

    async def work() -> None:
        await asyncio.sleep(0)
        gc.collect()
        done.set()

    tasks.start(work())
    await done.wait()
    await asyncio.sleep(0)
    assert len(tasks) == 0


async def test_an_exception_reaches_the_loops_handler():
    loop = asyncio.get_running_loop()
    heard: list[dict[str, object]] = []
    former = loop.get_exception_handler()
    loop.set_exception_handler(lambda _, context: heard.append(context))
    tasks = Tasks()

    async def fail() -> None:
        raise ValueError("broken")

    try:
        task = tasks.start(fail())
        await asyncio.wait([task])
        await asyncio.sleep(0)
    finally:
        loop.set_exception_handler(former)

    (context,) = heard
    assert str(context["exception"]) == "broken"
    assert context["task"] is task


async def test_closing_cancels_what_runs_and_waits_for_it():
    tasks = Tasks()
    ended: list[str] = []

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("ended")

    task = tasks.start(forever())
    await asyncio.sleep(0)
    await tasks.close()

    assert ended == ["ended"]
    assert task.cancelled()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_closing_nothing_is_fine():
    await Tasks().close()


async def test_what_runs_may_be_given_time_to_finish_and_no_more():
    tasks = Tasks()
    ended: list[str] = []
    go = asyncio.Event()

    async def quick() -> None:
        await go.wait()
        ended.append("quick")

    async def hanging() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    tasks.start(quick())
    tasks.start(hanging())
    asyncio.get_running_loop().call_soon(go.set)
    await tasks.finish(0.1)
    assert ended == ["quick", "cancelled"]
    await tasks.finish(0.1)  # nothing runs
