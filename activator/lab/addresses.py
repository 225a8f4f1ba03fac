"""Assign addresses and ports to pods: a loopback address for each, or a port for each.

Pods in a cluster have different addresses and the same port. So the pool first tries
127.0.0.11:8012, 127.0.0.12:8012 and so on. Where these fail, pods share 127.0.0.1 and get free
ports. Examples: macOS has only 127.0.0.1; a process listens on 0.0.0.0:8012.

A pod listens some time after it got its place. Until it has ended, the pool holds another port of
the address. So two demos beside each other never give one address to two pods.
"""

from __future__ import annotations

import socket
import weakref
from ipaddress import IPv4Address
from typing import NamedTuple

#: The port by which a pool holds an address; nothing listens on it.
HOLDING_PORT = 8023
#: Addresses to try before falling back to ports.
MAX_ADDRESSES = 64
SHARED_ADDRESS = "127.0.0.1"


class PodPlace(NamedTuple):
    """The address of one pod, with its port for traffic and its admin port."""

    ip: str
    port: int
    admin_port: int

    def __str__(self) -> str:
        return f"{self.ip}:{self.port}"

    @property
    def switches(self) -> str:
        """Address and admin port."""
        return f"{self.ip}:{self.admin_port}"


class AddressPool:
    """The places of all pods of one cluster."""

    def __init__(self, first: str = "127.0.0.11", port: int = 8012, admin_port: int = 8022) -> None:
        self._first = IPv4Address(first)
        self._port = port
        self._admin_port = admin_port
        self._taken: dict[PodPlace, socket.socket | None] = {}
        weakref.finalize(self, _close, self._taken)

    def take(self) -> PodPlace:
        """Return a free place; the caller must `release` it when the pod has ended.

        Raises:
            OSError: the kernel has no free port.
        """
        for offset in range(MAX_ADDRESSES):
            place = PodPlace(str(self._first + offset), self._port, self._admin_port)
            if place in self._taken or not _is_free(place):
                continue
            if holder := _hold(place.ip):
                self._taken[place] = holder
                return place
        place = PodPlace(SHARED_ADDRESS, *_free_ports())
        self._taken[place] = None
        return place

    def release(self, place: PodPlace) -> None:
        """Return a place to the pool."""
        if holder := self._taken.pop(place, None):
            holder.close()


def _hold(ip: str) -> socket.socket | None:
    """Return a socket that keeps other pools from an address; None if one of them has it."""
    holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        holder.bind((ip, HOLDING_PORT))
    except OSError:
        holder.close()
        return None
    return holder


def _close(taken: dict[PodPlace, socket.socket | None]) -> None:
    for holder in taken.values():
        if holder:
            holder.close()


def _is_free(place: PodPlace) -> bool:
    try:
        for port in (place.port, place.admin_port):
            socket.create_server((place.ip, port)).close()
    except OSError:
        return False
    return True


def _free_ports() -> tuple[int, int]:
    free = (SHARED_ADDRESS, 0)
    with socket.create_server(free) as one, socket.create_server(free) as other:
        return one.getsockname()[1], other.getsockname()[1]
