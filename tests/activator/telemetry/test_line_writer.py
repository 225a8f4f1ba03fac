"""Lines reach their file in order; a file that takes none costs memory up to a bound, no time."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import uvloop

from activator.telemetry import line_writer
from activator.telemetry.line_writer import LineWriter


@pytest.fixture
def anyio_backend() -> Any:
    """A thread writes, which knows nothing of a virtual clock."""
    return "asyncio", {"loop_factory": uvloop.new_event_loop}


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    os.set_blocking(reading, False)
    yield reading, writing
    for descriptor in (reading, writing):
        with suppress(OSError):
            os.close(descriptor)


async def read(descriptor: int, size: int) -> bytes:
    """Read so many bytes, while the loop goes on."""
    loop, readable, found = asyncio.get_running_loop(), asyncio.Event(), b""
    loop.add_reader(descriptor, readable.set)
    try:
        async with asyncio.timeout(10):
            while len(found) < size:
                await readable.wait()
                readable.clear()
                found += os.read(descriptor, size - len(found))
    finally:
        loop.remove_reader(descriptor)
    return found


async def test_lines_come_in_their_order_without_being_asked_for(pipe) -> None:
    writer = LineWriter(pipe[1])
    lines = [b"line %d\n" % number for number in range(1000)]
    for line in lines:
        writer.write(line)
    assert await read(pipe[0], len(b"".join(lines))) == b"".join(lines)
    writer.write(b"again\n")
    assert await read(pipe[0], 6) == b"again\n"
    writer.close()
    assert writer.dropped == 0


async def test_the_end_writes_what_is_left(pipe) -> None:
    writer = LineWriter(pipe[1])
    writer.write(b"one\n")
    writer.write(b"two\n")
    writer.close()
    assert os.read(pipe[0], 100) == b"one\ntwo\n"


async def test_a_reader_that_sleeps_holds_up_nobody_and_fills_no_memory(
    pipe, caplog: pytest.LogCaptureFixture
) -> None:
    writer = LineWriter(pipe[1], capacity=10_000)
    line = b"x" * 99 + b"\n"
    for _ in range(1000):
        writer.write(line)
    assert writer.dropped == 900
    assert caplog.messages == [
        "request log: lines are dropped, 1 until now: its reader is too slow"
    ]
    whole = await read(pipe[0], 100 * 100)
    assert whole == line * 100
    writer.write(b"awake\n")
    assert await read(pipe[0], 6) == b"awake\n"
    writer.close()


async def test_a_reader_that_is_gone_is_told_of_and_the_end_comes(
    pipe, caplog: pytest.LogCaptureFixture
) -> None:
    os.close(pipe[0])
    writer = LineWriter(pipe[1])
    writer.write(b"one\ntwo\n"[:4])
    writer.write(b"two\n")
    async with asyncio.timeout(5):
        while writer.dropped < 2:
            await asyncio.sleep(0)
            writer._pass_on()
    assert "Broken pipe" in caplog.text
    writer.close()


async def test_the_end_does_not_wait_for_a_reader_that_sleeps(
    pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_writer, "PATIENCE", 0.01)
    writer = LineWriter(pipe[1])
    writer.write(b"x" * 100_000 + b"\n")
    writer.close()
    assert writer._thread is not None
    assert writer._thread.is_alive()
    await read(pipe[0], 100_001)
    writer._thread.join(5)
    assert not writer._thread.is_alive()


async def test_no_line_no_thread(pipe) -> None:
    writer = LineWriter(pipe[1])
    writer.close()
    assert writer._thread is None
