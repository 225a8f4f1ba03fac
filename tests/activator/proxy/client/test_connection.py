"""What connections of clients share in both versions of HTTP: time-outs and the end."""

from __future__ import annotations

import pytest

from activator.proxy.client.connection import LONGEST_SECONDS, MAX_BYTES, MAX_SECONDS
from tests.activator.proxy.world import about, ok, request, turns, until
from tests.conftest import both_loops, in_virtual_time

pytestmark = both_loops

SMALL_BUFFER = 4096


@in_virtual_time
async def test_a_connection_on_which_nothing_ever_comes_is_closed_without_a_word(new_world):
    world = await new_world(header_timeout=1.0)
    client = await world.client()
    started = world.now()
    await client.ended()
    assert not client.received
    assert world.now() - started == about(1.0, within=0.2)
    await until(lambda: not world.proxy.connections)


async def test_connections_that_come_and_go_leave_nothing_behind(world):
    for _ in range(300):
        client = await world.client()
        client.abort()
        await until(lambda: not world.proxy.connections)

    assert len(world.proxy.timers) < 100


@in_virtual_time
async def test_many_idle_connections_have_no_work_to_do(new_world):
    world = await new_world(header_timeout=0.05)
    await world.serving()
    for _ in range(200):
        client = await world.client()
        client.send(request())
        assert (await client.answer()).status == 200
    await world.clock_moves(0.2)

    assert (await world.ask()).status == 200
    await until(lambda: len(world.proxy.timers) <= 1)  # of the connection with the last request
    assert len(world.proxy.connections) >= 200


@in_virtual_time
@pytest.mark.parametrize("fields", [b"", b"Connection: close\r\n"], ids=["keep-alive", "close"])
async def test_a_client_that_never_takes_its_responses_is_dropped(new_world, fields):
    world = await new_world(header_timeout=0.2)
    await world.serving(answer=ok(b"x" * 50_000))  # the pod has sent all of it
    client = await world.client(SMALL_BUFFER)
    client.transport.pause_reading()
    client.send(request() * 120 + request(fields=fields) + request())
    await turns(6000)
    (downstream,) = world.proxy.connections
    assert downstream.transport.get_write_buffer_size() > 0

    await world.clock_moves(0.8)

    assert not world.proxy.connections


@in_virtual_time
async def test_a_client_that_takes_its_responses_slowly_gets_them_all(new_world):
    world = await new_world(header_timeout=0.4)
    await world.serving(answer=ok(b"x" * 100_000))
    client = await world.client(200_000)
    client.transport.pause_reading()
    client.send(request() * 60 + request(fields=b"Connection: close\r\n"))
    await turns(1000)
    for _ in range(10):
        await world.clock_moves(0.05)
        client.transport.resume_reading()
        await turns(30)
        client.transport.pause_reading()
    client.transport.resume_reading()
    await client.size(61 * 100_000)


UNREAD = b"POST / HTTP/1.1\r\nHost: nowhere\r\nContent-Length: 1000000000\r\n\r\n"


@in_virtual_time
async def test_the_response_is_whole_and_the_proxys_side_ends_at_once(world):
    client = await world.client()
    client.send(UNREAD)
    started = world.now()
    assert (await client.answer()).status == 404
    await client.ended()
    assert world.now() - started < MAX_SECONDS / 2
    assert not client.lost


async def test_a_client_that_closes_ends_it_at_once(world):
    client = await world.client()
    client.send(UNREAD)
    await client.ended()
    client.close()
    await until(lambda: not world.proxy.connections)


@in_virtual_time
async def test_a_client_that_stays_is_dropped_after_a_while(world):
    client = await world.client()
    client.send(UNREAD)
    await client.ended()
    started = world.now()
    (downstream,) = world.proxy.connections
    while world.proxy.connections:
        await world.clock_moves(0.1)
    assert world.now() - started == about(MAX_SECONDS, within=0.4)
    assert downstream.transport.is_closing()


@in_virtual_time
async def test_a_client_that_first_sends_all_of_a_large_upload_gets_its_response(world):
    """Some clients read nothing before that."""
    client = await world.client()
    client.send(UNREAD)
    await client.ended()
    for _ in range(100):
        client.send(bytes(1_000_000))
        await until(lambda: not client.transport.get_write_buffer_size())
    assert (await client.answer()).status == 404
    assert not client.lost


@in_virtual_time
async def test_a_slow_upload_ends_by_itself_or_after_some_minutes(world):
    client = await world.client()
    client.send(UNREAD)
    await client.ended()
    started = world.now()
    while world.proxy.connections:
        client.send(b"x")
        await world.clock_moves(MAX_SECONDS / 4)
        assert world.now() < started + LONGEST_SECONDS + 5
    assert world.now() > started + LONGEST_SECONDS - 5


@in_virtual_time
async def test_a_client_that_goes_on_sending_is_read_no_more_but_not_reset(world):
    """A reset during the upload would keep many clients from reading the response."""
    client = await world.client()
    client.send(UNREAD)
    await client.ended()
    started = world.now()
    for _ in range(200):
        client.send(bytes(1_000_000))
        await turns()
    assert client.transport.get_write_buffer_size() > 200_000_000 - MAX_BYTES - 20_000_000
    assert not client.lost
    while world.proxy.connections:
        await world.clock_moves(0.1)
    assert world.now() - started == about(MAX_SECONDS, within=0.4)
