"""What the kernel knows of a client."""

from __future__ import annotations

import socket

from activator.proxy.transport import peer_socket
from tests.activator.proxy.world import until
from tests.conftest import both_loops

pytestmark = both_loops


async def _pair(world):
    client = await world.client()
    await until(lambda: world.proxy.connections)
    (downstream,) = world.proxy.connections
    return client, downstream.transport


async def test_a_client_that_is_there_is_not_gone(world):
    _, transport = await _pair(world)
    assert not peer_socket.is_gone(transport)


async def test_a_broken_connection_is_gone_though_the_loop_does_not_read(world):
    client, transport = await _pair(world)
    transport.pause_reading()
    client.abort()
    await until(lambda: peer_socket.is_gone(transport))
    transport.abort()


async def test_the_kernel_asks(world):
    _, transport = await _pair(world)
    peer_socket.probe_half_closed(transport)
    sock = transport.get_extra_info("socket")
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 5


async def test_what_a_client_has_not_taken_is_counted_to_the_byte(world):
    client, transport = await _pair(world)
    assert peer_socket.count_unsent(transport) == 0
    client.transport.pause_reading()
    transport.write(b"x" * (20 << 20))
    before = peer_socket.count_unsent(transport)
    assert before > transport.get_write_buffer_size()

    client.transport.resume_reading()
    await until(lambda: len(client.received) > 1 << 20)
    assert peer_socket.count_unsent(transport) < before
    await client.size(20 << 20)
    assert peer_socket.count_unsent(transport) == 0
