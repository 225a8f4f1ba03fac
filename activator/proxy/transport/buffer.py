"""The buffer that connections to pods read into.

What pods send is copied out of it before the next read: a loop's own buffer takes 250 KiB at a
time, all of which stays where a client does not read. Large pieces also cost more than small ones,
whose memory is still in the processor's cache.
"""

from __future__ import annotations

from typing import Final

from activator.proxy.transport.unread import SMALL_WINDOW, WINDOW

_BYTES: Final = bytearray(WINDOW)
BUFFER: Final = memoryview(_BYTES)
#: The same while room for bytes that clients do not read is scarce.
SMALL_BUFFER: Final = BUFFER[:SMALL_WINDOW]


def received(nbytes: int) -> bytes:
    """Return so many bytes, which the loop has just read into the buffer."""
    return BUFFER[:nbytes].tobytes()
