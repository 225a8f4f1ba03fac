"""Start processes, and read their CPU time, memory and files from /proc. Linux only."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

ROOT = Path(__file__).resolve().parent.parent
#: The folder of logs and of JSON files; a run beside another one may have its own.
RESULTS = Path(os.environ.get("BENCHMARK_RESULTS") or ROOT / "benchmarks" / "results")
#: Seconds for a process to do what it was started for, on a busy machine.
START_TIMEOUT = 60.0
#: Seconds from SIGTERM to SIGKILL.
STOP_TIMEOUT = 10.0
STEP = 0.005


class CannotMeasure(Exception):
    """This machine cannot measure a row; the text gives the cause and a remedy."""


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process and its living threads, to the nanosecond."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(each.read_text().split()[0]) for each in tasks) / 1e9


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process, in bytes."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Rss:"):
            return int(line.split()[1]) * 1024
    raise CannotMeasure(f"/proc/{pid}/smaps_rollup says nothing of Rss")


def open_files(pid: int) -> int:
    """Return how many files a process has open."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def raise_file_limit() -> int:
    """Raise the limit of open files for this process and its children; return the limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def free_port(ip: str = "127.0.0.1") -> int:
    """Return a port on which nothing listens now."""
    with socket.socket() as found:
        found.bind((ip, 0))
        return int(found.getsockname()[1])


@contextmanager
def held_port() -> Iterator[int]:
    """Reserve a port; only a server that sets SO_REUSEADDR can listen on it."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def pause(seconds: float) -> None:
    """Sleep while the measured processes run; this process has no loop to block."""
    threading.Event().wait(seconds)


def wait_until(condition: Callable[[], bool], what: str, timeout: float = START_TIMEOUT) -> None:
    """Return as soon as the condition holds.

    Raises:
        CannotMeasure: the condition did not hold within `timeout` seconds.
    """
    deadline = monotonic() + timeout
    while not condition():
        if monotonic() > deadline:
            raise CannotMeasure(f"waited {timeout:g} s in vain until {what}")
        pause(STEP)


def listens(ip: str, port: int) -> bool:
    """Return whether connections to that port are accepted."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((ip, port)) == 0


@contextmanager
def started(
    command: Sequence[str], log: str, *, stdin: int | None = None, stdout: int | None = None
) -> Iterator[subprocess.Popen[str]]:
    """Provide a running process that ends with the block; its standard error goes into a log file.

    It has its own session. So a Ctrl-C reaches only this process, which ends the others.
    """
    RESULTS.mkdir(parents=True, exist_ok=True)
    with open(RESULTS / f"{log}.log", "w") as told:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=stdin if stdin is not None else subprocess.DEVNULL,
            stdout=stdout if stdout is not None else told,
            stderr=told,
            text=True,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            stop(process)
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()


def stop(process: subprocess.Popen[str]) -> None:
    """End a process: SIGTERM, and SIGKILL if it takes too long."""
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
