"""Connections that are not encrypted yet: counted, bounded, given up in time."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from typing import Any

import pytest

from activator.proxy import handshake
from tests.activator.proxy.tls_world import DATA_PLANE, TlsWorld
from tests.activator.proxy.world import Client, request, turns, until


@pytest.fixture
async def world(anyio_backend: Any) -> AsyncIterator[TlsWorld]:
    """A proxy that speaks TLS."""
    world = TlsWorld()
    await world.start()
    yield world
    await world.close()


class ByHand:
    """A client's side of TLS over a plain connection, which does only what it is told."""

    def __init__(self, client: Client, context: ssl.SSLContext) -> None:
        self.client = client
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._in, self._out, server_hostname=DATA_PLANE)

    def pump(self) -> None:
        """Pass bytes on, both ways."""
        self._in.write(bytes(self.client.unread))
        self.client.unread.clear()
        if data := self._out.read():
            self.client.send(data)

    async def shake(self, behind: bytes = b"") -> None:
        """Do the handshake; what is ``behind`` it leaves with our last part of it."""
        while True:
            try:
                self.tls.do_handshake()
            except ssl.SSLWantReadError:
                self.pump()
                await self.client.change()
                self.pump()
            else:
                break
        if behind:
            self.tls.write(behind)
        self.pump()

    async def read_until(self, end: bytes) -> bytes:
        """Read what comes, to these bytes."""
        read = b""
        while end not in read:
            self.pump()
            try:
                read += self.tls.read(1 << 16)
            except ssl.SSLWantReadError:
                await self.client.change()
        return read


async def plain(world: TlsWorld) -> Client:
    """A connection on which nothing is sent."""
    _, client = await world.loop.create_connection(Client, "127.0.0.1", world.port)
    world.clients.append(client)
    return client


async def test_a_silent_client_is_counted_and_given_up_in_time(world, monkeypatch):
    monkeypatch.setattr(handshake, "HANDSHAKE_TIMEOUT", 0.2)
    client = await plain(world)
    await until(lambda: world.proxy.handshakes == 1)
    assert not world.proxy.connections
    await client.ended()
    assert world.proxy.handshakes == 0


async def test_beyond_the_bound_connections_are_closed_at_once(world):
    world.proxy.max_connections = 2
    first = [await plain(world), await plain(world)]
    await until(lambda: world.proxy.handshakes == 2)
    third = await plain(world)
    await third.ended()
    assert world.proxy.handshakes == 2
    for client in first:
        client.abort()
    await until(lambda: world.proxy.handshakes == 0)
    await world.serving()
    assert (await world.ask()).status == 200


async def test_what_comes_right_behind_the_handshake_is_not_lost(world):
    await world.serving()
    by_hand = ByHand(await plain(world), world.trusted)
    await by_hand.shake(behind=request())
    assert b"200 OK" in await by_hand.read_until(b"hello")


async def test_a_handshake_that_is_cancelled_closes_its_connection(world):
    client = await plain(world)
    await until(lambda: world.proxy.handshakes == 1)
    await world.tasks.close()
    await client.ended()
    assert world.proxy.handshakes == 0


async def test_a_client_that_does_not_answer_the_end_of_tls_is_not_waited_for(world):
    await world.serving()
    by_hand = ByHand(await plain(world), world.trusted)
    await by_hand.shake(behind=request(fields=b"Connection: close\r\n"))
    await by_hand.read_until(b"hello")
    assert world.proxy.connections
    await world.clock_moves(1.5)
    await turns()
    assert not world.proxy.connections


async def test_a_client_that_is_not_told_all_is_waited_for(world):
    """The end comes behind the answer, however slowly that is taken."""
    size = 48 << 20
    pod = await world.serving()
    pod.answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size
    client = await world.client(4096)
    client.transport.pause_reading()
    client.send(request(fields=b"Connection: close\r\n"))
    await until(lambda: pod.requests)
    await world.clock_moves(2.5)
    client.transport.resume_reading()
    await client.size(size)


async def test_tasks_of_handshakes_end(world):
    client = await world.client()
    await asyncio.wait_for(until(lambda: len(world.tasks) == 0), 5)
    client.abort()
