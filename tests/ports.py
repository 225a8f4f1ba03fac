"""Ports and addresses that no other test has, in whichever process it runs."""

from __future__ import annotations

import itertools
import os
import socket

#: Tests that run at a time are in processes with numbers near each other: far apart here.
_numbers = itertools.count(os.getpid() * 1009)


def hold(ip: str = "127.0.0.1") -> socket.socket:
    """Return a socket that is bound to a free port and does not listen; the caller closes it.

    The kernel refuses connections to the port, and gives it to nobody who asks for any port. A
    server that sets SO_REUSEADDR may listen on it, again and again.
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
