"""Connections before the end of their handshake: counted, limited, expired in time, none leaks."""

from __future__ import annotations

import gc
import os
import resource
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from activator.proxy.client import listener as listener
from tests.activator.proxy.tls_world import ByHand, TlsWorld
from tests.activator.proxy.world import Client, protocol, request, turns, until
from tests.conftest import both_loops, in_virtual_time

pytestmark = both_loops

#: A record with the type of a handshake and an invalid body.
NO_HELLO = b"\x16\x03\x01\x00\x05hello"


@pytest.fixture
async def world(anyio_backend: Any) -> AsyncIterator[TlsWorld]:
    """A proxy that speaks TLS."""
    world = TlsWorld()
    await world.start()
    yield world
    await world.close()


async def silent(world: TlsWorld, count: int) -> list[Client]:
    """Return that many clients that send nothing; the proxy counts all of them."""
    before = world.proxy.handshakes
    clients = [await world.plain() for _ in range(count)]
    await until(lambda: world.proxy.handshakes == before + count)
    return clients


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def files_in_use() -> int:
    """Return how many files are open, without unused files of earlier tests."""
    gc.collect()
    return open_files()


@in_virtual_time
async def test_a_silent_client_is_counted_and_given_up_in_time(world, monkeypatch):
    monkeypatch.setattr(listener, "_HANDSHAKE_TIMEOUT", 0.2)
    (client,) = await silent(world, 1)
    assert not world.proxy.connections
    await client.ended()
    await until(lambda: not world.proxy.handshakes)


async def test_a_client_is_counted_once_it_is_encrypted_as_a_connection_alone(world):
    await world.serving()
    client = await world.client()
    client.send(request())
    assert (await client.answer()).status == 200
    assert (world.proxy.handshakes, len(world.proxy.connections)) == (0, 1)


@in_virtual_time
async def test_handshakes_beyond_their_share_wait_until_one_ends(world, caplog):
    await world.serving()
    world.proxy.max_connections = 4
    clients = await silent(world, 2)
    third = await world.plain()
    await until(lambda: caplog.messages)
    await world.clock_moves(0.5)
    assert caplog.messages == [
        "2 TLS handshakes are in progress: further clients wait to be accepted"
    ]
    assert not third.eof
    clients[0].abort()
    by_hand = ByHand(third, world.trusted)
    await by_hand.shake(behind=request())
    assert b"200 OK" in await by_hand.read_until(b"\r\n\r\n")


async def test_silent_handshakes_leave_room_on_other_ports(world):
    world.proxy.max_connections = 4
    await silent(world, 2)
    assert await plain_statuses(world, 3) == [404, 404, 503]


async def test_the_last_place_may_be_a_client_of_tls(world):
    world.proxy.max_connections = 2
    await world.serving()
    assert await plain_statuses(world, 1) == [404]
    assert (await world.ask()).status == 200


async def test_where_all_places_are_taken_a_client_gets_503_over_tls(world, caplog):
    await world.serving()
    world.proxy.max_connections = 1
    await plain_statuses(world, 1)
    answer = await world.ask()
    assert (answer.status, answer.get(b"connection")) == (503, b"close")
    assert not world.proxy.handshakes
    limit = world.pools.files.shares.limit
    assert caplog.messages[0] == (
        f"the limit of open files ({limit}) is reached: new clients get 503, or "
        "without HTTP are closed; raise it "
        "(open: 1 clients, 0 connections to pods)"
    )


async def plain_statuses(world: TlsWorld, count: int) -> list[int]:
    """Open connections on a port without TLS; return the status that each one gets."""
    server = await world.loop.create_server(lambda: protocol(world.proxy), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    statuses = []
    for _ in range(count):
        _, client = await world.loop.create_connection(Client, "127.0.0.1", port)
        world.clients.append(client)
        client.send(b"GET / HTTP/1.1\r\nHost: nobody\r\n\r\n")
        statuses.append((await client.answer()).status)
    server.close()
    return statuses


def connect(world: TlsWorld) -> socket.socket:
    """A connection that the test alone looks after."""
    return socket.create_connection(("127.0.0.1", world.port))


def ends(sock: socket.socket) -> None:
    sock.close()


def is_reset(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    sock.close()


def speaks_http(sock: socket.socket) -> None:
    sock.sendall(request())


def says_no_hello(sock: socket.socket) -> None:
    sock.sendall(NO_HELLO)


def leaves_in_the_middle(sock: socket.socket) -> None:
    sock.sendall(hello()[:100])
    sock.close()


def says_no_more_than_hello(sock: socket.socket) -> None:
    sock.sendall(hello())
    sock.shutdown(socket.SHUT_WR)


def hello() -> bytes:
    """A client's first words."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    answers, words = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(answers, words, server_hostname="localhost").do_handshake()
    return words.read()


FAILURES = [
    ends,
    is_reset,
    speaks_http,
    says_no_hello,
    leaves_in_the_middle,
    says_no_more_than_hello,
]


@pytest.mark.parametrize("fail", FAILURES)
async def test_handshakes_that_fail_leave_nothing_and_log_nothing(world, caplog, fail):
    await world.serving()
    assert (await world.ask()).status == 200
    await until(lambda: not world.proxy.connections)
    await turns(20)
    before = files_in_use()
    clients = [connect(world) for _ in range(50)]
    for sock in clients:
        fail(sock)
    await until(lambda: not any(map(is_open, clients)))
    for sock in clients:
        sock.close()
    await until(lambda: not world.proxy.handshakes)
    await until(lambda: open_files() <= before)
    assert not caplog.messages
    assert not world.proxy.connections
    assert (await world.ask()).status == 200


def is_open(sock: socket.socket) -> bool:
    """Return whether no end of the connection was reported."""
    if sock.fileno() < 0:
        return False
    sock.setblocking(False)
    try:
        return sock.recv(1 << 16) != b""
    except BlockingIOError:
        return True
    except ConnectionError:
        return False


async def test_clients_that_refuse_the_certificate_leave_nothing_and_log_nothing(world, caplog):
    stranger = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    before = files_in_use()
    for _ in range(5):
        with pytest.raises(ssl.SSLCertVerificationError):
            await world.loop.create_connection(
                Client, "127.0.0.1", world.port, ssl=stranger, server_hostname="localhost"
            )
    await until(lambda: not world.proxy.handshakes)
    await until(lambda: open_files() <= before)
    assert not caplog.messages
    assert not world.proxy.connections


async def test_handshakes_that_are_cancelled_close_their_connections(world):
    clients = await silent(world, 3)
    before = files_in_use()
    await world.proxy.arrivals.close()
    for client in clients:
        await client.ended()
        client.abort()
    await until(lambda: open_files() <= before - 6)


@contextmanager
def no_more_files() -> Iterator[None]:
    """Let the process open no more files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    next_file = os.dup(0)
    os.close(next_file)
    resource.setrlimit(resource.RLIMIT_NOFILE, (next_file, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_without_files_connections_are_left_to_the_kernel_for_a_while(
    world, caplog, monkeypatch
):
    monkeypatch.setattr(listener, "_PAUSE", 0.2)
    accepts: list[None] = []
    accept = socket.socket.accept

    def counted(sock: socket.socket) -> Any:
        accepts.append(None)
        return accept(sock)

    monkeypatch.setattr(socket.socket, "accept", counted)
    await world.serving()
    sock = socket.socket()
    with sock:
        with no_more_files():
            sock.connect(("127.0.0.1", world.port))
            await until(lambda: caplog.messages)
            await turns(50)
            assert len(accepts) == 1  # not at each turn of the loop
            await world.in_time(lambda: len(accepts) >= 2)
        assert caplog.messages == ["cannot accept connections: Too many open files"]
        await world.in_time(lambda: world.proxy.handshakes == 1)
    assert (await world.ask()).status == 200


@in_virtual_time
async def test_a_listener_that_is_closed_while_it_pauses_stays_closed(world, monkeypatch):
    monkeypatch.setattr(listener, "_PAUSE", 0.2)
    sock = socket.socket()
    with sock:
        with no_more_files():
            sock.connect(("127.0.0.1", world.port))
            await until(lambda: world.server.paused)
        world.server.close()
        world.server.close()  # once more does nothing
        await world.clock_moves(0.3)
        with pytest.raises(ConnectionRefusedError):
            await world.plain()


async def test_a_closed_listener_leaves_handshakes_alone(world):
    (client,) = await silent(world, 1)
    world.server.close()
    await world.server.wait_closed()
    with pytest.raises(ConnectionRefusedError):
        await world.plain()
    await turns(20)
    assert not client.eof
    assert world.proxy.handshakes == 1


async def test_a_burst_is_taken_in_turns_and_in_full(world):
    """The next turn accepts the connections that are left in the kernel's queue."""
    count = 2 * listener.PER_TURN + 1
    socks = [connect(world) for _ in range(count)]
    await until(lambda: world.proxy.handshakes == count)
    for sock in socks:
        sock.close()
    await until(lambda: not world.proxy.handshakes)
