from __future__ import annotations

import socket

import aiohttp
import pytest

from activator.discovery.api_server import describe, environment_proxy
from tests.activator.discovery.fake_api_server import Answer, FakeApiServer
from tests.conftest import both_loops
from tests.ports import hold, port_of

pytestmark = both_loops


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "no_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.mark.parametrize(
    ("url", "no_proxy", "proxied"),
    [
        ("https://10.43.0.1:443", "", True),
        ("https://10.43.0.1:443", "10.0.0.0/8, example.com", False),
        ("https://10.43.0.1:443", "10.43.0.1", False),
        ("https://[fd00::1]:443", "fd00::/8", False),
        ("https://api.example.com:6443", "example.com", False),
        ("https://api.example.org:6443", "example.com", True),
        ("https://127.0.0.5:6443", "", False),
        ("https://localhost:6443", "", False),
        ("http://10.43.0.1", "", False),
    ],
)
def test_the_proxy_of_the_environment_is_used_unless_the_address_is_excepted(
    url: str, no_proxy: str, proxied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("NO_PROXY", no_proxy)
    assert environment_proxy(url) == ("http://proxy:3128" if proxied else None)


def test_an_error_without_a_text_is_described_by_its_type() -> None:
    assert describe(TimeoutError()) == "TimeoutError"
    assert describe(OSError("no")) == "OSError: no"


async def test_a_server_that_is_away_is_one_sentence_with_its_address() -> None:
    """Over a real connection, since the error is aiohttp's."""
    with hold() as held:
        port = port_of(held)
        async with aiohttp.ClientSession() as session:
            with pytest.raises(aiohttp.ClientError) as caught:
                await session.get(f"https://127.0.0.1:{port}/api")
    assert describe(caught.value) == (
        f"the API server at 127.0.0.1:{port} does not respond: connection refused"
    )


async def test_the_kernel_is_asked_to_find_dead_peers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import aiohttp

    from activator.discovery import api_server

    async with FakeApiServer() as server, aiohttp.ClientSession() as session:
        server.script["endpoints", "list"].append(Answer())
        server.always["Endpoints", "watch"] = Answer(end="hold")
        async with session.get(f"http://127.0.0.1:{server.port}/endpoints?watch=1") as response:
            api_server.keep_alive(response)
            assert response.connection is not None
            assert response.connection.transport is not None
            sock = response.connection.transport.get_extra_info("socket")
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 15
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 30_000
