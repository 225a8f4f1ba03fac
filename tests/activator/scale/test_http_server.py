from __future__ import annotations

from typing import Any

import httpx
import pytest

from activator.scale import http_server
from tests.conftest import both_loops


async def app(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


@both_loops
async def test_an_application_is_served_until_the_context_ends() -> None:
    sock = http_server.listen("127.0.0.1", 0, "--admin-port")
    url = f"http://{http_server.address(sock)}/"
    async with http_server.serving(app, sock), httpx.AsyncClient(timeout=None) as client:
        assert (await client.get(url)).text == "hello"
    async with httpx.AsyncClient(timeout=None) as client:
        with pytest.raises(httpx.TransportError):
            await client.get(url)


def test_a_port_in_use_names_the_address_and_the_setting() -> None:
    with http_server.listen("127.0.0.1", 0, "--admin-port") as sock:
        port = sock.getsockname()[1]
        with pytest.raises(
            http_server.AddressError, match=rf"127.0.0.1 port {port} \(--admin-port"
        ):
            http_server.listen("127.0.0.1", port, "--admin-port")


def test_an_address_of_ipv6_is_written_in_brackets() -> None:
    with http_server.listen("::1", 0, "--admin-port") as sock:
        assert http_server.address(sock).startswith("[::1]:")
