"""An activator on another system than Linux: a Python without the constants of Linux.

A module that Python imports at its start removes the names before the first other import.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from tests.activator.test_app import Pod, local, write_app
from tests.process import PATIENCE, ROOT, Activator

pytestmark = pytest.mark.e2e

#: The names that macOS lacks, by module; and its name for ``socket.TCP_KEEPIDLE``.
WITHOUT = """
import os, select, socket, termios
MISSING = {
    socket: "TCP_KEEPIDLE TCP_USER_TIMEOUT TCP_INFO TCP_QUICKACK SO_ACCEPTCONN SO_NWRITE SIOCOUTQ",
    select: "POLLRDHUP poll epoll EPOLLRDHUP",
    termios: "TIOCOUTQ",
    os: "memfd_create",
}
for module, names in MISSING.items():
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)
socket.TCP_KEEPALIVE = 4
print("without", flush=True)
"""
IMPORT_ALL = """
import importlib, pkgutil, throttler, activator
for package in (throttler, activator):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
"""
TO_APP = b"Host: app.default.svc.cluster.local\r\n"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    folder = tmp_path / "without"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(WITHOUT)
    return {"PYTHONPATH": str(folder)}


async def test_every_module_can_be_imported(environment: dict[str, str]) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", IMPORT_ALL), cwd=ROOT, env=environment, stdout=PIPE, stderr=PIPE
    )
    async with asyncio.timeout(2 * PATIENCE):
        out, errors = await process.communicate()
    assert (out, errors.decode()) == (b"without\n", "")


async def test_requests_are_served_and_clients_that_leave_are_noticed(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    manifests = tmp_path / "manifests"
    manifests.mkdir()
    async with Pod() as pod, local(manifests, environment=environment) as running:
        write_app(manifests, "app", pod)
        write_app(manifests, "sleeper")
        await running.logged("listening: ")
        await _half_closed_post(running, pod)
        assert await running.ask("app") == (200, "queue")  # on the connection of the first request
        await _leaves_while_waiting(running)


async def _half_closed_post(running: Activator, pod: Pod) -> None:
    """A client that closes its sending side after its request still gets its response."""
    reader, writer = await asyncio.open_connection(*await running.address("http"))
    head = b"POST / HTTP/1.1\r\n" + TO_APP + b"Connection: close\r\nContent-Length: 5\r\n\r\n"
    writer.write(head + b"queue")
    writer.write_eof()
    async with asyncio.timeout(PATIENCE):
        await pod.arrived.wait()
        pod.open.set()
        answer = await reader.read()
    assert answer.replace(b"HTTP/1.1 100 Continue\r\n\r\n", b"").startswith(b"HTTP/1.1 200 OK")
    writer.close()


async def _leaves_while_waiting(running: Activator) -> None:
    _, writer = await asyncio.open_connection(*await running.address("http"))
    writer.write(b"GET / HTTP/1.1\r\n" + TO_APP.replace(b"app.", b"sleeper.") + b"\r\n")
    await running.queued("sleeper", 1)
    writer.transport.abort()
    await running.queued("sleeper", 0)
