"""Hands out places for pods to listen: loopback addresses of their own, or ports of their own.

Pods in a cluster differ by address and share a port, so 127.0.0.11:8012, 127.0.0.12:8012 … are
tried first. Where that is impossible (macOS has 127.0.0.1 alone; something listens on
0.0.0.0:8012) pods share 127.0.0.1 and get free ports instead. Must not know processes or services.
"""

from __future__ import annotations

import socket
from ipaddress import IPv4Address
from typing import NamedTuple

#: Addresses tried before falling back to ports; more pods than this on a laptop are a mistake.
MAX_ADDRESSES = 64
SHARED_ADDRESS = "127.0.0.1"


class Place(NamedTuple):
    """Where one pod listens, for traffic and for its switchboard."""

    ip: str
    port: int
    admin_port: int

    def __str__(self) -> str:
        return f"{self.ip}:{self.port}"

    @property
    def switches(self) -> str:
        """Where its switchboard is, as `__str__` says where it takes requests."""
        return f"{self.ip}:{self.admin_port}"


class AddressPool:
    """The places of one cluster."""

    def __init__(self, first: str = "127.0.0.11", port: int = 8012, admin_port: int = 8022) -> None:
        self._first = IPv4Address(first)
        self._port = port
        self._admin_port = admin_port
        self._taken: set[Place] = set()

    def take(self) -> Place:
        """A place where nothing listens; the caller must `give_back` it when its pod has ended.

        Raises:
            OSError: not even a free port is to be had.
        """
        for offset in range(MAX_ADDRESSES):
            place = Place(str(self._first + offset), self._port, self._admin_port)
            if place not in self._taken and _is_free(place):
                break
        else:
            place = Place(SHARED_ADDRESS, *_free_ports(2))
        self._taken.add(place)
        return place

    def give_back(self, place: Place) -> None:
        """Allows a place to be taken again."""
        self._taken.discard(place)


def _is_free(place: Place) -> bool:
    try:
        for port in (place.port, place.admin_port):
            with _socket() as probe:
                probe.bind((place.ip, port))
    except OSError:
        return False
    return True


def _free_ports(count: int) -> list[int]:
    sockets = [_socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind((SHARED_ADDRESS, 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def _socket() -> socket.socket:
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # As servers do: a port whose old connections are in TIME_WAIT counts as free.
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return found
