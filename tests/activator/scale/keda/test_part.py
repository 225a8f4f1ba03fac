"""The part that serves KEDA, and its port before KEDA connects."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest

from activator.scale.http_server import AddressError, listen
from activator.scale.keda import externalscaler_pb2 as wire
from activator.scale.keda import part as keda_part
from activator.scale.keda.part import KedaPart, serve_later
from tests.activator.scale.keda.client import cancelled, until
from tests.activator.scale.world import Running, cluster, scaler
from tests.conftest import both_loops, on_uvloop

REF = wire.ScaledObjectRef(name="x", namespace="shop", scalerMetadata={"service": "hello"})


async def until_leader(running: Running) -> None:
    """Wait in real time until a scaler leads."""
    await until(lambda: running.leads)


@on_uvloop
async def test_keda_gets_the_state_of_a_cold_start(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add(owner="keda", target_concurrency="7")
        async with scaler(kube, parts=[KedaPart]) as running:
            await until_leader(running)
            address = running.scaler.addresses["grpc"]
            async with grpc.aio.insecure_channel(address) as channel, running.activator() as act:
                stream = channel.unary_stream(
                    "/externalscaler.ExternalScaler/StreamIsActive",
                    lambda message: message.SerializeToString(),
                    wire.IsActiveResponse.FromString,
                )(REF)
                assert (await stream.read()).result is False
                await act.report(3)
                assert (await stream.read()).result is True
                spec = await channel.unary_unary(
                    "/externalscaler.ExternalScaler/GetMetricSpec",
                    lambda message: message.SerializeToString(),
                    wire.GetMetricSpecResponse.FromString,
                )(REF)
                assert spec.metricSpecs[0].targetSize == 7
                await cancelled(stream)
            await until(lambda: kube.replicas() == 1)  # KEDA gets the state before


@on_uvloop
async def test_a_port_in_use_names_the_setting(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        port = kube.server.port
        with pytest.raises(AddressError, match="--grpc-port"):
            async with scaler(kube, parts=[KedaPart], grpc_port=str(port)):
                pass


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
    task = asyncio.ensure_future(serve_later(sock, shouting.start))
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
    monkeypatch.setattr(keda_part, "RETRY", 0.0)
    broken = "TLS (a.pem): no key"
    late = Late(AddressError(broken), AddressError(broken), OSError("in use"))
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
