"""An activator as a process of its own, for tests that ask it by its ports alone."""

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
#: Seconds for what should take a moment, on a machine that does much else.
PATIENCE = 45.0
ANY_PORTS = (
    *("--bind", "127.0.0.1", "--http-port", "0", "--h2c-port", "0"),
    *("--admin-port", "0", "--metrics-port", "0", "--profiling-port", "0"),
    *("--log-format", "json"),
)
#: What the activator is given of our environment; a setting from it would be another test.
ENVIRONMENT = ("PATH", "HOME", "PYTHONPATH")


class Activator:
    """One activator process; ``lines`` is what it has logged so far."""

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
        """Wait until a line holds a text, and return it."""
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
        """Wait for the end, and return the exit status."""
        async with asyncio.timeout(PATIENCE):
            status = await self.process.wait()
            await self._reading
        return status

    async def get(
        self, target: str, headers: Mapping[str, str] | None = None, listener: str = "http"
    ) -> tuple[int, str]:
        """One request on a connection of its own; the status and the body."""
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
            raise ConnectionError(f"no answer: {head!r}")
        return int(head.split()[1]), body.decode()

    async def ask(self, name: str) -> tuple[int, str]:
        """One request to default/NAME."""
        return await self.get("/", {"Host": f"{name}.default.svc.cluster.local"})

    async def queued(self, name: str, count: int) -> None:
        """Wait until so many requests of default/NAME wait."""

        async def look() -> bool:
            status, body = await self.get(f"/api/v1/revisions/default/{name}", listener="admin")
            return status == 200 and json.loads(body)["queued"] == count

        await until(look, f"{count} requests of {name} wait: {self.log}")


def addresses() -> AddressPool:
    """Places for pods that no other test, in whichever process, has as well."""
    return AddressPool(f"{network()}.1")


async def until(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    """Look again, a network round trip apart, until something that nobody tells is so."""
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
    """Run an activator; ``open_files`` is its limit of open files, 0 for the test's own."""
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
