"""The pod's side of an HTTP/2 connection, by the library h2.

A GET gets a greeting. Any other request gets its own body back at once: this is a gRPC echo, unary
or in both directions. ``/Count`` gets gRPC messages some time apart. The trailers of both have the
status OK.
"""

from __future__ import annotations

import asyncio
from asyncio import Event, Queue, StreamReader, StreamWriter, Task
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    DataReceived,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import ProtocolError

if TYPE_CHECKING:
    from benchmarks.mixed.pod import Pod

READ: Final = 1 << 18
#: Messages of a server stream, and seconds between them.
MESSAGES, APART = 10, 0.2
#: Ten bytes of a message, as gRPC frames them.
MESSAGE: Final = b"\x00\x00\x00\x00\x0axxxxxxxxxx"
TRAILERS: Final = [("grpc-status", "0")]

Body = Queue[bytes | None]


class Http2:
    """One connection."""

    def __init__(self, pod: Pod, reader: StreamReader, writer: StreamWriter) -> None:
        self._pod = pod
        self._reader = reader
        self._writer = writer
        self._state = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        self._room = Event()
        self._bodies: dict[int, Body] = {}
        self._tasks: dict[int, Task[None]] = {}

    async def run(self, data: bytes) -> None:
        """Serve until the connection closes.

        Arguments:
            data: the bytes that were read already.
        """
        self._state.initiate_connection()
        try:
            while data:
                for event in self._state.receive_data(data):
                    self._take(event)
                self._flush()
                data = await self._reader.read(READ)
        except ProtocolError:
            pass
        finally:
            for task in self._tasks.values():
                task.cancel()

    def _take(self, event: object) -> None:
        if isinstance(event, RequestReceived):
            fields = {str(name): str(value) for name, value in event.headers}
            self._begin(event.stream_id, fields)
        elif isinstance(event, DataReceived):
            self._state.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            self._give(event.stream_id, event.data)
        elif isinstance(event, StreamEnded):
            self._give(event.stream_id, None)
        elif isinstance(event, StreamReset) and event.stream_id in self._tasks:
            self._tasks[event.stream_id].cancel()
        elif isinstance(event, WindowUpdated | RemoteSettingsChanged):
            self._room.set()

    def _begin(self, stream: int, fields: dict[str, str]) -> None:
        self._pod.arrived(fields.get("x-once", ""))
        body: Body = Queue()
        self._bodies[stream] = body
        task = asyncio.get_running_loop().create_task(self._serve(stream, fields, body))
        self._tasks[stream] = task
        task.add_done_callback(lambda _: self._forget(stream))

    def _give(self, stream: int, data: bytes | None) -> None:
        if stream in self._bodies:  # not reset meanwhile
            self._bodies[stream].put_nowait(data)

    def _forget(self, stream: int) -> None:
        del self._tasks[stream], self._bodies[stream]

    async def _serve(self, stream: int, fields: dict[str, str], body: Body) -> None:
        with self._pod.request(), suppress(ProtocolError, ConnectionError):
            if self._pod.slow:
                await asyncio.sleep(self._pod.slow)
            head = [(":status", "200"), ("x-pod", self._pod.name)]
            if fields[":method"] == "GET":
                head.append(("content-length", "6"))
                self._state.send_headers(stream, head)
                await self._send(stream, b"hello\n")
                self._state.end_stream(stream)
            else:
                self._state.send_headers(stream, [*head, ("content-type", "application/grpc")])
                self._flush()
                counts = fields[":path"].endswith("/Count")
                await (self._count(stream) if counts else self._echo(stream, body))
                self._state.send_headers(stream, TRAILERS, end_stream=True)
            self._flush()

    async def _echo(self, stream: int, body: Body) -> None:
        while (data := await body.get()) is not None:
            await self._send(stream, data)

    async def _count(self, stream: int) -> None:
        for _ in range(MESSAGES):
            await self._send(stream, MESSAGE)
            await asyncio.sleep(APART)

    async def _send(self, stream: int, data: bytes) -> None:
        while data:
            window = self._state.local_flow_control_window(stream)
            size = min(window, self._state.max_outbound_frame_size)
            if size <= 0:
                self._room.clear()
                await self._room.wait()
                continue
            self._state.send_data(stream, data[:size])
            data = data[size:]
            self._flush()
            await self._writer.drain()

    def _flush(self) -> None:
        self._writer.write(self._state.data_to_send())
