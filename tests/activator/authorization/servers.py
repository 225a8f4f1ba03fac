"""An authorization server on a loopback port: it sends scripted bytes, and records what it got."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import cast

from activator.authorization.authorizer import Authorizer

ALLOW = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
UNAUTHORIZED = (
    b'HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm="a"\r\nContent-Length: 0\r\n\r\n'
)
FORBIDDEN = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 6\r\n\r\nsecret"


class Connection(asyncio.Protocol):
    """One connection to the server."""

    def __init__(self, server: AuthServer) -> None:
        self.server = server
        self.received = b""
        self.closed = False
        self.ended = asyncio.Event()

    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.server.connections.append(self)

    def data_received(self, data: bytes) -> None:
        self.received += data
        while b"\r\n\r\n" in self.received:
            head, _, self.received = self.received.partition(b"\r\n\r\n")
            self.server.requests.append(head)
            self.server.asked.set()
            self.server.respond(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self.ended.set()


class AuthServer:
    """The server.

    Attributes:
        answer: the bytes of each response; empty to send none.
        respond: called for each request.
        requests: the heads that it has got.
        asked: set by the first one.
    """

    def __init__(self) -> None:
        self.answer = ALLOW
        self.connections: list[Connection] = []
        self.requests: list[bytes] = []
        self.asked = asyncio.Event()
        self.respond: Callable[[Connection], None] = lambda each: each.transport.write(self.answer)
        self.url = ""

    async def listen(self, tls: ssl.SSLContext | None = None) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Connection(self), "127.0.0.1", 0, ssl=tls)
        where = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        self.url = f"http{'s' * (tls is not None)}://{where}/check?a=b"

    def values(self, name: bytes, request: int = -1) -> list[bytes]:
        """Return the values of a field of a request; ``name`` in lower case."""
        lines = (line.partition(b":") for line in self.requests[request].split(b"\r\n")[1:])
        return [value.strip() for key, _, value in lines if key.lower() == name]

    async def close(self) -> None:
        self._server.close()
        for connection in self.connections:
            connection.transport.abort()


@asynccontextmanager
async def auth_server(tls: ssl.SSLContext | None = None) -> AsyncIterator[AuthServer]:
    """Run a server."""
    server = AuthServer()
    await server.listen(tls)
    try:
        yield server
    finally:
        await server.close()


@asynccontextmanager
async def authorizing(clock: Callable[[], float]) -> AsyncIterator[Authorizer]:
    """Run an authorizer."""
    authorizer = Authorizer(clock)
    try:
        yield authorizer
    finally:
        await authorizer.close()
