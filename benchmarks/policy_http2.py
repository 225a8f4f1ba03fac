"""HTTP/2 clients and pods of `benchmarks.policies`, also of gRPC calls.

All tenants share one connection, as behind an ingress. So their streams also compete there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import Final, cast

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    RequestReceived,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)

from benchmarks.policy_client import Client, Response
from benchmarks.process import CannotMeasure

Fields = list[tuple[str, str]]

GRPC: Final = "application/grpc"
#: An empty message, as gRPC frames it.
_MESSAGE: Final = bytes(5)


class _Connection(asyncio.Protocol):
    """One HTTP/2 connection, of a client or of a pod; a subclass follows the events."""

    def __init__(self, *, is_client: bool) -> None:
        config = H2Configuration(client_side=is_client, header_encoding="ascii")
        self.http2 = H2Connection(config)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance
        self.http2.initiate_connection()
        self.flush()

    def data_received(self, data: bytes) -> None:
        for event in self.http2.receive_data(data):
            if isinstance(event, DataReceived):
                self.http2.acknowledge_received_data(
                    event.flow_controlled_length or 0, event.stream_id
                )
            self.follow(event)
        self.flush()

    def flush(self) -> None:
        """Send the frames that are ready."""
        if not self._transport.is_closing():
            self._transport.write(self.http2.data_to_send())

    def follow(self, event: Event) -> None:
        """Follow an event of the connection."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()


# -- the client -------------------------------------------------------------------------------


class _Calls(_Connection):
    """A client's connection: the fields and trailers of each response."""

    def __init__(self) -> None:
        super().__init__(is_client=True)
        self._awaited: dict[int, tuple[asyncio.Future[dict[str, str]], dict[str, str]]] = {}

    async def call(self, fields: Fields, body: bytes) -> dict[str, str]:
        """Send a request, and return the fields of its response."""
        stream = self.http2.get_next_available_stream_id()
        done: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()
        self._awaited[stream] = done, {}
        self.http2.send_headers(stream, fields, end_stream=not body)
        if body:
            self.http2.send_data(stream, body, end_stream=True)
        self.flush()
        try:
            return await done
        except asyncio.CancelledError:
            if self._awaited.pop(stream, None) is not None:
                self.http2.reset_stream(stream)
                self.flush()
            raise

    def follow(self, event: Event) -> None:
        """See _Connection."""
        if isinstance(event, ConnectionTerminated):
            self.connection_lost(None)
        elif isinstance(event, ResponseReceived | TrailersReceived):
            if event.stream_id in self._awaited:
                self._awaited[event.stream_id][1].update(cast(Fields, event.headers))
        elif isinstance(event, StreamEnded | StreamReset):
            done, fields = self._awaited.pop(event.stream_id, (None, {}))
            if done is not None and not done.done():  # a cancelled one is done
                done.set_result({} if isinstance(event, StreamReset) else fields)

    def connection_lost(self, exc: Exception | None) -> None:
        for done, _ in self._awaited.values():
            if not done.done():
                done.set_exception(CannotMeasure("the activator closed a connection"))
        self._awaited.clear()


class Http2Client(Client):
    """One connection to one host behind the activator, for all tenants.

    Arguments:
        port: of the activator; host: of the service.
        is_grpc: whether requests are gRPC calls. A failed call counts as status 503.
    """

    def __init__(self, port: int, host: str, *, is_grpc: bool) -> None:
        super().__init__(port, host)
        self._is_grpc = is_grpc
        self._opened: asyncio.Task[_Calls] | None = None

    def beside(self) -> Client:
        """See Client."""
        return self

    async def get(self, field: str = "") -> Response:
        """See Client."""
        began = monotonic()
        if self._opened is None:
            self._opened = asyncio.get_running_loop().create_task(self._open())
        calls = await asyncio.shield(self._opened)
        name, _, value = field.partition(": ")
        fields = [
            *((":method", "POST" if self._is_grpc else "GET"), (":scheme", "http")),
            *((":path", "/t.T/Echo"), (":authority", self._host)),
            *(([(name.lower(), value)]) if field else ()),
            *([("te", "trailers"), ("content-type", GRPC)] if self._is_grpc else ()),
        ]
        found = await calls.call(fields, _MESSAGE if self._is_grpc else b"")
        status = int(found.get(":status", "503"))
        if self._is_grpc and found.get("grpc-status") != "0":
            status = 503
        return Response(status, found.get("x-pod", ""), monotonic() - began)

    async def _open(self) -> _Calls:
        loop = asyncio.get_running_loop()
        return (await loop.create_connection(_Calls, "127.0.0.1", self._port))[1]

    def close(self) -> None:
        """See Client."""
        if self._opened is not None:
            self._opened.result().close()


# -- the pod ----------------------------------------------------------------------------------


class PodConnection(_Connection):
    """A pod's connection.

    Arguments:
        add: calls its argument when a request is processed; ip: of the pod.
    """

    def __init__(self, add: Callable[[Callable[[], None]], None], ip: str) -> None:
        super().__init__(is_client=False)
        self._add = add
        self._ip = ip
        self._open: dict[int, bool] = {}

    def follow(self, event: Event) -> None:
        """See _Connection."""
        if isinstance(event, RequestReceived):
            self._open[event.stream_id] = ("content-type", GRPC) in cast(Fields, event.headers)
        elif isinstance(event, StreamEnded):
            self._add(partial(self._respond, event.stream_id))
        elif isinstance(event, StreamReset):
            self._open.pop(event.stream_id, None)

    def _respond(self, stream: int) -> None:
        is_grpc = self._open.pop(stream, None)
        if is_grpc is None:
            return
        fields = [(":status", "200"), ("x-pod", self._ip)]
        if is_grpc:
            self.http2.send_headers(stream, [*fields, ("content-type", GRPC)])
            self.http2.send_data(stream, _MESSAGE)
            self.http2.send_headers(stream, [("grpc-status", "0")], end_stream=True)
        else:
            self.http2.send_headers(stream, [*fields, ("content-length", "6")])
            self.http2.send_data(stream, b"hello\n", end_stream=True)
        self.flush()
