"""Polls the interceptors that do not push: ``GET /queue`` on the admin port of each.

Each poll has its own time limit, and the next one of another interceptor does not wait for it. So
an interceptor that hangs delays nothing.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, final

import aiohttp

from activator.keda.metrics import parse_queue
from activator.objects.fields import host
from activator.scale.cluster.api import KeyedWriter, Start
from activator.scale.keda.routes import Routes

logger = logging.getLogger(__name__)

#: Seconds for one poll.
LIMIT: Final = 2.0
#: Bytes of a response: an interceptor has about 100 for each object.
MOST_BYTES: Final = 16 << 20


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
        self._polls = KeyedWriter[str, aiohttp.ClientSession](start, self._poll)

    async def run(self) -> None:
        """Poll until cancelled; no fault of an interceptor ends this."""
        limit = aiohttp.ClientTimeout(LIMIT)
        async with aiohttp.ClientSession(timeout=limit) as session:
            while True:
                for address in self._routes.addresses():
                    self._polls.read(address, session)
                await asyncio.sleep(self._interval)

    async def _poll(self, address: str, session: aiohttp.ClientSession) -> None:
        url = f"http://{host(address)}:{self._port}/queue"
        try:
            async with session.get(url, allow_redirects=False) as response:
                if response.status != 200:
                    raise ValueError(f"the response has status {response.status}")
                body = bytearray()
                async for some in response.content.iter_any():
                    body += some
                    if len(body) > MOST_BYTES:
                        raise ValueError(f"the response has more than {MOST_BYTES} bytes")
            self._routes.poll(address, parse_queue(bytes(body)))
        except TimeoutError:
            self._failed(address, f"no response within {LIMIT:g} s")
        except (aiohttp.ClientError, OSError, ValueError, RecursionError) as error:
            self._failed(address, str(error))

    def _failed(self, address: str, error: str) -> None:
        """Record a failure; log a new one."""
        polled = self._routes.polled.get(address)
        if polled is not None and polled.error != error:
            polled.error = error
            logger.warning("interceptor %s port %d: /queue: %s", address, self._port, error)
