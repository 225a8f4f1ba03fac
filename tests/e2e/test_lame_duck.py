"""Python's HTTP/2 clients while an activator ends: each request gets its response.

httpx uses the library h2, which ends a connection at GOAWAY. Frames behind GOAWAY are errors to it,
and it loses responses that are not complete by then.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from activator.lab.objects import PodAddress, private_endpoints, revision, write_object
from tests.activator.proxy.http2.peers import Message, Peer
from tests.e2e.test_nghttp2 import AUTHORITY, Front
from tests.process import ANY_PORTS, PATIENCE, Activator, activator, addresses, until

pytestmark = pytest.mark.e2e

#: More than one read of httpx, and more than a stream's first window.
LARGE = bytes(200_000)


class Pod(Front):
    """Responds to /held when the test allows it, to /large with ``LARGE``, to the rest at once."""

    may_answer: asyncio.Event
    held: asyncio.Semaphore

    def _echo(self, peer: Peer, stream: int, message: Message) -> None:
        if not message.ended:
            return
        (path,) = message.all(b":path")
        if path == b"/held":
            self.held.release()
            asyncio.get_running_loop().create_task(self._answer_later(peer, stream))
        else:
            self._answer(peer, stream, LARGE if path == b"/large" else b"hello")

    async def _answer_later(self, peer: Peer, stream: int) -> None:
        await self.may_answer.wait()
        self._answer(peer, stream, b"hello")

    def _answer(self, peer: Peer, stream: int, body: bytes) -> None:
        peer.headers(stream, [(b":status", b"200")])
        peer.data(stream, body, end=True)


@pytest.fixture
async def manifests(tmp_path: Path) -> AsyncIterator[Path]:
    """Yield a folder with a revision that has one pod."""
    Front.seen_http1 = b""
    Pod.may_answer, Pod.held = asyncio.Event(), asyncio.Semaphore(0)
    place = addresses().take()
    server = await asyncio.get_running_loop().create_server(Pod, place.ip, place.port)
    pod = PodAddress(place.ip, place.port, "uid-1", "pod-1", ready=True)
    write_object(tmp_path, revision("app", h2c=True))
    write_object(tmp_path, private_endpoints("app", [pod], h2c=True))
    yield tmp_path
    server.close()


def local(manifests: Path, lame_duck: str):
    return activator("local", "--manifests", str(manifests), *ANY_PORTS, "--lame-duck", lame_duck)


async def client_of(running: Activator) -> httpx.AsyncClient:
    host, port = await running.address("h2c")
    return httpx.AsyncClient(
        http1=False,
        http2=True,
        trust_env=False,
        timeout=PATIENCE,
        base_url=f"http://{host}:{port}",
        headers={"host": AUTHORITY},
    )


async def is_closed(running: Activator) -> bool:
    try:
        await running.ask("nobody")
    except ConnectionError:
        return True
    return False


async def gets(client: httpx.AsyncClient, path: str = "/") -> None:
    response = await client.get(path)
    assert (response.status_code, response.http_version) == (200, "HTTP/2")
    assert response.content == (LARGE if path == "/large" else b"hello")


@pytest.mark.parametrize("path", ["/", "/large"])
async def test_httpx_has_each_of_its_responses_in_the_lame_duck(manifests: Path, path: str) -> None:
    async with local(manifests, "60s") as running, await client_of(running) as client:
        await gets(client)
        running.tell(signal.SIGTERM)
        await running.logged("draining")
        for _ in range(200):
            await gets(client, path)


async def test_httpx_has_responses_that_it_waits_for_at_a_time(manifests: Path) -> None:
    async with local(manifests, "60s") as running, await client_of(running) as client:
        await gets(client)
        running.tell(signal.SIGTERM)
        await running.logged("draining")
        for _ in range(20):
            async with asyncio.TaskGroup() as group:
                for _ in range(10):
                    group.create_task(gets(client))


async def test_httpx_has_the_responses_that_it_waits_for_when_the_ports_close(
    manifests: Path,
) -> None:
    async with local(manifests, "0s") as running, await client_of(running) as client:
        await gets(client)
        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(gets(client, "/held"))
            for _ in range(3):
                await Pod.held.acquire()
            running.tell(signal.SIGTERM)
            await running.logged("draining")
            await until(lambda: is_closed(running), "no new connection is taken")
            Pod.may_answer.set()
        assert await running.ended() == 0
        assert "ended; during the shutdown: 3 requests served" in running.log


async def test_the_library_h2_has_its_response_before_it_learns_of_the_end(
    manifests: Path,
) -> None:
    async with local(manifests, "60s") as running:
        await running.logged("listening: ")
        running.tell(signal.SIGTERM)
        await running.logged("draining")
        loop = asyncio.get_running_loop()
        for _ in range(50):
            client, over = Peer(client=True), loop.create_future()
            client.on_message = lambda _, __, message, over=over: (
                over.set_result(message) if message.ended and not over.done() else None
            )
            await loop.create_connection(lambda c=client: c, *await running.address("h2c"))
            client.headers(
                1,
                [
                    (b":method", b"GET"),
                    (b":scheme", b"http"),
                    (b":path", b"/"),
                    (b":authority", AUTHORITY.encode()),
                ],
                end=True,
            )
            async with asyncio.timeout(PATIENCE):
                message = await over
            assert (message.status, message.body) == (200, b"hello")
            assert client.goaway is not None
            client.transport.close()
