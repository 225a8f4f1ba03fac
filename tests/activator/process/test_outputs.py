"""A reader of stdout or stderr that stops does not stop traffic; lost lines are counted."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pty
import re
import signal
import subprocess
import sys
import termios
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from activator.lab.objects import PodAddress, private_endpoints, revision, write_object
from tests.activator.discovery.recording import config_map
from tests.conftest import on_uvloop
from tests.process import ANY_PORTS, ENVIRONMENT, PATIENCE, ROOT, until

pytestmark = [pytest.mark.e2e, on_uvloop]

HELLO = {"Host": "hello.default.svc.cluster.local"}
REQUESTS = 2000
#: Each log line shows this path: the name of a folder, which JSON writes six times as long.
LONG_NAME = "ü" * 120
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nqueue"


class Reader:
    """The reading end of a pipe or terminal; reads only when the test calls it."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self.descriptor = descriptor
        self.found = bytearray()

    async def read_until(self, text: str) -> str:
        """Read on until a line holds a text, and return that line."""
        loop, readable = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self.descriptor, readable.set)
        try:
            async with asyncio.timeout(PATIENCE):
                while not (line := re.search(f".*{re.escape(text)}.*\n".encode(), self.found)):
                    await readable.wait()
                    readable.clear()
                    self.take()
            return line[0].decode()
        finally:
            loop.remove_reader(self.descriptor)

    def read_rest(self) -> str:
        """Return all that was written, once the process has ended."""
        with suppress(BlockingIOError, OSError):
            while self.take():
                pass
        return self.found.decode()

    def take(self) -> bytes:
        data = os.read(self.descriptor, 1 << 20)
        self.found += data
        return data


class Blocked:
    """An activator whose stdout and stderr only the test reads."""

    def __init__(self, process: Process, stdout: Reader, stderr: Reader) -> None:
        self.process = process
        self.stdout = stdout
        self.stderr = stderr

    async def begin(self) -> None:
        """Read the first lines, and nothing after them."""
        self._addresses = json.loads(await self.stderr.read_until("listening: "))

    async def connect(self, listener: str = "http") -> tuple[asyncio.StreamReader, Any]:
        host, _, port = self._addresses[listener].rpartition(":")
        return await asyncio.open_connection(host, int(port))

    async def get(
        self, target: str, headers: dict[str, str] | None = None, listener: str = "http"
    ) -> tuple[int, str]:
        async with asyncio.timeout(PATIENCE):
            reader, writer = await self.connect(listener)
            given = {"Host": "127.0.0.1", **(headers or {}), "Connection": "close"}
            fields = "".join(f"{name}: {value}\r\n" for name, value in given.items())
            writer.write(f"GET {target} HTTP/1.1\r\n{fields}\r\n".encode())
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
            writer.close()
        return int(head.split()[1]), body.decode()

    async def is_served(self) -> bool:
        return (await self.get("/", HELLO))[0] == 200

    async def metric(self, series: str) -> float:
        _, text = await self.get("/metrics", listener="metrics")
        found = re.search(rf"^{re.escape(series)} (\S+)$", text, re.MULTILINE)
        return float(found[1]) if found else 0.0

    async def dropped(self, sink: str) -> float:
        return await self.metric(f'activator_log_lines_dropped_total{{sink="{sink}"}}')

    async def has_dropped(self) -> bool:
        return bool(await self.dropped("stdout") and await self.dropped("stderr"))

    async def serve(self, count: int) -> None:
        """Send requests on four connections until they are served."""

        async def client() -> None:
            reader, writer = await self.connect()
            for _ in range(count // 4):
                writer.write(f"GET / HTTP/1.1\r\nHost: {HELLO['Host']}\r\n\r\n".encode())
                assert (await reader.readuntil(b"\r\n\r\nqueue")).startswith(b"HTTP/1.1 200 OK")
            writer.close()

        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
            for _ in range(4):
                group.create_task(client())


@asynccontextmanager
async def blocked(
    folder: Path, stdout: tuple[int, int], stderr: tuple[int, int], *arguments: str
) -> AsyncIterator[Blocked]:
    """Start an activator on the writing ends of two pipes, (reading, writing) each."""
    command = ("local", "--manifests", str(folder), *ANY_PORTS, *arguments)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "activator", *command),
        stdin=DEVNULL,
        stdout=stdout[1],
        stderr=stderr[1],
        cwd=ROOT,
        env={name: os.environ[name] for name in ENVIRONMENT if name in os.environ},
    )
    running = Blocked(process, Reader(stdout[0]), Reader(stderr[0]))
    try:
        await running.begin()
        yield running
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        for descriptor in {*stdout, *stderr}:
            os.close(descriptor)


def pipe() -> tuple[int, int]:
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    return reading, writing


@asynccontextmanager
async def pod() -> AsyncIterator[PodAddress]:
    """Respond to probes and requests at once."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(OK)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        yield PodAddress(host, port, uid="uid", name="pod", ready=True)


def log_requests(folder: Path, template: str) -> None:
    keys = {"logging.enable-request-log": "true", "logging.request-log-template": template}
    write_object(folder, config_map("config-observability", **keys))


def break_manifests(folder: Path, count: int, name: str = "broken") -> None:
    """Make the process log an error for each of many files."""
    for number in range(count):
        (folder / f"{name}-{number}.yaml").write_text("kind: Revision\nmetadata: [\n")


@pytest.mark.untraced
async def test_traffic_continues_without_a_reader_and_the_loss_is_reported(tmp_path: Path) -> None:
    folder = tmp_path.joinpath(*[LONG_NAME] * 12)
    folder.mkdir(parents=True)
    async with AsyncExitStack() as stack:
        address = await stack.enter_async_context(pod())
        write_object(folder, revision("hello", uid="uid-of-hello"))
        write_object(folder, private_endpoints("hello", [address]))
        running = await stack.enter_async_context(blocked(folder, pipe(), pipe()))
        await until(running.is_served, "it is served")
        log_requests(folder, "{{.Response.Code}}" + "x" * 8000)
        break_manifests(folder, 400)
        await running.serve(REQUESTS)
        await until(running.has_dropped, "lines are dropped")
        await running.serve(REQUESTS)
        assert (await running.get("/healthz", listener="admin"))[0] == 200
        assert await running.metric("activator_request_log_lines_total") >= REQUESTS

        async with asyncio.TaskGroup() as group:
            for reader in (running.stdout, running.stderr):
                group.create_task(_drain(reader))
            for sink in ("stdout", "stderr"):
                await until(partial(_agrees, running, sink), f"all of {sink}'s loss is reported")
            running.process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(PATIENCE):
                assert await running.process.wait() == 0
            for descriptor in (running.stdout.descriptor, running.stderr.descriptor):
                asyncio.get_running_loop().remove_reader(descriptor)
        # Each line is whole, in its order, and the end of the log is there.
        lines = [json.loads(line) for line in running.stderr.read_rest().splitlines()]
        assert lines[-1]["message"] == "ended; during the shutdown: 0 requests served"
        written = running.stdout.read_rest().splitlines()
        assert set(written) == {"200" + "x" * 8000}


async def _drain(reader: Reader) -> None:
    """Read in the background from now on."""
    reader.take()
    asyncio.get_running_loop().add_reader(reader.descriptor, reader.take)


async def _agrees(running: Blocked, sink: str) -> bool:
    text = rf'(\d+) log lines? w\w+ dropped because {sink} did not accept them"'.encode()
    reported = sum(map(int, re.findall(text, running.stderr.found)))
    return reported > 0 and reported == await running.dropped(sink)


async def test_sigterm_ends_it_with_0_without_a_reader(tmp_path: Path) -> None:
    async with blocked(tmp_path, pipe(), pipe(), "--drain-timeout", "5s") as running:
        break_manifests(tmp_path, 100)

        async def is_read() -> bool:
            _, text = await running.get("/api/v1/activator", listener="admin")
            return "broken-99.yaml" in text

        await until(is_read, "the process has had more to log than the pipe takes")
        running.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE):
            assert await running.process.wait() == 0


async def test_a_terminal_that_is_stopped_stops_no_traffic(tmp_path: Path) -> None:
    main, terminal = pty.openpty()
    async with pod() as address, blocked(tmp_path, pipe(), (main, terminal)) as running:
        termios.tcflow(terminal, termios.TCOOFF)  # as Ctrl-S does
        break_manifests(tmp_path, 20)
        write_object(tmp_path, revision("hello", uid="uid-of-hello"))
        write_object(tmp_path, private_endpoints("hello", [address]))
        await until(running.is_served, "it is served")
        assert (await running.get("/healthz", listener="admin"))[0] == 200
        termios.tcflow(terminal, termios.TCOON)
        await running.stderr.read_until("broken-19.yaml")


@pytest.mark.parametrize("print_to", ["stdout", "stderr"])
def test_what_is_printed_before_the_end_is_written(print_to: str) -> None:
    """This includes an incomplete line and the traceback of an unhandled error."""
    program = f"""
import sys
from activator.process.outputs import Outputs
Outputs().install()
for number in range(1000):
    print("line", number, file=sys.{print_to})
print("part ü \\udc80", end="", file=sys.{print_to})
raise SystemError("the end")
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    expected = "".join(f"line {number}\n" for number in range(1000)) + "part ü \\udc80"
    assert getattr(done, print_to).startswith(expected)
    assert done.stderr.endswith("SystemError: the end\n")
    assert done.returncode == 1


def test_a_file_that_is_closed_is_nobody_elses() -> None:
    program = """
import os, socket, sys
from activator.process.outputs import Outputs
Outputs().install()
a, b = socket.socketpair()
print("a line", flush=True)
sys.exit(1 in (a.fileno(), b.fileno()))
"""
    closed = ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-c", program]
    done = subprocess.run(closed, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (0, "")
