"""TCP options of real sockets: clients', pods' and the API server's."""

from __future__ import annotations

import socket
from contextlib import closing

import pytest

from activator.process import sockets
from activator.process.sockets import SocketKind, find_dead
from activator.proxy.client.listener import listen

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
