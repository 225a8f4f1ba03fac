"""A pod of both HTTP versions: ``python -m benchmarks.mixed.pod NAME IP:PORT FILE``.

It passes each probe, and each response has its name in the field ``x-pod``. It appends the id of
each request that must arrive only once (field ``x-once``) to FILE. It prints ``listening`` as
JSON. After SIGTERM it fails probes, and ends when it has had no request for a while. It also ends
with its standard input.

==================== ========================================================================
``GET /``            a greeting
``GET /large``       `LARGE` bytes
``GET /lines``       lines in chunks, some time apart
``POST /``           the request's body
``/ws``              a WebSocket that returns each message
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
from typing import Final

import uvloop

from activator.lab.http1 import BadRequest, Request, RequestParser, render_chunk, render_head
from benchmarks.mixed.pod_http2 import Http2
from benchmarks.mixed.pod_websocket import echo
from benchmarks.pod import BACKLOG

#: More than all socket buffers between pod and client, so that a slow client holds up the pod.
LARGE: Final = 8 << 20
LINES, LINES_APART = 5, 0.05
READ: Final = 1 << 18
PREFACE: Final = b"PRI "
#: Seconds without a request after which a draining pod ends.
QUIET: Final = 0.5


class Pod:
    """The shared state of the pod's connections.

    Attributes:
        draining: probes fail.
    """

    def __init__(self, name: str, arrivals: int) -> None:
        self.name = name
        self.draining = asyncio.Event()
        self._arrivals = arrivals
        self._present = 0
        self._changed = asyncio.Event()

    @contextmanager
    def request(self, once: str) -> Iterator[None]:
        """Count a request while it is present.

        Arguments:
            once: its ``x-once`` field; empty for none.
        """
        if once:
            os.write(self._arrivals, f"{once}\n".encode())  # one write: no kill cuts a line
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
        parser = RequestParser()
        with suppress(BadRequest):  # a client that left in the middle of its request
            while data:
                for request in parser.feed(data):
                    if request.header("upgrade"):
                        with self.request(request.header("x-once")):
                            await echo(self.name, request, parser.leftover(), reader, writer)
                        return
                    await self._respond(request, writer)
                data = await reader.read(READ)

    async def _respond(self, request: Request, writer: StreamWriter) -> None:
        if request.header("user-agent").startswith("Knative-Activator-Probe"):
            status, body = (503, b"") if self.draining.is_set() else (200, b"queue")
            writer.write(render_head(status, [("Content-Length", str(len(body)))]) + body)
            return
        with self.request(request.header("x-once")):
            if request.path == "/lines":
                await self._lines(writer)
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


class _Parent(asyncio.Protocol):
    """Ends the process when its parent is gone."""

    def connection_lost(self, exc: Exception | None) -> None:
        os._exit(1)


async def main(name: str, address: str, arrivals: str) -> None:
    """Serve until the pod is drained."""
    loop = asyncio.get_running_loop()
    pod = Pod(name, os.open(arrivals, os.O_WRONLY | os.O_APPEND | os.O_CREAT))
    loop.add_signal_handler(signal.SIGTERM, pod.draining.set)
    await loop.connect_read_pipe(_Parent, sys.stdin)
    ip, port = address.split(":")
    await asyncio.start_server(pod.serve, ip, int(port), backlog=BACKLOG, limit=READ)
    print(json.dumps("listening"), flush=True)
    await pod.drained()
    os._exit(0)  # idle connections close with the process


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
