"""Stacks of threads and tasks, and the use of memory."""

from __future__ import annotations

import asyncio
import re
import threading
import time
import tracemalloc

from activator.admin import stacks


def test_samples_show_where_a_thread_is() -> None:
    stop, inside = threading.Event(), threading.Event()

    def waits_for_the_test() -> None:
        inside.set()
        stop.wait()

    thread = threading.Thread(target=waits_for_the_test, name="a;name")
    thread.start()
    inside.wait()
    try:
        text = stacks.sample(threading.Event(), 0.05)
    finally:
        stop.set()
        thread.join()
    (line,) = [line for line in text.splitlines() if "waits_for_the_test" in line]
    assert re.fullmatch(
        r"\S.*;test_samples\S*waits_for_the_test \(test_stacks\.py:\d+\);.* 5", line
    )
    assert "stacks.py" not in text.replace("test_stacks.py", "")


def test_sampling_can_be_ended() -> None:
    stop = threading.Event()
    stop.set()
    started = time.monotonic()
    stacks.sample(stop, 3600.0)
    assert time.monotonic() - started < 60.0


async def test_every_thread_and_every_task_is_shown() -> None:
    async def waits_for_ever() -> None:
        await asyncio.get_running_loop().create_future()

    task = asyncio.ensure_future(waits_for_ever())
    task.set_name("one-of-mine")
    await asyncio.sleep(0)
    text = "".join(stacks.all_stacks())
    task.cancel()
    assert "[MainThread]:" in text
    assert re.search(r"task one-of-mine:\n.*in waits_for_ever\n", text)


def test_memory_is_shown_by_line_and_traced_only_on_demand() -> None:
    stacks.start_memory()
    kept = [bytes(1000) for _ in range(1000)]
    text = stacks.stop_memory()
    assert re.search(r"\d{7} bytes +100\d blocks .*test_stacks\.py:\d+", text)
    assert not tracemalloc.is_tracing()
    assert stacks.stop_memory() == ""
    assert len(kept) == 1000


class Kept:
    """A type with many instances for the list of the most frequent types."""


def test_objects_are_counted_by_type() -> None:
    kept = [Kept() for _ in range(10_000)]
    assert re.search(r"^ +10000 Kept$", stacks.objects(), re.MULTILINE)
    assert len(kept) == 10_000
