"""An activator as a separate process, for tests that use only its ports."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import IO, Any

from activator.lab.addresses import AddressPool
from tests.ports import network

ROOT = Path(__file__).resolve().parents[1]
#: Seconds for a step that usually takes a moment, on a busy machine.
PATIENCE = 45.0
ANY_PORTS = (
    *("--bind", "127.0.0.1", "--http-port", "0", "--h2c-port", "0"),
    *("--admin-port", "0", "--metrics-port", "0", "--profiling-port", "0"),
    *("--log-format", "json"),
)
#: Variables of the environment that the activator gets. A setting in it would change the test.
ENVIRONMENT = ("PATH", "HOME", "PYTHONPATH")


class Activator:
    """One activator process; ``lines`` are the log lines so far."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.lines: list[dict[str, Any]] = []
        self._logged = asyncio.Event()
        self._reading = asyncio.get_running_loop().create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            try:
                self.lines.append(json.loads(line))
            except ValueError:
                self.lines.append({"message": line.decode(), "severity": "PLAIN"})
            self._logged.set()
        self._logged.set()

    @property
    def log(self) -> str:
        return "\n".join(str(line["message"]) for line in self.lines)

    async def logged(self, text: str) -> dict[str, Any]:
        """Wait until a log line holds a text, and return the line."""
        async with asyncio.timeout(PATIENCE):
            while True:
                for line in self.lines:
                    if text in line["message"]:
                        return line
                assert not self._reading.done(), f"ended without {text!r}: {self.log}"
                self._logged.clear()
                await self._logged.wait()

    async def address(self, listener: str) -> tuple[str, int]:
        host, _, port = (await self.logged("listening: "))[listener].rpartition(":")
        return host, int(port)

    def tell(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def ended(self) -> int:
        """Wait until the process ends, and return its exit status."""
        async with asyncio.timeout(PATIENCE):
            status = await self.process.wait()
            await self._reading
        return status

    async def get(
        self, target: str, headers: Mapping[str, str] | None = None, listener: str = "http"
    ) -> tuple[int, str]:
        """Send a request on a new connection; return the status and the body."""
        host, port = await self.address(listener)
        given = {"Host": f"{host}:{port}", "Connection": "close", **(headers or {})}
        lines = [f"GET {target} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items())]
        async with asyncio.timeout(PATIENCE):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
                head, end, body = (await reader.read()).partition(b"\r\n\r\n")
            finally:
                writer.close()
                with suppress(ConnectionError):
                    await writer.wait_closed()
        if not end:
            raise ConnectionError(f"no response: {head!r}")
        return int(head.split()[1]), body.decode()

    async def ask(self, name: str) -> tuple[int, str]:
        """Send a request to default/NAME; return the status and the body."""
        return await self.get("/", {"Host": f"{name}.default.svc.cluster.local"})

    async def queued(self, name: str, count: int) -> None:
        """Wait until ``count`` requests of default/NAME are queued."""

        async def look() -> bool:
            status, body = await self.get(f"/api/v1/revisions/default/{name}", listener="admin")
            return status == 200 and json.loads(body)["queued"] == count

        await until(look, f"{count} requests of {name} wait: {self.log}")


def addresses() -> AddressPool:
    """Return addresses for pods that no other test uses, in this process or in another."""
    return AddressPool(f"{network()}.1")


async def until(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    """Poll a condition, with a network round trip between polls, until it holds."""
    loop = asyncio.get_running_loop()
    end = loop.time() + PATIENCE
    while not await condition():
        assert loop.time() < end, f"waited in vain until {what}"
        again = loop.create_future()
        loop.call_later(0.01, again.set_result, None)
        await again


@asynccontextmanager
async def activator(
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    stdout: IO[bytes] | int = DEVNULL,
    open_files: int = 0,
) -> AsyncIterator[Activator]:
    """Run an activator; ``open_files`` is its limit of open files, 0 for the test's limit."""
    limited = ("sh", "-c", f'ulimit -n {open_files}; exec "$@"', "sh") if open_files else ()
    inherited = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
    process = await asyncio.create_subprocess_exec(
        *(*limited, sys.executable, "-m", "activator", *arguments),
        stdin=DEVNULL,
        stdout=stdout,
        stderr=PIPE,
        cwd=ROOT,
        env={**inherited, **(environment or {})},
    )
    running = Activator(process)
    try:
        yield running
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await running.ended()
