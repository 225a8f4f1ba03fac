"""Pods that follow scripts: their responses to probes and requests, their delays, their records."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.activator.proxy.world import Pod, PodConnection, Seen
from tests.knative.objects import Address

if TYPE_CHECKING:  # a world has pods, and collects their errors
    from tests.knative.world import World


def http(body: bytes = b"", status: int = 200, fields: bytes = b"") -> bytes:
    """Return a response; ``fields`` are whole lines with their CRLF."""
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n%b\r\n%b" % (status, len(body), fields, body)


#: A pod's reaction to a probe: bytes to send, or a function to call instead.
Reaction = bytes | Callable[[PodConnection], object]
#: A response in pieces: seconds after the request, and the reaction at that time.
Pieces = list[tuple[float, Reaction]]

PASSES = http(b"queue")
UNAVAILABLE = http(status=503)


def breaks(connection: PodConnection) -> None:
    """Fail as a transport does: reset the connection without a response."""
    connection.reset()


def slowly(seconds: float, answer: bytes = PASSES) -> Reaction:
    """Return a reaction that sends a response after so many seconds."""

    def react(connection: PodConnection) -> None:
        asyncio.get_running_loop().call_later(seconds, _write, connection, answer)

    return react


def chunked(*pieces: tuple[float, bytes], ends: float | None = None) -> Pieces:
    """Return a chunked response whose head is sent with the first chunk.

    Arguments:
        pieces: seconds after the request, and a chunk.
        ends: seconds after the request when the last chunk follows; at once if None.
    """
    # Chunks of the same moment are one piece: timers of the same time run in any order.
    due: dict[float, bytes] = {
        pieces[0][0]: b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    }
    for at, data in pieces:
        due[at] = due.get(at, b"") + b"%x\r\n%b\r\n" % (len(data), data)
    end = pieces[-1][0] if ends is None else ends
    due[end] = due.get(end, b"") + b"0\r\n\r\n"
    return list(due.items())


def after(seconds: float, data: bytes = http(b"hi")) -> Pieces:
    """Return a whole response after so many seconds."""
    return [(seconds, data)]


def _write(connection: PodConnection, data: Reaction) -> None:
    if connection.closed:
        return
    if callable(data):
        data(connection)
    else:
        connection.write(data)


class ScriptedPod(Pod):
    """A pod, or a server behind a ClusterIP.

    Attributes:
        script: reactions to probes, one each; the last one serves all further probes.
        holding: whether the pod keeps requests until ``release``.
        pieces: the response to requests, in pieces; it replaces ``answer``.
        probes: the received probes.
        traffic: the received requests.
        in_flight: requests without a response so far.
        most: the highest number of requests in flight so far.
    """

    def __init__(self, world: World, name: str, at: Address, script: tuple[Reaction, ...]) -> None:
        super().__init__(world, at.ip)  # type: ignore[arg-type] # it uses only ``errors``
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
        """Accept requests over TLS as well, on queue-proxy's port for TLS."""
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
        """Respond to ``count`` of the kept requests, the oldest first."""
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
