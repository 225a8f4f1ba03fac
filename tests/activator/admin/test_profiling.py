"""The profiling port, and the profiles that it serves."""

from __future__ import annotations

import asyncio
import re
import sys
import threading
import time
import tracemalloc
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from activator.admin import profiling
from activator.admin.profiling import create_profiling_app, sample
from tests.conftest import on_uvloop
from tests.process import PATIENCE

pytestmark = on_uvloop  # a thread takes samples in real time


class Switch:
    on = True

    def __call__(self) -> bool:
        return self.on


@pytest.fixture
def switch() -> Switch:
    return Switch()


@pytest.fixture
async def client(switch: Switch) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(create_profiling_app(switch))
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        yield client


@pytest.mark.parametrize("path", ["/debug/pprof/", "/debug/pprof/profile", "/", "/metrics"])
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_closed_it_tells_nothing(client, switch, path: str, method: str) -> None:
    switch.on = False
    answer = await client.request(method, path)
    assert (answer.status_code, answer.text) == (404, "404 page not found\n")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"


async def test_the_switch_counts_with_each_request(client, switch) -> None:
    assert (await client.get("/debug/pprof/")).status_code == 200
    switch.on = False
    assert (await client.get("/debug/pprof/")).status_code == 404


async def test_the_index_names_what_there_is(client) -> None:
    index = (await client.get("/debug/pprof/")).text
    for name in ("cmdline", "profile", "goroutine", "heap"):
        assert f"\n{name}" in index


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/debug/pprof", "404 page not found\n"),
        ("/", "404 page not found\n"),
        ("/debug/pprof/block", "Unknown profile\n"),
    ],
)
async def test_other_paths_are_not_there(client, path: str, text: str) -> None:
    answer = await client.get(path)
    assert (answer.status_code, answer.text) == (404, text)


async def test_it_is_read_only(client) -> None:
    answer = await client.post("/debug/pprof/cmdline")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")
    assert (await client.head("/debug/pprof/cmdline")).status_code == 200


async def test_arguments_and_stacks(client) -> None:
    assert (await client.get("/debug/pprof/cmdline")).text.split("\0") == sys.orig_argv
    assert "test_arguments_and_stacks" in (await client.get("/debug/pprof/goroutine")).text


async def test_a_profile_is_collapsed_stacks_and_the_loop_goes_on_meanwhile(client) -> None:
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    turning = asyncio.ensure_future(turn())
    text = (await client.get("/debug/pprof/profile?seconds=0.1")).text
    turning.cancel()
    assert turns > 10
    assert any(line.startswith("MainThread;") for line in text.splitlines())
    assert all(line.rpartition(" ")[2].isdigit() for line in text.splitlines())


class Kept:
    """A type with many instances for the list of the most frequent types."""


@pytest.mark.untraced
async def test_a_heap_profile_shows_lines_and_types(client, monkeypatch) -> None:
    objects = [Kept() for _ in range(100_000)]  # more than objects of earlier tests, by type
    kept: list[bytes] = []

    def start_and_allocate() -> None:
        start_memory()
        kept.extend(bytes(10_000) for _ in range(99))

    start_memory = tracemalloc.start
    monkeypatch.setattr(tracemalloc, "start", start_and_allocate)
    text = (await client.get("/debug/pprof/heap?seconds=0.01")).text
    assert re.search(r"\d{6} bytes +\d+ blocks .*test_profiling\.py", text)
    assert " 100000 Kept\n" in text
    assert (len(kept), len(objects)) == (99, 100_000)


@pytest.mark.parametrize("seconds", ["-1", "0", "301", "nan", "inf", "x"])
async def test_odd_times_are_refused(client, seconds: str) -> None:
    assert (await client.get(f"/debug/pprof/profile?seconds={seconds}")).status_code == 400


async def test_one_profile_at_a_time(client, monkeypatch: pytest.MonkeyPatch) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    async def slow(seconds: float) -> str:
        started.set()
        await go_on.wait()
        return "done\n"

    monkeypatch.setattr(profiling, "_profile", slow)
    first = asyncio.ensure_future(client.get("/debug/pprof/profile?seconds=1"))
    await started.wait()
    assert (await client.get("/debug/pprof/heap?seconds=1")).status_code == 409
    go_on.set()
    assert (await first).text == "done\n"
    monkeypatch.undo()
    assert (await client.get("/debug/pprof/profile?seconds=0.01")).status_code == 200


@pytest.mark.parametrize("name", ["profile", "heap"])
@pytest.mark.parametrize("why", ["the client left", "it was turned off"])
async def test_a_profile_that_was_disabled_ends(
    switch: Switch, monkeypatch: pytest.MonkeyPatch, name: str, why: str
) -> None:
    monkeypatch.setattr(profiling, "_LOOK", 0.001)
    left, sent = asyncio.Event(), []
    looks = 0

    async def receive() -> dict[str, Any]:
        nonlocal looks
        looks += 1
        if looks == 3:
            if why == "the client left":
                left.set()
            else:
                switch.on = False
        await left.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "GET",
        "path": f"/debug/pprof/{name}",
        "query_string": b"seconds=300",
        "headers": [],
    }
    async with asyncio.timeout(PATIENCE):
        await create_profiling_app(switch)(scope, receive, send)
    assert sent[0]["status"] == 404
    assert not tracemalloc.is_tracing()
    assert not [thread for thread in threading.enumerate() if _samples(thread)]


def _samples(thread: threading.Thread) -> bool:
    """Return whether a thread takes samples."""
    frame = sys._current_frames().get(thread.ident or 0)
    while frame is not None:
        if frame.f_code is sample.__code__:
            return True
        frame = frame.f_back
    return False


def test_samples_show_where_a_thread_is() -> None:
    stop, inside = threading.Event(), threading.Event()

    def waits_for_the_test() -> None:
        inside.set()
        stop.wait()

    thread = threading.Thread(target=waits_for_the_test, name="a;name")
    thread.start()
    inside.wait()
    try:
        text = profiling.sample(threading.Event(), 0.05)
    finally:
        stop.set()
        thread.join()
    (line,) = [line for line in text.splitlines() if "waits_for_the_test" in line]
    assert re.fullmatch(
        r"\S.*;test_samples\S*waits_for_the_test \(test_profiling\.py:\d+\);.* 5", line
    )
    assert "profiling.py" not in text.replace("test_profiling.py", "")


def test_sampling_can_be_ended() -> None:
    stop = threading.Event()
    stop.set()
    started = time.monotonic()
    profiling.sample(stop, 3600.0)
    assert time.monotonic() - started < 60.0


async def test_every_thread_and_every_task_is_shown() -> None:
    async def waits_for_ever() -> None:
        await asyncio.get_running_loop().create_future()

    task = asyncio.ensure_future(waits_for_ever())
    task.set_name("one-of-mine")
    await asyncio.sleep(0)
    text = "".join(profiling.all_stacks())
    task.cancel()
    assert "[MainThread]:" in text
    assert re.search(r"task one-of-mine:\n.*in waits_for_ever\n", text)


def test_memory_is_shown_by_line_and_traced_only_on_demand() -> None:
    tracemalloc.start()
    kept = [bytes(1000) for _ in range(1000)]
    text = profiling.stop_memory()
    assert re.search(r"\d{7} bytes +100\d blocks .*test_profiling\.py:\d+", text)
    assert not tracemalloc.is_tracing()
    assert profiling.stop_memory() == ""
    assert len(kept) == 1000


def test_objects_are_counted_by_type() -> None:
    kept = [Kept() for _ in range(10_000)]
    assert re.search(r"^ +10000 Kept$", profiling.objects(), re.MULTILINE)
    assert len(kept) == 10_000
