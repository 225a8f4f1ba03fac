"""The buffer that connections to pods read into, and what a broken connection has left.

What pods send is copied out of it before the next read: a loop's own buffer takes 250 KiB at a
time, all of which stays where a client does not read. Large pieces also cost more than small ones,
whose memory is still in the processor's cache.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from activator.proxy.transport.peer_socket import is_tls
from activator.proxy.transport.unread import SMALL_WINDOW, WINDOW

_BYTES: Final = bytearray(WINDOW)
BUFFER: Final = memoryview(_BYTES)
#: The same while room for bytes that clients do not read is scarce.
SMALL_BUFFER: Final = BUFFER[:SMALL_WINDOW]
#: Reads of what a broken connection has left: more than its client could hold at once.
_MOST_LEFT: Final = 64


def received(nbytes: int) -> bytes:
    """Return so many bytes, which the loop has just read into the buffer."""
    return BUFFER[:nbytes].tobytes()


def read_left(transport: asyncio.Transport) -> Iterator[bytes]:
    """Return what the peer of a broken connection sent before it broke it, piece by piece.

    A write fails as soon as the peer has reset the connection, and the loop then reads no more.
    The kernel still has what came before: a response that a pod gave without reading its request
    to the end, or a GOAWAY. Over TLS, only the loop could decrypt it.
    """
    if is_tls(transport):
        return
    with suppress(OSError):
        for _ in range(_MOST_LEFT):
            data = os.read(transport.get_extra_info("socket").fileno(), WINDOW)
            if not data:
                return
            yield data
