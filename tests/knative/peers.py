"""Peers of the activator that are no pods: clients, and the autoscaler, which decodes the stats."""

from __future__ import annotations

import asyncio
import re
import socket

from websockets.asyncio.server import Server, ServerConnection, serve

from activator.autoscaler.concurrency import Stat
from tests.activator.proxy.world import Client as BytesClient
from tests.knative.objects import NAME, NAMESPACE
from tests.ports import hold, port_of
from tests.stats import decode

#: Seconds of the loop's time that a test waits for an event. This is longer than any timer of an
#: activator with its default settings.
PATIENCE = 650.0


def to(
    name: str = NAME,
    namespace: str = NAMESPACE,
    *,
    method: bytes = b"GET",
    target: bytes = b"/",
    fields: bytes = b"",
    body: bytes = b"",
) -> bytes:
    """Return a request to a revision, which the control headers name."""
    length = b"Content-Length: %d\r\n" % len(body) if body else b""
    named = f"Knative-Serving-Namespace: {namespace}\r\nKnative-Serving-Revision: {name}\r\n"
    return b"%b %b HTTP/1.1\r\nHost: example.com\r\n%b%b%b\r\n%b" % (
        *(method, target),
        *(named.encode(), length, fields, body),
    )


def without_date(raw: bytes | bytearray) -> bytes:
    """Return the bytes of a response without its Date."""
    return re.sub(rb"\r\nDate: [^\r]*", b"", bytes(raw))


class Client(BytesClient):
    """A client; it waits at most ``PATIENCE`` seconds of the loop's time."""

    async def change(self, patience: float = PATIENCE) -> None:
        self._changed.clear()
        async with asyncio.timeout(patience):
            await self._changed.wait()

    async def text(self) -> str:
        """Return the body of the next response, which must be a 200."""
        answer = await self.answer()
        assert answer.status == 200, answer
        return answer.body.decode()

    @property
    def waits(self) -> bool:
        """Return whether the connection is open and no byte has arrived."""
        return not self.received and not self.eof


class Autoscaler:
    """The peer of the stat WebSocket.

    Attributes:
        frames: the stats of each frame, in order.
        pods: the pod names in the reports.
        messages: the received messages, undecoded; a str is a text frame.
    """

    def __init__(self) -> None:
        self.frames: list[list[Stat]] = []
        self.pods: set[str] = set()
        self.messages: list[bytes | str] = []
        self.connections: list[ServerConnection] = []
        self._changed = asyncio.Event()
        self._server: Server | None = None
        self._held: socket.socket | None = None
        self.port = 0

    async def listen(self) -> None:
        """Accept connections, each time on the same port."""
        if self._held is None:
            self._held = hold()
            self.port = port_of(self._held)
        self._server = await serve(self._take, "127.0.0.1", self.port, ping_interval=None)

    async def close(self) -> None:
        """Close all connections and accept no more."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
            self._server = None

    def give_up_port(self) -> None:
        """Use another port from now on."""
        if self._held is not None:
            self._held.close()

    async def told(self, count: int) -> list[list[Stat]]:
        """Wait until ``count`` frames have arrived, and return them all."""
        async with asyncio.timeout(PATIENCE):
            while len(self.frames) < count:
                self._changed.clear()
                await self._changed.wait()
        return self.frames

    async def connected(self, count: int = 1) -> None:
        """Wait until ``count`` connections have been opened."""
        async with asyncio.timeout(PATIENCE):
            while len(self.connections) < count:
                self._changed.clear()
                await self._changed.wait()

    async def _take(self, connection: ServerConnection) -> None:
        self.connections.append(connection)
        self._changed.set()
        async for message in connection:
            self.messages.append(message)
            assert isinstance(message, bytes)
            stats, pods = decode(message)
            self.frames.append(stats)
            self.pods |= pods
            self._changed.set()
