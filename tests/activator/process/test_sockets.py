"""TCP options of real sockets: clients', pods' and the API server's."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from activator.process import sockets
from activator.process.sockets import SocketKind, check_accepts, find_dead
from activator.proxy.client.listener import listen
from tests.conftest import both_loops, in_virtual_time

NAMES = ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_USER_TIMEOUT")


def options(sock: socket.socket) -> tuple[int, ...]:
    """Return whether keep-alive is on, and the values of NAMES."""
    values = (sock.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name in NAMES)
    return sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE), *values


@pytest.mark.parametrize(
    ("peer", "expected"),
    [
        (SocketKind.CLIENT, (1, 15, 15, 9, 0)),
        (SocketKind.HALF_CLOSED, (1, 5, 5, 9, 0)),
        (SocketKind.POD, (1, 15, 1, 5, 20_000)),
        (SocketKind.POD_SLOW, (1, 15, 1, 5, 0)),
        (SocketKind.API_SERVER, (1, 15, 5, 3, 30_000)),
    ],
)
def test_each_peer_has_its_options(peer: SocketKind, expected: tuple[int, ...]) -> None:
    with closing(socket.socket()) as sock:
        find_dead(sock, peer)
        assert options(sock) == expected


def test_a_client_that_is_accepted_inherits_the_options_of_the_port() -> None:
    with closing(listen("127.0.0.1", 0, "--http-port")) as listener:
        listener.setblocking(True)
        with closing(socket.create_connection(listener.getsockname())):
            accepted, _ = listener.accept()
            with closing(accepted):
                assert options(accepted) == (1, 15, 15, 9, 0)


def test_macos_has_the_idle_time_by_another_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(socket, "TCP_KEEPIDLE")
    monkeypatch.delattr(socket, "TCP_USER_TIMEOUT")
    monkeypatch.setattr(socket, "TCP_KEEPALIVE", 0x10, raising=False)
    found = sockets.options.__wrapped__(SocketKind.POD)  # the others are remembered
    assert (socket.IPPROTO_TCP, 0x10, 15) in found
    assert len(found) == 4


def test_a_closed_socket_has_no_options() -> None:
    sock = socket.socket()
    sock.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        find_dead(sock, SocketKind.POD)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with closing(socket.create_server(("127.0.0.1", 0))) as found:
        yield found


def late(self: socket.socket, address: Any) -> int:
    """Connect as to a peer that is too far away to accept at once."""
    super(socket.socket, self).connect_ex(address)
    return errno.EALREADY


@pytest.fixture(params=["near", "far"])
def any_distance(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "far":
        monkeypatch.setattr(socket.socket, "connect_ex", late)


def check(listener: socket.socket) -> asyncio.Future[str]:
    """Return the error of a check; empty if the peer accepts."""
    result: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def done(error: OSError | None) -> None:
        result.set_result("" if error is None else error.strerror or str(error))

    ip, port = listener.getsockname()
    check_accepts(ip, port, 0.5, done)
    assert not result.done()
    return result


@both_loops
@pytest.mark.usefixtures("any_distance")
async def test_a_peer_that_accepts_gets_a_connection_that_ends(listener: socket.socket) -> None:
    assert await check(listener) == ""
    accepted, _ = listener.accept()
    with closing(accepted):
        assert accepted.recv(1) == b""


@both_loops
@pytest.mark.usefixtures("any_distance")
async def test_a_peer_that_refuses_fails() -> None:
    with closing(socket.socket()) as bound:  # it does not listen
        bound.bind(("127.0.0.1", 0))
        assert await check(bound) == "Connection refused"


@both_loops
async def test_a_peer_that_closes_at_once_fails(listener: socket.socket) -> None:
    told = check(listener)
    accepted, _ = listener.accept()
    accepted.close()
    assert await told == "the pod closed the new connection"


@both_loops
async def test_a_peer_that_speaks_first_accepts(listener: socket.socket) -> None:
    told = check(listener)
    accepted, _ = listener.accept()
    with closing(accepted):
        accepted.send(b"220 ready")
        assert await told == ""


@in_virtual_time
async def test_a_peer_that_never_accepts_is_late() -> None:
    with (
        closing(socket.create_server(("127.0.0.1", 0), backlog=0)) as full,
        closing(socket.create_connection(full.getsockname())),
    ):
        assert await check(full) == "connect timed out after 0.5 s"


@both_loops
async def test_without_a_socket_the_check_fails_later(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: object) -> socket.socket:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(socket, "socket", none)
        told = check(listener)
    assert await told == "Too many open files"
