"""A connection whose request was not read completely: the response arrives, the rest is limited."""

from __future__ import annotations

from activator.proxy.client.connection import LONGEST_SECONDS, MAX_BYTES, MAX_SECONDS
from tests.activator.proxy.world import about, turns, until
from tests.conftest import both_loops, in_virtual_time

pytestmark = both_loops

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
