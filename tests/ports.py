"""Ports and addresses that no other test uses, in this process or in another."""

from __future__ import annotations

import itertools
import os
import socket

#: Processes of parallel test runs have numbers near each other; these numbers are far apart.
_numbers = itertools.count(os.getpid() * 1009)


def hold(ip: str = "127.0.0.1") -> socket.socket:
    """Return a socket that is bound to a free port and does not listen; the caller closes it.

    The kernel refuses connections to the port, and does not choose it for a bind to port 0. A
    server that sets SO_REUSEADDR may listen on it, any number of times.
    """
    held = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind((ip, 0))
    return held


def port_of(held: socket.socket) -> int:
    """Return the port of a socket."""
    port: int = held.getsockname()[1]
    return port


def network() -> str:
    """Return the first three numbers of loopback addresses that no other test uses."""
    number = next(_numbers) % (254 * 254)
    return f"127.{number // 254 + 1}.{number % 254 + 1}"
