"""uvicorn's server in a process with its own signal handlers."""

from __future__ import annotations

import asyncio
import signal
import socket
from typing import Any

import uvicorn

from activator.process.quiet_server import QuietServer


class Server(QuietServer):
    """A server that reports that it is open, and when its main loop ended."""

    def __init__(self) -> None:
        super().__init__(uvicorn.Config(app, port=0, lifespan="off", log_config=None))
        self.open = asyncio.Event()
        self.ended = 0.0

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.open.set()

    async def main_loop(self) -> None:
        await super().main_loop()
        self.ended = asyncio.get_running_loop().time()


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Serve nothing; no test connects."""


async def test_a_server_leaves_signals_alone_and_stops_at_once() -> None:
    loop = asyncio.get_running_loop()
    handler = signal.getsignal(signal.SIGTERM)
    server = Server()
    assert not server.should_exit
    task = asyncio.ensure_future(server.serve())
    await server.open.wait()
    assert signal.getsignal(signal.SIGTERM) is handler
    began = loop.time()
    server.should_exit = True
    await task
    assert server.ended == began  # uvicorn's own loop checks every 0.1 s
