"""Connects to a host by its name: looks the name up, and tries its addresses."""

from __future__ import annotations

import asyncio
import socket
from typing import Final

from aiohappyeyeballs import start_connection

#: Seconds of silence of an address after which the dial tries the next one too, as Go's
#: net.Dialer (FallbackDelay).
NEXT_ADDRESS: Final = 0.3


async def connected(host: str, port: int) -> socket.socket:
    """Return a socket that is connected to the first address of a host that accepts.

    ``create_connection`` of uvloop cannot be cancelled cleanly during its look-up of the name: the
    exception of the look-up then ends in the log as one that nothing retrieved.

    Raises:
        OSError: no look-up, or no address accepts; the text has the error of each address.
        UnicodeError: the name is not possible in the DNS.
    """
    loop = asyncio.get_running_loop()
    try:  # an IP address needs no thread
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return await start_connection(found, happy_eyeballs_delay=NEXT_ADDRESS)
