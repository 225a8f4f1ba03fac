"""KEDA's port: plain, over TLS with files that change, and in use by another process."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import grpc
import pytest
import trustme

from activator.scale.board import Board
from activator.scale.http_server import AddressError
from activator.scale.keda import externalscaler_pb2 as wire
from activator.scale.keda.server import ExternalScaler, KedaListener
from activator.scale.reports.load import Loads, ServiceName
from activator.tls.certificates import TlsFileError, TlsFiles

CA, OTHER = trustme.CA(), trustme.CA()
REF = wire.ScaledObjectRef(name="x", namespace="shop", scalerMetadata={"service": "hello"})


def write(folder: Path, ca: trustme.CA = CA, *, client_ca: bool = False) -> TlsFiles:
    """Write the files of a listener."""
    leaf = ca.issue_cert("localhost")
    files = TlsFiles(
        folder / "tls.crt", folder / "tls.key", folder / "ca.crt" if client_ca else None
    )
    new = folder / "new"
    for path, data in (
        (files.certificate, b"".join(blob.bytes() for blob in leaf.cert_chain_pems)),
        (files.key, leaf.private_key_pem.bytes()),
        (folder / "ca.crt", CA.cert_pem.bytes()),
    ):
        new.write_bytes(data)
        new.replace(path)
    return files


async def is_active(port: int, credentials: grpc.ChannelCredentials | None) -> bool:
    address = f"localhost:{port}"
    options = [("grpc.use_local_subchannel_pool", 1)]
    channel = (
        grpc.aio.insecure_channel(address, options)
        if credentials is None
        else grpc.aio.secure_channel(address, credentials, options)
    )
    async with channel:
        call = channel.unary_unary(
            "/externalscaler.ExternalScaler/IsActive",
            lambda message: message.SerializeToString(),
            wire.IsActiveResponse.FromString,
        )
        response = await call(REF, timeout=20)
        return bool(response.result)


def trusting(ca: trustme.CA, *, known: bool = False) -> grpc.ChannelCredentials:
    leaf = CA.issue_cert("keda")
    key = leaf.private_key_pem.bytes() if known else None
    chain = b"".join(blob.bytes() for blob in leaf.cert_chain_pems) if known else None
    return grpc.ssl_channel_credentials(ca.cert_pem.bytes(), key, chain)


def play(scene: Callable[[int], Awaitable[None]], files: TlsFiles | None) -> None:
    async def run() -> None:
        board = Board(Loads(), lambda: 0.0)
        board.publish(ServiceName("shop", "hello"), active=True, target=100)
        listener = KedaListener(ExternalScaler(board, lambda: True), files)
        port = await listener.start("127.0.0.1", 0)
        try:
            await scene(port)
        finally:
            await listener.close()

    asyncio.run(run())


def test_plain() -> None:
    async def scene(port: int) -> None:
        assert await is_active(port, None)

    play(scene, None)


def test_tls_follows_its_files(tmp_path: Path) -> None:
    async def scene(port: int) -> None:
        assert await is_active(port, trusting(CA))
        write(tmp_path, OTHER)
        assert await is_active(port, trusting(OTHER))
        (tmp_path / "tls.key").write_text("broken")
        assert await is_active(port, trusting(OTHER))
        with pytest.raises(grpc.aio.AioRpcError):
            await is_active(port, trusting(CA))
        with pytest.raises(grpc.aio.AioRpcError):
            await is_active(port, None)

    play(scene, write(tmp_path))


def test_clients_may_need_a_certificate(tmp_path: Path) -> None:
    async def scene(port: int) -> None:
        assert await is_active(port, trusting(CA, known=True))
        with pytest.raises(grpc.aio.AioRpcError):
            await is_active(port, trusting(CA))

    play(scene, write(tmp_path, client_ca=True))


def test_a_restart_ends_the_connections_so_that_keda_finds_the_next_leader() -> None:
    async def run() -> None:
        board = Board(Loads(), lambda: 0.0)
        board.publish(ServiceName("shop", "hello"), active=False, target=100)
        listener = KedaListener(ExternalScaler(board, lambda: True))
        port = await listener.start("127.0.0.1", 0)
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            stream = channel.unary_stream("/externalscaler.ExternalScaler/StreamIsActive")(
                REF.SerializeToString()
            )
            await stream.read()
            await listener.restart()
            with pytest.raises(grpc.aio.AioRpcError) as ended:
                await stream.read()
            assert ended.value.code() is grpc.StatusCode.UNAVAILABLE
        assert await is_active(port, None) is False
        await listener.close()
        await listener.restart()  # the process ends: nothing listens again
        with pytest.raises(grpc.aio.AioRpcError):
            await is_active(port, None)

    asyncio.run(run())


def test_a_port_in_use_is_an_error_that_names_it() -> None:
    async def run() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            listener = KedaListener(ExternalScaler(Board(Loads(), lambda: 0.0), lambda: True))
            with pytest.raises(AddressError, match=f"cannot listen on 127.0.0.1:{port}"):
                await listener.start("127.0.0.1", port)
            await listener.close()

    asyncio.run(run())


def test_unusable_files_are_an_error_that_names_them(tmp_path: Path) -> None:
    async def run() -> None:
        scaler = ExternalScaler(Board(Loads(), lambda: 0.0), lambda: True)
        files = TlsFiles(tmp_path / "tls.crt", tmp_path / "tls.key")
        with pytest.raises(TlsFileError, match=r"tls\.crt"):
            await KedaListener(scaler, files).start("127.0.0.1", 0)

    asyncio.run(run())
