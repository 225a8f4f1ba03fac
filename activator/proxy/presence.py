"""What the kernel knows of a client: whether it is there, and what it has not taken yet.

Linux only. Knows no HTTP and no protocol object.
"""

from __future__ import annotations

import asyncio
import fcntl
import socket
import struct
import sys
import termios

_TCP_CLOSE = 7  # include/net/tcp_states.h
#: To a client that has closed its socket, the answer to a question of the kernel is a reset as
#: soon as its kernel has forgotten it (Linux: 60 s).
_KEEP_ALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
)


def keep_asking(transport: asyncio.Transport) -> None:
    """Have the kernel ask every few seconds whether the client is there."""
    sock = transport.get_extra_info("socket")
    for level, option, value in _KEEP_ALIVE:
        sock.setsockopt(level, option, value)


def is_gone(transport: asyncio.Transport) -> bool:
    """Whether the connection is broken; the loop does not say so once the client has ended its
    sending side."""
    sock = transport.get_extra_info("socket")
    state: int = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
    return state == _TCP_CLOSE


def reset(transport: asyncio.Transport) -> None:
    """Have the kernel break the connection when it is closed next, rather than end it: what a
    reader takes for the end of an answer is then none."""
    sock = transport.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def count_unsent(transport: asyncio.Transport) -> int:
    """Return how many bytes the client has not taken; 0 once the kernel has them all.

    The kernel asks us for more in large steps only, so that its own count tells of progress.
    """
    ours = transport.get_write_buffer_size()
    if not ours:
        return 0
    queued = bytearray(4)
    fcntl.ioctl(transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, queued)
    return ours + int.from_bytes(queued, sys.byteorder)
