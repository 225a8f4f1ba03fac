"""``GET /api/v1/events`` over sockets: what clients get; a slow client delays no other."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from activator.admin import event_feed
from activator.admin.application import create_app
from activator.admin.event_feed import EventFeed, EventReader
from activator.records.narration import EventKind
from activator.runtime import Runtime
from activator.servers import Servers
from activator.settings.config import load
from tests.activator.telemetry.world import World
from tests.conftest import on_uvloop
from tests.process import PATIENCE
from throttler.model import AppProtocol, Endpoint, ListedEndpoints, Revision, RevisionID

pytestmark = on_uvloop  # uvicorn's timers run in real time

HELLO = RevisionID("default", "hello")
PATH = "/api/v1/events"


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[Servers]:
    names = ("http_port", "h2c_port", "https_port", "admin_port", "metrics_port", "profiling_port")
    flags = {"manifests": str(folder), "bind": "127.0.0.1", **dict.fromkeys(names, "0")}
    servers = Servers(Runtime(load("local", flags, {})))
    await servers.start()
    try:
        async with asyncio.timeout(PATIENCE):
            yield servers
    finally:
        await servers.stop_data(1.0)
        await servers.stop()


class Client:
    """A client that reads the stream event by event, as EventSource does."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.head = b""
        self._held = b""

    async def ask(self, query: str, last: str) -> None:
        also = f"Last-Event-ID: {last}\r\n" if last else ""
        head = f"GET {PATH}{query} HTTP/1.1\r\nHost: localhost\r\n{also}\r\n"
        self._writer.write(head.encode())
        self.head = await self.text(b"\r\n\r\n")

    async def event(self) -> tuple[str, str, dict[str, Any]]:
        """Return the next event: id, kind, data."""
        while b"\n\n" not in self._held:
            size = int(await self._reader.readuntil(b"\r\n"), 16)
            assert size, "the stream has ended"
            self._held += (await self._reader.readexactly(size + 2))[:-2]
        block, _, self._held = self._held.partition(b"\n\n")
        fields = dict(line.split(": ", 1) for line in block.decode().split("\n"))
        return fields["id"], fields["event"], json.loads(fields["data"])

    async def text(self, end: bytes) -> bytes:
        """Read up to ``end``."""
        return await self._reader.readuntil(end)

    async def end(self) -> bytes:
        """Read until the connection is closed."""
        return await self._reader.read()


@asynccontextmanager
async def reading(servers: Servers, query: str = "", last: str = "") -> AsyncIterator[Client]:
    host, port = servers.addresses["admin"].rsplit(":", 1)
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        client = Client(reader, writer)
        await client.ask(query, last)
        yield client
    finally:
        writer.close()
        await asyncio.gather(writer.wait_closed(), return_exceptions=True)


def list_pod(servers: Servers, name: str = "hello") -> None:
    """Kubernetes lists one pod; no process listens at its address."""
    driver = servers.runtime.driver
    revision = RevisionID("default", name)
    driver.set_revision(Revision(revision))
    endpoints = ListedEndpoints(not_ready=frozenset({Endpoint("127.0.0.1:9", "u1")}))
    driver.set_endpoints(revision, {AppProtocol.HTTP1: endpoints})


def flood(servers: Servers, count: int) -> None:
    for number in range(count):
        servers.runtime.driver.events.publish(EventKind.QUEUE_BEGAN, HELLO, {"n": number})


async def test_a_client_gets_events(tmp_path: Path) -> None:
    async with serving(tmp_path) as servers, reading(servers) as client:
        head = client.head.lower()
        assert head.startswith(b"http/1.1 200 ")
        assert b"content-type: text/event-stream" in head
        assert b"cache-control: no-store" in head
        event_id, kind, data = await client.event()
        assert kind == "hello"
        assert set(data) == {"podName", "version"}
        list_pod(servers)
        next_id, kind, data = await client.event()
        assert kind == "pod-changed"
        assert (data["revision"], data["address"]) == ("default/hello", "127.0.0.1:9")
        assert next_id != event_id


async def test_filters_and_last_event_id(tmp_path: Path) -> None:
    async with serving(tmp_path) as servers:
        async with reading(servers) as client:
            known, *_ = await client.event()
            list_pod(servers, "other")
            list_pod(servers)
            await client.event()
        async with reading(servers, "?revision=default/hello&kind=pod-changed", known) as client:
            assert (await client.event())[1] == "hello"
            assert (await client.event())[2]["revision"] == "default/hello"


async def test_a_client_that_leaves_is_gone_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path) as servers:
        feed, gone = servers._events, asyncio.Event()
        leave = feed.leave

        def note(reader: EventReader) -> None:
            leave(reader)
            gone.set()

        monkeypatch.setattr(feed, "leave", note)
        async with reading(servers) as client:
            await client.event()
            assert feed.readers == 1
        await gone.wait()
        assert feed.readers == 0


async def test_the_end_of_the_process_ends_the_stream(tmp_path: Path) -> None:
    loop = asyncio.get_running_loop()
    async with serving(tmp_path) as servers, reading(servers) as client:
        await client.event()
        begun = loop.time()
        stopping = loop.create_task(servers.stop())
        assert (await client.end()).endswith(b"0\r\n\r\n")
        await stopping
        # uvicorn closes connections that have not ended after 2 s.
        assert loop.time() - begun < 1.5


@pytest.mark.untraced
async def test_a_client_that_reads_nothing_delays_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_feed, "PACE", 0.001)
    async with serving(tmp_path) as servers:
        with socket.socket() as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.setblocking(False)
            host, port = servers.addresses["admin"].rsplit(":", 1)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(deaf, (host, int(port)))
            await loop.sock_sendall(
                deaf, f"GET {PATH} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
            )
            await loop.sock_recv(deaf, 1)
            async with reading(servers) as quick:
                await quick.event()
                for _ in range(20):
                    flood(servers, 500)
                    for _ in range(500):
                        assert (await quick.event())[1] == "queue-began"


async def test_one_reader_too_many_is_refused(tmp_path: Path) -> None:
    world = World()
    feed = EventFeed(world.driver.events, most_readers=1)
    reader = feed.join({})
    app = create_app(world, feed=feed)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        answer = await client.get(PATH)
        assert answer.status_code == 503
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.headers["retry-after"] == "10"
        head = await client.head(PATH)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-type"].startswith("text/event-stream")
    feed.leave(reader)
    feed.close()


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("?kind=nothing", "kind must be one of pod-changed, capacity-changed"),
        ("?revision=hello", "NAMESPACE/NAME"),
        ("?revision=a/b/c", "NAMESPACE/NAME"),
        ("?revision=/b", "NAMESPACE/NAME"),
        ("?" + "&".join(["kind=queue-began"] * 101), "at most 100"),
    ],
)
async def test_what_cannot_be_asked_for(query: str, why: str) -> None:
    world = World()
    transport = httpx.ASGITransport(create_app(world))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        answer = await client.get(PATH + query)
    assert answer.status_code == 400
    assert why in answer.json()["detail"]


async def test_silence_is_broken_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_feed, "KEEP_ALIVE", 0.05)
    monkeypatch.setattr(event_feed, "PACE", 0.01)
    # Events that the filter removes count as silence, too.
    async with serving(tmp_path) as servers, reading(servers, "?kind=queue-ended") as client:
        await client.event()
        flood(servers, 1)
        for _ in range(2):
            assert b": keep-alive" in await client.text(b"\n\n")
