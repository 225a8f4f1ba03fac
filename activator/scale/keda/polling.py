"""Polls the interceptors that do not push: ``GET /queue`` on the admin port of each.

Each poll has its own time limit, and the next one of another interceptor does not wait for it. So
an interceptor that hangs delays nothing.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, final

from activator.keda.metrics import parse_queue
from activator.objects.fields import host
from activator.scale.cluster.api import Start
from activator.scale.keda.routes import Routes

logger = logging.getLogger(__name__)

#: Seconds for one poll.
LIMIT: Final = 2.0
#: Bytes of a response: an interceptor has about 100 for each object.
MOST_BYTES: Final = 16 << 20
_READ: Final = 64 << 10


@final
class QueuePoller:
    """Polls until it is cancelled.

    Arguments:
        routes: knows the interceptors, and takes their counts.
        port: of their admin listeners.
        interval: seconds between two polls of an interceptor.
        start: starts a coroutine as a task.
    """

    def __init__(self, routes: Routes, port: int, interval: float, start: Start) -> None:
        self._routes = routes
        self._port = port
        self._interval = interval
        self._start = start
        self._under_way: set[str] = set()

    async def run(self) -> None:
        """Poll until cancelled; no fault of an interceptor ends this."""
        while True:
            for address in self._routes.addresses():
                if address not in self._under_way:
                    self._under_way.add(address)
                    self._start(self._poll(address))
            await asyncio.sleep(self._interval)

    async def _poll(self, address: str) -> None:
        try:
            async with asyncio.timeout(LIMIT):
                counts = parse_queue(await _get(address, self._port))
            self._routes.poll(address, counts)
        except TimeoutError:
            self._failed(address, f"no response within {LIMIT:g} s")
        except (OSError, ValueError, RecursionError) as error:
            self._failed(address, str(error))
        finally:
            self._under_way.discard(address)

    def _failed(self, address: str, error: str) -> None:
        """Record a failure; log a new one."""
        polled = self._routes.polled.get(address)
        if polled is not None and polled.error != error:
            polled.error = error
            logger.warning("interceptor %s port %d: /queue: %s", address, self._port, error)


async def _get(address: str, port: int) -> bytes:
    """Return the body of ``/queue``, which ends with the connection.

    Raises:
        OSError: there is no connection.
        ValueError: the response has another status than 200, is too long, or is not complete.
    """
    reader, writer = await asyncio.open_connection(address, port)
    try:
        line = f"GET /queue HTTP/1.1\r\nHost: {host(address)}:{port}\r\n"
        writer.write(f"{line}Connection: close\r\n\r\n".encode())
        data = bytearray()
        while some := await reader.read(_READ):
            data += some
            if len(data) > MOST_BYTES:
                raise ValueError(f"the response has more than {MOST_BYTES} bytes")
    finally:
        writer.close()
    head, _, body = bytes(data).partition(b"\r\n\r\n")
    status = head.split(b" ", 2)[1:2]
    if status != [b"200"]:
        raise ValueError(f"the response has status {b''.join(status).decode(errors='replace')!r}")
    return _joined(body) if b"\r\ntransfer-encoding: chunked" in head.lower() else body


def _joined(body: bytes) -> bytes:
    """Return the chunks of a body in one piece.

    Raises:
        ValueError: the body is not complete.
    """
    found, at, size = bytearray(), 0, -1
    while size:
        end = body.index(b"\r\n", at)
        size = int(body[at:end], 16)
        at = end + 2
        found += body[at : at + size]
        at += size + 2
    return bytes(found)
