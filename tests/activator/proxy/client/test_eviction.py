"""Which client's connection closes for a new client, and which never does."""

from __future__ import annotations

import asyncio
import socket
from math import inf
from typing import cast

from activator.proxy.client.connection import SHARED, ClientConnection
from activator.proxy.client.proxy import Eviction
from activator.proxy.http2 import frames
from activator.proxy.http2.frames import ErrorCode
from tests.activator.proxy.client.test_http2 import BEGIN, goaways
from tests.activator.proxy.world import Client, World, request, turns, until


class Named:
    """The handler of a connection that closes where it is evicted."""

    def __init__(
        self, world: World, name: str, since: float, *, busy: bool = False, unread: bool = False
    ):
        self.name = name
        self.busy = busy
        self.unread = unread
        self.gone = False
        self.connection = ClientConnection(world.proxy, self, SHARED)
        self.connection.idle_since = since
        self.connection.transport = cast(asyncio.Transport, Silent())

    def may_be_evicted(self) -> bool:
        return not self.busy

    def evict(self) -> bool:
        self.gone = not self.unread
        return self.gone

    def on_time(self, now: float) -> float:
        return inf

    def drain(self) -> None:
        """Do nothing: no request is queued."""

    def force_end(self) -> None:
        """Do nothing: no request is in flight."""

    def shutdown(self) -> None:
        """Do nothing: eviction alone is tested."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Do nothing: eviction alone is tested."""


class Silent:
    """The transport of a client that has sent nothing."""

    _socket, _peer = socket.socketpair()

    def get_extra_info(self, name: str) -> socket.socket:
        return self._socket


def evicted(eviction: Eviction, guests: list[Named], now: float = 100.0) -> str:
    """Return the name of the next connection to evict; empty for none."""
    before = [guest for guest in guests if not guest.gone]
    eviction.make_room(now, 100)
    return "".join(guest.name for guest in before if guest.gone)


async def test_silent_ones_go_first_then_http2_then_the_longest_idle(world):
    eviction = Eviction()
    old, young = Named(world, "old", 1.0), Named(world, "young", 50.0)
    http2, silent = Named(world, "http2", 60.0), Named(world, "silent", 70.0)
    guests = [young, old, http2, silent]
    for guest in (young, old):
        eviction.add(guest.connection)
        eviction.on_first_request(guest.connection)
    eviction.add(http2.connection, http2=True)
    eviction.add(silent.connection)
    found = [evicted(eviction, guests) for _ in range(5)]
    assert found == ["silent", "http2", "old", "young", ""]


async def test_who_is_busy_or_has_just_been_or_has_something_unread_stays(world):
    eviction = Eviction()
    guests = [
        Named(world, "busy", 1.0, busy=True),
        Named(world, "just", 99.5),
        Named(world, "unread", 1.0, unread=True),
    ]
    for guest in guests:
        eviction.add(guest.connection)
    assert evicted(eviction, guests) == ""
    assert evicted(eviction, guests, now=101.0) == "just"


async def test_one_behind_many_that_are_busy_is_found_in_time(world):
    eviction = Eviction()
    guests = [Named(world, "busy", 1.0, busy=True) for _ in range(100)] + [
        Named(world, "idle", 2.0)
    ]
    for guest in guests:
        eviction.add(guest.connection)
    looks = [evicted(eviction, guests) for _ in range(7)]
    assert looks == [""] * 6 + ["idle"]


async def test_only_so_many_are_on_their_way_out_at_a_time(world):
    eviction = Eviction()
    guests = [Named(world, str(n), 1.0) for n in range(5)]
    for guest in guests:
        eviction.add(guest.connection)
    assert [eviction.make_room(100.0, 2) for _ in range(3)] == [True, True, False]
    for guest in guests:
        if guest.gone:
            eviction.remove(guest.connection)
    assert eviction.evicted.size == 0
    assert eviction.make_room(100.0, 2)


# -- with sockets --------------------------------------------------------------------------------


async def asked(world: World) -> Client:
    """Return a client that has its response, and keeps its connection."""
    client = await world.client()
    client.send(request())
    await client.answer()
    return client


async def test_an_idle_client_makes_room_for_a_new_one(world):
    await world.serving()
    world.proxy.max_connections = 2
    first = await asked(world)
    await world.clock_moves(0.1)
    second = await asked(world)
    await world.clock_moves(1.1)
    third = await asked(world)
    await first.ended()
    assert not second.eof
    assert not third.eof
    second.send(request())
    assert (await second.answer()).status == 200


async def test_clients_that_say_nothing_do_not_use_up_the_places(world):
    await world.serving()
    world.proxy.max_connections = 8
    kept = await asked(world)
    silent = [await world.client() for _ in range(7)]
    await world.clock_moves(1.1)
    for _ in range(7):
        await asked(world)
    await until(lambda: all(client.eof for client in silent))
    assert not kept.eof


async def test_where_all_clients_are_busy_one_more_gets_503(world):
    pod = await world.serving()
    pod.on_data = lambda _: None
    world.proxy.max_connections = 1
    busy = await world.client()
    busy.send(request())
    await until(lambda: pod.requests)
    await world.clock_moves(1.1)
    assert (await world.ask()).status == 503
    pod.connections[0].write(b"HTTP/1.1 204 No Content\r\n\r\n")
    assert (await busy.answer()).status == 204


async def test_a_request_that_has_arrived_is_not_lost_by_it(world):
    """The kernel has the request, and the loop has not reported it yet."""
    await world.serving()
    world.proxy.max_connections = 1
    client = await asked(world)
    await world.clock_moves(1.1)
    (connection,) = world.proxy.connections
    connection.transport.pause_reading()
    client.send(request())
    await turns(20)
    assert (await world.ask()).status == 503
    connection.transport.resume_reading()
    assert (await client.answer()).status == 200


async def test_a_client_of_http2_learns_that_nothing_is_lost(world):
    await world.serving()
    world.proxy.max_connections = 1
    client = await world.client()
    client.send(BEGIN + frames.ping(b"01234567", ack=False))
    await until(lambda: b"01234567" in client.received)
    await world.clock_moves(1.1)
    await asked(world)
    await client.ended()
    assert goaways(client.received)[-1] == (0, ErrorCode.NO_ERROR)
