"""The data ports: uvicorn's server with our protocol, and what all connections share.

uvicorn owns sockets and connections' life; this module gives it the protocol class, and nothing
else of HTTP is uvicorn's.
"""

from __future__ import annotations

import contextlib
import math
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from email.utils import formatdate
from typing import Any

import uvicorn

from activator.driver import Driver
from activator.proxy.downstream import Downstream
from activator.proxy.pool import ConnectionPools
from activator.proxy.request import RequestLimits
from activator.timers import Timers


@dataclass(slots=True)
class ProxyCounters:
    """What is counted outside any revision."""

    unknown_revisions: int = 0
    bad_requests: int = 0


class Proxy:
    """What all connections share.

    Arguments:
        hold_bytes: bytes of a body that are read while its request waits, or kept to repeat it.
        header_timeout: seconds for a request head to arrive.
        unhealthy: says why we are not ready, or nothing.
    """

    def __init__(
        self,
        driver: Driver,
        pools: ConnectionPools,
        *,
        request_limits: RequestLimits,
        hold_bytes: int,
        header_timeout: float,
        unhealthy: Callable[[], str],
    ) -> None:
        self.driver = driver
        self.pools = pools
        self.clock = driver.clock
        self.timers = Timers(driver.clock)
        self.request_limits = request_limits
        self.hold_bytes = hold_bytes
        self.header_timeout = header_timeout
        self.unhealthy = unhealthy
        self.counters = ProxyCounters()
        self.connections: set[Downstream] = set()
        self._date = b""
        self._date_of = 0

    def date(self) -> bytes:
        """Return the present date as a Date field has it; made once a second."""
        now = int(time.time())
        if now != self._date_of:
            self._date_of = now
            self._date = formatdate(now, usegmt=True).encode()
        return self._date

    def drain(self) -> None:
        """Answer what still waits for a pod: the time to finish is over."""
        for downstream in list(self.connections):
            downstream.drain()


class QuietServer(uvicorn.Server):
    """uvicorn's server without its signal handlers: the process has one, in ``app``."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield


def data_server(proxy: Proxy, drain_timeout: float) -> QuietServer:
    """Return the server for the data ports; ``serve(sockets=…)`` runs it until ``should_exit``.

    Arguments:
        drain_timeout: seconds for running requests to finish after that.
    """

    def protocol(
        config: Any, server_state: Any, app_state: Any, _loop: object = None
    ) -> Downstream:
        # uvicorn's own set: it tells these to shut down, and waits until it is empty.
        proxy.connections = server_state.connections
        return Downstream(proxy)

    config = uvicorn.Config(
        app=_no_application,
        # uvicorn wants a class; it calls it and no more.
        http=protocol,  # type: ignore[arg-type] # see above
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=math.ceil(drain_timeout),
    )
    return QuietServer(config)


async def _no_application(scope: Any, receive: Any, send: Any) -> None:
    """uvicorn's configuration demands one; our protocol calls none."""
    raise RuntimeError("the data ports have no ASGI application")


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket.

    Raises:
        OSError: the address cannot be had; the text names it.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol's number, or asyncio would leave Nagle's algorithm on.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(4096)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        raise OSError(error.errno, f"cannot listen on {host}:{port}: {error.strerror}") from None
    return sock
