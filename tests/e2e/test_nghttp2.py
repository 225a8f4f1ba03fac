"""nghttp2's own clients against both ports of an activator; the pod uses the library h2."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest

from activator.lab.objects import PodAddress, private_endpoints, revision, write_object
from tests.activator.proxy.http2.peers import Message, Peer
from tests.process import ANY_PORTS, PATIENCE, Activator, activator, addresses
from tests.programs import need

pytestmark = pytest.mark.e2e

AUTHORITY = "app.default.svc.cluster.local"
BOTH_PORTS = pytest.mark.parametrize("listener", ["http", "h2c"])


class Front(asyncio.Protocol):
    """A pod's port: responds to HTTP/1.1 as to a probe, and echoes HTTP/2 with trailers."""

    seen: list[Message]
    seen_http1: bytes

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if data.startswith(b"PRI "):
            peer = Peer(client=False)
            peer.on_message = self._echo
            peer.connection_made(self.transport)
            self.transport.set_protocol(peer)
            peer.data_received(data)
        else:
            Front.seen_http1 += data
            self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nqueue")

    def _echo(self, peer: Peer, stream: int, message: Message) -> None:
        if message.ended:
            self.seen.append(message)
            peer.headers(stream, [(b":status", b"200")])
            peer.data(stream, message.body or b"hello")
            peer.headers(stream, [(b"x-trailer", b"end")], end=True)


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Activator]:
    loop = asyncio.get_running_loop()
    Front.seen = []
    Front.seen_http1 = b""
    place = addresses().take()
    server = await loop.create_server(Front, place.ip, place.port)
    pod = PodAddress(place.ip, place.port, "uid-1", "pod-1", ready=True)
    write_object(tmp_path, revision("app", h2c=True))
    write_object(tmp_path, private_endpoints("app", [pod], h2c=True))
    async with activator("local", "--manifests", str(tmp_path), *ANY_PORTS) as found:
        yield found
    server.close()


async def printed(program: str, *arguments: str) -> str:
    """Return the output and the errors that a program prints."""
    path = need(program, "nghttp2-client")
    process = await asyncio.create_subprocess_exec(path, *arguments, stdout=PIPE, stderr=STDOUT)
    async with asyncio.timeout(PATIENCE):
        said, _ = await process.communicate()
    return said.decode()


@BOTH_PORTS
async def test_h2load_gets_a_response_to_each_request(running: Activator, listener: str) -> None:
    host, port = await running.address(listener)
    said = await printed(
        *("h2load", "-n", "2000", "-c", "8", "-m", "16", "-H", f":authority: {AUTHORITY}"),
        f"http://{host}:{port}/",
    )
    assert "2000 succeeded, 0 failed, 0 errored, 0 timeout" in said, said
    assert "status codes: 2000 2xx" in said
    assert len(Front.seen) == 2000


@BOTH_PORTS
async def test_nghttp_posts_and_both_sides_have_their_trailers(
    running: Activator, listener: str, tmp_path: Path
) -> None:
    host, port = await running.address(listener)
    body = tmp_path / "body"
    body.write_bytes(b"0123456789" * 20_000)
    said = await printed(
        *("nghttp", "-v", "-n", "-d", str(body), "--trailer", "x-checksum: 1"),
        *("-H", f":authority: {AUTHORITY}", f"http://{host}:{port}/upload"),
    )
    (seen,) = Front.seen
    assert (seen.all(b":path"), seen.body) == ([b"/upload"], body.read_bytes())
    assert seen.trailers == [(b"x-checksum", b"1")]
    assert ":status: 200" in said, said
    assert "x-trailer: end" in said
    assert "RST_STREAM" not in said


async def test_a_request_for_http2_in_http1_gets_its_response_in_http1(running: Activator) -> None:
    status, body = await running.get(
        "/",
        {
            "Host": AUTHORITY,
            "Connection": "close, Upgrade, HTTP2-Settings",
            "Upgrade": "h2c",
            "HTTP2-Settings": "AAMAAABkAAQAAP__",
        },
    )
    assert (status, body) == (200, "queue")
    assert b"K-Original-Host" in Front.seen_http1
    assert b"upgrade" not in Front.seen_http1.lower()
