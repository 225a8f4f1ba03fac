"""Polls the interceptors that do not push: ``GET /queue`` on the admin port of each.

Each poll has its own time limit, and the next one of another interceptor does not wait for it. So
an interceptor that hangs delays nothing.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Final

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


async def poll_queues(routes: Routes, port: int, interval: float, start: Start) -> None:
    """Poll until cancelled; no fault of an interceptor ends this.

    Arguments:
        routes: knows the interceptors, and takes their counts.
        port: of their admin listeners.
        interval: seconds between two polls of an interceptor.
        start: starts a coroutine as a task.
    """
    polls = KeyedWriter[str, aiohttp.ClientSession](start, partial(_poll, routes, port))
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(LIMIT)) as session:
        while True:
            for address in routes.addresses():
                polls.read(address, session)
            await asyncio.sleep(interval)


async def _poll(routes: Routes, port: int, address: str, session: aiohttp.ClientSession) -> None:
    """Poll an interceptor once; record a failure, and log a new one."""
    url = f"http://{host(address)}:{port}/queue"
    try:
        async with session.get(url, allow_redirects=False) as response:
            if response.status != 200:
                raise ValueError(f"the response has status {response.status}")
            body = bytearray()
            async for some in response.content.iter_any():
                body += some
                if len(body) > MOST_BYTES:
                    raise ValueError(f"the response has more than {MOST_BYTES} bytes")
        routes.poll(address, parse_queue(bytes(body)))
        return
    except TimeoutError:
        problem = f"no response within {LIMIT:g} s"
    except (aiohttp.ClientError, OSError, ValueError, RecursionError) as error:
        problem = str(error)
    polled = routes.polled.get(address)
    if polled is not None and polled.error != problem:
        polled.error = problem
        logger.warning("interceptor %s port %d: /queue: %s", address, port, problem)
