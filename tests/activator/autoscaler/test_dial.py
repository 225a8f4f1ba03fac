"""One dial: the addresses of a name, the handshake, and wrong URLs."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response

from activator.autoscaler.dial import Dialer
from tests.conftest import on_uvloop
from tests.process import PATIENCE

pytestmark = on_uvloop  # the kernel connects in real time

KIND = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "")


def resolve(monkeypatch: pytest.MonkeyPatch, *found: Any) -> None:
    """Let the name ``autoscaler.test`` have these addresses."""
    loop = asyncio.get_running_loop()
    look_up = loop.getaddrinfo

    async def of(host: str, *args: Any, **kwargs: Any) -> Any:
        if host != "autoscaler.test":  # uvloop looks up addresses, too
            return await look_up(host, *args, **kwargs)
        return [(*KIND, address) for address in found]

    monkeypatch.setattr(loop, "getaddrinfo", of, raising=False)


def full(sockets: contextlib.ExitStack) -> Any:
    """Return an address whose packets the kernel drops, since its queue of connections is full."""
    listener = sockets.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
    for _ in range(2):
        each = sockets.enter_context(socket.socket())
        each.setblocking(False)
        each.connect_ex(listener.getsockname())
    return listener.getsockname()


async def until_closed(connection: ServerConnection) -> None:
    await connection.wait_closed()


async def test_an_address_that_drops_packets_does_not_use_up_the_dial(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("activator.process.sockets.NEXT_ADDRESS", 0.01)
    with contextlib.ExitStack() as sockets:
        async with serve(until_closed, "127.0.0.1", 0) as server:
            works = next(iter(server.sockets)).getsockname()
            resolve(monkeypatch, full(sockets), works)
            connection = await Dialer("ws://autoscaler.test:8080", PATIENCE, 1.0).dial()
            assert connection.remote_address == works
            await connection.close()


async def test_a_name_whose_addresses_all_refuse_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with contextlib.ExitStack() as sockets:
        held = [sockets.enter_context(socket.socket()) for _ in range(2)]
        for each in held:
            each.bind(("127.0.0.1", 0))
        resolve(monkeypatch, *(each.getsockname() for each in held))
        with pytest.raises(OSError, match=r"refused|Connect call failed"):
            await Dialer("ws://autoscaler.test:8080", PATIENCE, 1.0).dial()


@pytest.mark.parametrize("url", ["http://a:1", "ws://", "ws://a:port", "autoscaler:8080"])
async def test_a_wrong_url_is_an_error_with_an_example(url: str) -> None:
    with pytest.raises(ValueError, match=r"give one like ws://autoscaler\.knative-serving"):
        Dialer(url, 1.0, 1.0)


async def test_each_dial_sends_the_token_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "token"

    def admit(connection: ServerConnection, request: Request) -> Response | None:
        if request.headers.get("Authorization") == "Bearer good":
            return None
        return connection.respond(HTTPStatus.UNAUTHORIZED, "")

    async with serve(until_closed, "127.0.0.1", 0, process_request=admit) as server:
        host, port = next(iter(server.sockets)).getsockname()
        dialer = Dialer(f"ws://{host}:{port}", PATIENCE, 1.0, str(file))
        with pytest.raises(OSError, match=str(file)):
            await dialer.dial()
        file.write_text(" ")
        with pytest.raises(OSError, match=f"{file} has no token"):
            await dialer.dial()
        file.write_text("bad\n")
        with pytest.raises(PermissionError, match=f"401 to the token of {file}"):
            await dialer.dial()
        with pytest.raises(PermissionError, match="401 to no token"):
            await Dialer(f"ws://{host}:{port}", PATIENCE, 1.0).dial()
        file.write_text("good old\n")
        await (await dialer.dial()).close()
