from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from activator.scale.keda import lazy_listener as module
from activator.scale.keda.lazy_listener import LazyListener, NotStarted
from activator.scale.listeners.http_server import listen
from tests.conftest import both_loops

pytestmark = both_loops


class Shouting:
    """A server that responds in capitals."""

    def __init__(self) -> None:
        self.starts = 0
        self.server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> None:
        self.starts += 1
        self.server = await asyncio.start_server(self.serve, host, port)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1000):
            writer.write(data.upper())
        writer.close()


@asynccontextmanager
async def listening(shouting: Shouting) -> AsyncIterator[tuple[int, asyncio.Task[None]]]:
    sock = listen("127.0.0.1", 0, "--grpc-port")
    port = sock.getsockname()[1]
    task = asyncio.ensure_future(LazyListener(sock, shouting.start).run())
    try:
        yield port, task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        sock.close()
        if shouting.server is not None:
            shouting.server.close()


async def talk(port: int, text: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(text)
    try:
        return await reader.readexactly(len(text))
    finally:
        writer.close()


async def test_the_first_connection_starts_the_server_and_reaches_it() -> None:
    shouting = Shouting()
    async with listening(shouting) as (port, _):
        assert shouting.starts == 0
        assert await talk(port, b"hello") == b"HELLO"
        assert await talk(port, b"again") == b"AGAIN"
        assert shouting.starts == 1


class Late(Shouting):
    """A server whose first attempts to start fail."""

    def __init__(self, *errors: Exception) -> None:
        super().__init__()
        self.errors = list(errors)

    async def start(self, host: str, port: int) -> None:
        if self.errors:
            raise self.errors.pop(0)
        await super().start(host, port)


async def test_a_server_that_cannot_start_is_started_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "RETRY", 0.0)
    broken = "TLS (a.pem): no key"
    late = Late(NotStarted(broken), NotStarted(broken), OSError("in use"))
    async with listening(late) as (port, task):
        assert await talk(port, b"hello") == b"HELLO"
        await asyncio.wait([task])
        assert await talk(port, b"again") == b"AGAIN"
    assert [broken in caplog.text, caplog.text.count(broken), "in use" in caplog.text] == [
        *(True, 1, True)
    ]


async def test_the_first_connection_stays_open_as_long_as_its_client_wants() -> None:
    async with listening(Shouting()) as (port, task):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(3):
            writer.write(b"x" * 100_000)
            assert await reader.readexactly(100_000) == b"X" * 100_000
            await talk(port, b"other")
        writer.close()
        await task


async def test_without_a_connection_the_end_closes_the_port() -> None:
    shouting = Shouting()
    async with listening(shouting) as (port, _):
        pass
    assert shouting.starts == 0
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
        pass


async def test_the_end_closes_the_first_connection() -> None:
    async with listening(Shouting()) as (port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"x")
        assert await reader.readexactly(1) == b"X"
    assert await reader.read() == b""
    writer.close()
