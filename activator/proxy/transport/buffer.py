"""Holds the buffer for reads from pods, and reads the rest of a broken connection.

Each connection copies the bytes out of the buffer before the next read. A loop's own buffer takes
250 KiB at a time, and all of it stays in memory while a client does not read. Large pieces also
cost more than small ones, because the memory of small ones is still in the processor's cache.
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
#: The part of it that is in use while the budget of unread bytes is scarce.
SMALL_BUFFER: Final = BUFFER[:SMALL_WINDOW]
#: Most reads from a broken connection: more than its client could accept at once.
_MOST_LEFT: Final = 64


def received(nbytes: int) -> bytes:
    """Return a copy of the first ``nbytes`` bytes, which the loop has just read."""
    return BUFFER[:nbytes].tobytes()


def read_left(transport: asyncio.Transport) -> Iterator[bytes]:
    """Yield the bytes that the peer sent before it broke the connection.

    A write fails as soon as the peer has reset the connection. Then the loop reads no more, but
    the kernel still has bytes from before the reset. They may be a GOAWAY, or the response of a pod
    that did not read its request to the end. Over TLS, only the loop could decrypt them.
    """
    if is_tls(transport):
        return
    with suppress(OSError):
        for _ in range(_MOST_LEFT):
            data = os.read(transport.get_extra_info("socket").fileno(), WINDOW)
            if not data:
                return
            yield data
