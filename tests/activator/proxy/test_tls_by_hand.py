"""How TLS begins and ends with clients that do only what they are told."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from typing import Any

import pytest

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


async def test_what_comes_right_behind_the_handshake_is_not_lost(world):
    await world.serving()
    by_hand = ByHand(await plain(world), world.trusted)
    await by_hand.shake(behind=request())
    assert b"200 OK" in await by_hand.read_until(b"hello")


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
