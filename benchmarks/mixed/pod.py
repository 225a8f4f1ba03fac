"""A pod of both HTTP versions: ``python -m benchmarks.mixed.pod NAME IP:PORT FILE``.

It passes each probe, and each response has its name in the field ``x-pod``. It appends the id of
each request that must arrive only once (field ``x-once``) to FILE, as soon as its head is complete.
It prints ``listening`` as JSON. After SIGTERM it fails probes, and ends when it has had no request
for a while. Then it prints the time (CLOCK_MONOTONIC). It also ends with its standard input.

==================== ========================================================================
``GET /``            a greeting
``GET /large``       `LARGE` bytes
``GET /lines``       lines in chunks, some time apart
``POST /``           the request's body
``GET /events``      server-sent events, some time apart
``/ws``              a WebSocket that returns each message
==================== ========================================================================

Each line on standard input is a fault, until a line ends it:

==================== ========================================================================
``slow SECONDS``     each response is late; 0 ends it
``probe MODE``       a wrong response to probes: ``wrong``, ``error``, ``huge`` or ``silent``;
                     ``right`` ends it
``framing MODE``     a broken response to ``GET /``: ``short``, ``chunk``, ``both`` or
                     ``garbage``; ``right`` ends it
==================== ========================================================================
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio import StreamReader, StreamWriter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Final

import uvloop

from activator.lab.http1 import BadRequest, HttpRequest, RequestParser, render_chunk, render_head
from benchmarks.mixed.pod_http2 import Http2
from benchmarks.mixed.pod_websocket import echo
from benchmarks.pod import BACKLOG

#: More than all socket buffers between pod and client, so that a slow client holds up the pod.
LARGE: Final = 8 << 20
LINES, LINES_APART = 5, 0.05
EVENTS, EVENTS_APART = 10, 0.2
READ: Final = 1 << 18
PREFACE: Final = b"PRI "
#: A path that no activator may forward; each arrival is recorded under this name.
SMUGGLED: Final = "/smuggled"
#: Wrong responses to probes, by mode; ``silent`` has none.
WRONG_PROBES: Final = {
    "wrong": render_head(200, [("Content-Length", "5")]) + b"wrong",
    "error": render_head(500, [("Content-Length", "0")]),
    "huge": render_head(200, [("Content-Length", str(LARGE))]) + bytes(LARGE),
}
#: Broken responses by mode, behind the status line and the pod's name. The connection then closes.
BROKEN: Final = {
    "short": b"Content-Length: 100\r\n\r\nhello\n",
    "chunk": b"Transfer-Encoding: chunked\r\n\r\n0x6\r\nhello\n\r\n0\r\n\r\n",
    "both": b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "garbage": b"\x00\xff no head\r\n\r\n",
}
#: Seconds without a request after which a draining pod ends.
QUIET: Final = 0.5


class Pod:
    """The shared state of the pod's connections.

    Attributes:
        draining: probes fail.
        slow: seconds by which each response is late.
        probe, framing: how probes and responses are wrong.
    """

    def __init__(self, name: str, arrivals: int) -> None:
        self.name = name
        self.draining = asyncio.Event()
        self.slow = 0.0
        self.probe = self.framing = "right"
        self._arrivals = arrivals
        self._present = 0
        self._changed = asyncio.Event()

    def command(self, line: str) -> None:
        """Begin or end a fault."""
        name, value = line.split()
        if name == "slow":
            self.slow = float(value)
        elif name == "probe":
            self.probe = value
        else:
            self.framing = value

    def arrived(self, once: str) -> None:
        """Record a request whose head has arrived.

        Arguments:
            once: its ``x-once`` field; empty for none.
        """
        if once:
            os.write(self._arrivals, f"{once}\n".encode())  # one write: no kill cuts a line

    @contextmanager
    def request(self) -> Iterator[None]:
        """Count a request while it is present."""
        self._present += 1
        self._changed.set()
        try:
            yield
        finally:
            self._present -= 1
            self._changed.set()

    async def drained(self) -> None:
        """Return when it drains and has had no request for a while."""
        await self.draining.wait()
        while True:
            self._changed.clear()
            try:
                async with asyncio.timeout(None if self._present else QUIET):
                    await self._changed.wait()
            except TimeoutError:
                return

    async def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Serve one connection of either version."""
        with suppress(ConnectionError):
            first = await reader.read(READ)
            if first.startswith(PREFACE):
                await Http2(self, reader, writer).run(first)
            else:
                await self._serve_http1(first, reader, writer)
        writer.close()

    async def _serve_http1(self, data: bytes, reader: StreamReader, writer: StreamWriter) -> None:
        parser = RequestParser(self._on_head)
        with suppress(BadRequest):  # a client that left in the middle of its request
            while data:
                for request in parser.feed(data):
                    if request.header("upgrade"):
                        with self.request():
                            await echo(self.name, request, parser.leftover(), reader, writer)
                        return
                    await self._respond(request, writer)
                data = await reader.read(READ)

    def _on_head(self, request: HttpRequest) -> None:
        self.arrived(SMUGGLED if request.path == SMUGGLED else request.header("x-once"))

    async def _respond(self, request: HttpRequest, writer: StreamWriter) -> None:
        if request.header("user-agent").startswith("Knative-Activator-Probe"):
            if self.probe != "right":
                writer.write(WRONG_PROBES.get(self.probe, b""))
                return
            status, body = (503, b"") if self.draining.is_set() else (200, b"queue")
            writer.write(render_head(status, [("Content-Length", str(len(body)))]) + body)
            return
        with self.request():
            if self.slow:
                await asyncio.sleep(self.slow)
            if self.framing != "right" and request.path == "/":
                name = b"HTTP/1.1 200 OK\r\nx-pod: %b\r\n" % self.name.encode()
                writer.write(name + BROKEN[self.framing])
                writer.close()
                return
            if request.path == "/lines":
                await self._lines(writer)
                return
            if request.path == "/events":
                await self._events(writer)
                return
            body = request.body or (bytes(LARGE) if request.path == "/large" else b"hello\n")
            head = render_head(200, [("x-pod", self.name), ("Content-Length", str(len(body)))])
            writer.write(head + body)
            await writer.drain()

    async def _lines(self, writer: StreamWriter) -> None:
        writer.write(render_head(200, [("x-pod", self.name), ("Transfer-Encoding", "chunked")]))
        for number in range(LINES):
            writer.write(render_chunk(b"line %d\n" % number))
            await writer.drain()
            await asyncio.sleep(LINES_APART)
        writer.write(render_chunk(b""))

    async def _events(self, writer: StreamWriter) -> None:
        fields = [("Content-Type", "text/event-stream"), ("Transfer-Encoding", "chunked")]
        writer.write(render_head(200, [("x-pod", self.name), *fields]))
        for number in range(EVENTS):
            writer.write(render_chunk(b"data: %d\n\n" % number))
            await writer.drain()
            await asyncio.sleep(EVENTS_APART)
        writer.write(render_chunk(b""))


class _Parent(asyncio.Protocol):
    """Executes the parent's commands, and ends the process when the parent is gone."""

    def __init__(self, pod: Pod) -> None:
        self._pod = pod
        self._begun = ""

    def data_received(self, data: bytes) -> None:
        *lines, self._begun = (self._begun + data.decode()).split("\n")
        for line in lines:
            self._pod.command(line)

    def connection_lost(self, exc: Exception | None) -> None:
        os._exit(1)


async def main(name: str, address: str, arrivals: str) -> None:
    """Serve until the pod is drained."""
    loop = asyncio.get_running_loop()
    pod = Pod(name, os.open(arrivals, os.O_WRONLY | os.O_APPEND | os.O_CREAT))
    loop.add_signal_handler(signal.SIGTERM, pod.draining.set)
    await loop.connect_read_pipe(lambda: _Parent(pod), sys.stdin)
    ip, port = address.split(":")
    await asyncio.start_server(pod.serve, ip, int(port), backlog=BACKLOG, limit=READ)
    print(json.dumps("listening"), flush=True)
    await pod.drained()
    print(json.dumps(monotonic()), flush=True)
    os._exit(0)  # idle connections close with the process


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
