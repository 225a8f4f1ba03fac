"""The begin and end of TLS with clients that the test controls in each step."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from activator.proxy.transport.peer_socket import count_unsent
from tests.activator.proxy.tls_world import ByHand, TlsWorld
from tests.activator.proxy.world import request, turns, until
from tests.conftest import both_loops, in_virtual_time, on_uvloop

pytestmark = both_loops


@pytest.fixture
async def world(anyio_backend: Any) -> AsyncIterator[TlsWorld]:
    """A proxy that speaks TLS."""
    world = TlsWorld()
    await world.start()
    yield world
    await world.close()


async def test_what_comes_right_behind_the_handshake_is_not_lost(world):
    await world.serving()
    by_hand = ByHand(await world.plain(), world.trusted)
    await by_hand.shake(behind=request())
    assert b"200 OK" in await by_hand.read_until(b"hello")


@in_virtual_time
async def test_the_close_does_not_wait_for_a_client_that_sends_no_end_of_tls(world):
    await world.serving()
    by_hand = ByHand(await world.plain(), world.trusted)
    await by_hand.shake(behind=request(fields=b"Connection: close\r\n"))
    await by_hand.read_until(b"hello")
    (connection,) = world.proxy.connections
    await until(lambda: not count_unsent(connection.transport))  # the kernel acknowledges late
    await world.clock_moves(1.5)
    await turns()
    assert not world.proxy.connections


@on_uvloop
async def test_the_end_waits_for_a_client_that_has_not_got_all(world):
    """The end follows the response, for any speed of the reader. In real time: with a small window
    the kernel waits now and then, too.
    """
    size = 16 << 20
    pod = await world.serving()
    pod.answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size
    client = await world.client(4096)
    client.transport.pause_reading()
    client.send(request(fields=b"Connection: close\r\n"))
    await until(lambda: pod.requests)
    await world.clock_moves(2.5)
    client.widen()
    client.transport.resume_reading()
    await client.size(size)
