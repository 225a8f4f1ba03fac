"""Lines reach their file in order; a file that blocks costs bounded memory and no time."""

from __future__ import annotations

import fcntl
import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from io import TextIOWrapper

import pytest

from activator.process.outputs import LineWriter

#: Seconds for an action of a thread that is short, on a busy machine.
PATIENCE = 45.0
Pipe = tuple[int, int]


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    yield reading, writing
    for descriptor in (reading, writing):
        with suppress(OSError):
            os.close(descriptor)


def read(descriptor: int, size: int) -> bytes:
    """Read ``size`` bytes while the thread writes them."""
    found = b""
    while len(found) < size:
        found += os.read(descriptor, size - len(found))
    return found


def reported(caplog: pytest.LogCaptureFixture, text: str) -> None:
    """Wait until the thread has logged a text."""
    seen = threading.Event()

    class Look(logging.Filter):
        def filter(self, record: logging.LogRecord) -> bool:
            if text in record.getMessage():
                seen.set()
            return True

    look = Look()
    caplog.handler.addFilter(look)
    try:
        assert text in caplog.text or seen.wait(PATIENCE), caplog.text
    finally:
        caplog.handler.removeFilter(look)


def test_lines_come_in_their_order_without_being_asked_for(pipe: Pipe) -> None:
    writer = LineWriter(pipe[1], "stdout")
    lines = [b"line %d\n" % number for number in range(1000)]
    for line in lines:
        writer.write(line)
    assert read(pipe[0], len(b"".join(lines))) == b"".join(lines)
    writer.write(b"again\n")
    assert read(pipe[0], 6) == b"again\n"
    assert writer.close(PATIENCE)
    assert writer.dropped == 0


def test_lines_of_several_threads_are_whole(pipe: Pipe) -> None:
    writer = LineWriter(pipe[1], "stdout")

    def write(name: bytes) -> None:
        for _ in range(500):
            writer.write(name * 99 + b"\n")

    threads = [threading.Thread(target=write, args=(name,)) for name in (b"a", b"b", b"c")]
    for thread in threads:
        thread.start()
    lines = read(pipe[0], 1500 * 100).splitlines()
    for thread in threads:
        thread.join(PATIENCE)
    assert {line: lines.count(line) for line in lines} == {
        name * 99: 500 for name in (b"a", b"b", b"c")
    }


def test_the_end_writes_what_is_left(pipe: Pipe) -> None:
    writer = LineWriter(pipe[1], "stdout")
    writer.write(b"one\n")
    writer.write(b"two\n")
    assert writer.close(PATIENCE)
    assert os.read(pipe[0], 100) == b"one\ntwo\n"


@pytest.mark.parametrize("bounds", [{"capacity": 10_000}, {"most_lines": 100}])
def test_a_reader_that_sleeps_delays_no_writer_and_fills_no_memory(
    pipe: Pipe, caplog: pytest.LogCaptureFixture, bounds: dict[str, int]
) -> None:
    first, line = b"x" * 9_999 + b"\n", b"x" * 99 + b"\n"
    writer = LineWriter(pipe[1], "stdout", **bounds)
    writer.write(first)
    os.read(pipe[0], 1)  # the thread is at work, and the pipe full
    for _ in range(1000):
        writer.write(line)
    notice = "stdout does not accept log lines (its reader is too slow): they are dropped until"
    assert [message.startswith(notice) for message in caplog.messages] == [True]
    dropped = writer.dropped
    assert 900 <= dropped <= 1000
    assert read(pipe[0], 9_999 + 100 * (1000 - dropped)).endswith(first[-1:])
    reported(caplog, f"{dropped} log lines were dropped because stdout did not accept them")
    writer.write(b"awake\n")
    assert read(pipe[0], 6) == b"awake\n"
    assert len(caplog.messages) == 2
    assert writer.close(PATIENCE)


def test_a_descriptor_that_is_set_not_to_block_loses_nothing(pipe: Pipe) -> None:
    """Another process that shares the file may make it non-blocking."""
    os.set_blocking(pipe[1], False)
    writer = LineWriter(pipe[1], "stdout")
    line = b"x" * 99_999 + b"\n"
    writer.write(line)
    assert read(pipe[0], 100_000) == line
    assert writer.close(PATIENCE)
    assert writer.dropped == 0


def test_a_reader_that_is_gone_is_logged_once_and_the_end_comes(
    pipe: Pipe, caplog: pytest.LogCaptureFixture
) -> None:
    os.close(pipe[0])
    writer = LineWriter(pipe[1], "stdout")
    writer.write(b"one\ntwo\n")
    reported(caplog, "stdout does not accept log lines (Broken pipe)")
    writer.write(b"three\n")
    assert writer.close(PATIENCE)
    assert writer.dropped == 3
    assert len(caplog.messages) == 1


def test_a_file_that_works_again_gets_lines_after_it_refused_a_full_queue(
    pipe: Pipe, caplog: pytest.LogCaptureFixture
) -> None:
    os.close(pipe[0])
    writer = LineWriter(pipe[1], "stdout", capacity=10_000)
    writer.write(b"x" * 9_999 + b"\n")
    reported(caplog, "stdout does not accept log lines (Broken pipe)")
    reading, writing = os.pipe()
    os.dup2(writing, pipe[1])
    os.close(writing)
    with open(reading, "rb") as lines:
        writer.write(b"again\n")
        assert writer.dropped == 1
        assert lines.readline() == b"again\n"
        reported(caplog, "1 log line was dropped because stdout did not accept them")
    assert writer.close(PATIENCE)


def test_the_log_of_the_blocked_file_itself_is_no_endless_loop(
    pipe: Pipe, caplog: pytest.LogCaptureFixture
) -> None:
    """What the writer logs about stderr goes to stderr."""

    class ToWriter(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            writer.write(record.getMessage().encode() + b"\n")

    writer = LineWriter(pipe[1], "stderr", capacity=10_000)
    handler = ToWriter()
    logging.getLogger().addHandler(handler)
    try:
        for _ in range(200):
            writer.write(b"x" * 99 + b"\n")
        with TextIOWrapper(os.fdopen(os.dup(pipe[0]), "rb")) as lines:
            for line in lines:
                if line.endswith("dropped because stderr did not accept them\n"):
                    break
        assert (
            line == f"{writer.dropped} log lines were dropped because stderr did not accept them\n"
        )
    finally:
        logging.getLogger().removeHandler(handler)
    assert writer.close(PATIENCE)


def test_a_file_reports_its_loss_while_the_log_is_full_as_well(pipe: Pipe) -> None:
    class ToWriter(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            log.write(record.getMessage().encode() + b"\n")

    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    log, other = LineWriter(pipe[1], "stderr", 10_000), LineWriter(writing, "stdout", 10_000)
    handler = ToWriter()
    logging.getLogger().addHandler(handler)
    try:
        log.write(b"x" * 9_999 + b"\n")
        for _ in range(2):
            other.write(b"y" * 9_999 + b"\n")
        assert other.dropped == 1
        with open(reading, "rb", buffering=0) as end, open(os.dup(pipe[0]), "rb") as lines:
            threading.Thread(target=end.readall, daemon=True).start()
            other.close(PATIENCE)
            os.close(writing)
            found = [lines.readline() for _ in range(2)]
    finally:
        logging.getLogger().removeHandler(handler)
    assert found[1] == b"1 log line was dropped because stdout did not accept them\n"
    assert log.close(PATIENCE)


def test_the_end_does_not_wait_for_a_reader_that_sleeps(pipe: Pipe) -> None:
    writer = LineWriter(pipe[1], "stdout")
    writer.write(b"x" * 100_000 + b"\n")
    began = time.monotonic()
    assert not writer.close(0.01)
    assert time.monotonic() - began < PATIENCE
    read(pipe[0], 100_001)
    assert writer.close(PATIENCE)


def test_no_line_no_thread(pipe: Pipe) -> None:
    before = threading.active_count()
    writer = LineWriter(pipe[1], "stdout")
    assert writer.close(0.0)
    assert threading.active_count() == before
