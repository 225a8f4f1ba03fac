"""Pods as scripts: what they answer to probes and requests, when, and what they saw."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.activator.proxy.world import Pod, PodConnection, Seen
from tests.knative.objects import Address

if TYPE_CHECKING:  # a world has pods, and hears what they complain of
    from tests.knative.world import World


def http(body: bytes = b"", status: int = 200, fields: bytes = b"") -> bytes:
    """An answer; ``fields`` are whole lines with their CRLF."""
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n%b\r\n%b" % (status, len(body), fields, body)


#: What a pod does with a probe: bytes that it sends, or what it does instead.
Reaction = bytes | Callable[[PodConnection], object]
#: An answer in pieces: seconds after the request, and what is sent then.
Pieces = list[tuple[float, Reaction]]

PASSES = http(b"queue")
UNAVAILABLE = http(status=503)


def breaks(connection: PodConnection) -> None:
    """The error of a transport: a connection that breaks without an answer."""
    connection.reset()


def slowly(seconds: float, answer: bytes = PASSES) -> Reaction:
    """An answer that takes its time."""

    def react(connection: PodConnection) -> None:
        asyncio.get_running_loop().call_later(seconds, _write, connection, answer)

    return react


def chunked(*pieces: tuple[float, bytes], ends: float | None = None) -> Pieces:
    """A chunked answer whose head comes with its first piece.

    Arguments:
        pieces: seconds after the request, and a chunk.
        ends: when the last chunk follows; at once if None.
    """
    # What is due at one moment is one piece: timers of the same time run in any order.
    due: dict[float, bytes] = {
        pieces[0][0]: b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    }
    for at, data in pieces:
        due[at] = due.get(at, b"") + b"%x\r\n%b\r\n" % (len(data), data)
    end = pieces[-1][0] if ends is None else ends
    due[end] = due.get(end, b"") + b"0\r\n\r\n"
    return list(due.items())


def after(seconds: float, data: bytes = http(b"hi")) -> Pieces:
    """A whole answer that takes so long."""
    return [(seconds, data)]


def _write(connection: PodConnection, data: Reaction) -> None:
    if connection.closed:
        return
    if callable(data):
        data(connection)
    else:
        connection.write(data)


class ScriptedPod(Pod):
    """A pod, or whatever listens behind a ClusterIP.

    Attributes:
        script: reactions to probes, one each; the last one serves for all that follow.
        holding: whether requests are kept until ``release``.
        pieces: how requests are answered over time, instead of with ``answer``.
        probes: the probes that came; traffic: the requests.
        in_flight: requests that it has not answered; most: the highest number there was.
    """

    def __init__(self, world: World, name: str, at: Address, script: tuple[Reaction, ...]) -> None:
        super().__init__(world, at.ip)  # type: ignore[arg-type] # it wants its ``errors`` alone
        self.port = at.port
        self.name = name
        self.script = deque(script or (PASSES,))
        self.holding = False
        self.probes: list[Seen] = []
        self.traffic: list[Seen] = []
        self.most = 0
        self.answer = http(name.encode())
        self.pieces: Pieces | None = None
        self.on_data = self._react
        self._held: list[tuple[PodConnection, Seen]] = []
        self._tls: asyncio.Server | None = None

    @property
    def at(self) -> Address:
        return Address(self.host, self.port)

    @property
    def in_flight(self) -> int:
        return sum(not connection.closed for connection, _ in self._held)

    async def listen_tls(self, context: ssl.SSLContext) -> None:
        """Take requests over TLS as well, on the port where queue-proxy takes them."""
        if self._tls is not None:
            self._tls.close()
        self._tls = await asyncio.get_running_loop().create_server(
            lambda: PodConnection(self), self.host, 8112, ssl=context
        )

    async def close(self) -> None:
        if self._tls is not None:
            self._tls.close()
        await super().close()

    def reacts(self, *script: Reaction) -> None:
        """Follow another script from now on."""
        self.script = deque(script)

    def release(self, count: int = 1_000_000) -> None:
        """Answer that many of the requests that it keeps, the oldest first."""
        for connection, seen in self._held[:count]:
            if not connection.closed:
                self._answer(connection, seen)
        del self._held[:count]

    def _react(self, connection: PodConnection) -> None:
        while connection.answered < len(connection.requests):
            seen = connection.requests[connection.answered]
            if not seen.whole:
                return
            connection.answered += 1
            if seen.all(b"user-agent") == [b"Knative-Activator-Probe"]:
                self.probes.append(seen)
                self._answer_probe(connection)
            else:
                self.traffic.append(seen)
                self._held.append((connection, seen))
                self.most = max(self.most, self.in_flight)
                if self.pieces is not None:
                    self._answer_in_pieces(connection, seen, self.pieces)
                elif not self.holding:
                    self.release()

    def _answer_probe(self, connection: PodConnection) -> None:
        reaction = self.script.popleft() if len(self.script) > 1 else self.script[0]
        if callable(reaction):
            reaction(connection)
        else:
            connection.write(reaction)

    def _answer_in_pieces(self, connection: PodConnection, seen: Seen, pieces: Pieces) -> None:
        loop = asyncio.get_running_loop()
        *first, (end, last) = pieces
        for at, data in first:
            loop.call_later(at, _write, connection, data)

        def finish() -> None:
            self._held.remove((connection, seen))
            _write(connection, last)

        loop.call_later(end, finish)

    def _answer(self, connection: PodConnection, seen: Seen) -> None:
        connection.write(self.answer(seen) if callable(self.answer) else self.answer)
