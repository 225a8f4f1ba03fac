"""Serve HTTP/1: parse requests and render responses, as far as a sample pod needs HTTP/1.

This module imports only the standard library, because a pod's start-up is part of each cold start
in the lab. Its parser is separate from the activator's, so that one mistake cannot hide in both.
It keeps whole bodies in memory.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote

#: Longest request line and headers together: 1 MiB, the activator's own limit.
MAX_HEAD_BYTES = 1 << 20
#: Longest body, since bodies stay in memory.
MAX_BODY_BYTES = 64 << 20


class BadRequest(Exception):
    """The client sent a malformed request.

    Close the connection after the error response: the start of the next request is unknown.
    """

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class HttpRequest(NamedTuple):
    """One complete request; ``headers`` keep the client's order, case and repetitions."""

    method: str
    target: str
    version: str = "HTTP/1.1"
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""

    def header(self, name: str) -> str:
        """Return the first value of a header, in any case; empty if it is absent."""
        wanted = name.lower()
        return next((value for key, value in self.headers if key.lower() == wanted), "")

    @property
    def path(self) -> str:
        """The decoded path, without the query."""
        return unquote(self.target.partition("?")[0])

    @property
    def query(self) -> dict[str, str]:
        """The parameters of the query; the last value of a repeated one."""
        return dict(parse_qsl(self.target.partition("?")[2], keep_blank_values=True))

    @property
    def keep_alive(self) -> bool:
        """Whether the client may send another request over this connection."""
        connection = self.header("connection").lower()
        if self.version == "HTTP/1.0":
            return "keep-alive" in connection
        return "close" not in connection


class RequestParser:
    """Splits a stream of bytes into complete requests.

    Arguments:
        on_head: gets each request when its head is complete, without its body.
    """

    def __init__(self, on_head: Callable[[HttpRequest], None] = lambda _: None) -> None:
        self._on_head = on_head
        self._buffer = bytearray()
        self._expects_continue = False
        self._steps = self._read_requests()

    def feed(self, data: bytes) -> Iterator[HttpRequest]:
        """Add received bytes, and yield the requests that they complete, in order.

        The caller must iterate to the end, and must not use the parser after an error. It may stop
        at a request after which another protocol follows.

        Raises:
            BadRequest: the bytes are not HTTP/1, or too many. Requests before them come first.
        """
        self._buffer += data
        while (request := next(self._steps)) is not None:
            yield request

    def wants_continue(self) -> bool:
        """Return whether the client waits for ``100 Continue``; true once for each request."""
        wants, self._expects_continue = self._expects_continue, False
        return wants

    def leftover(self) -> bytes:
        """Return bytes after the last request: after an upgrade, the new protocol's first bytes."""
        return bytes(self._buffer)

    def _read_requests(self) -> Generator[HttpRequest | None, None, None]:
        """Yield each request, and None while bytes are missing."""
        while True:
            head = yield from self._until(b"\r\n\r\n", MAX_HEAD_BYTES)
            request = parse_head(head)
            self._on_head(request)
            length = body_length(request)
            awaited = length is None or length > len(self._buffer)
            self._expects_continue = awaited and request.header("expect") != ""
            if length is None:
                body = yield from self._chunks()
            else:
                body = yield from self._exactly(length)
            self._expects_continue = False
            yield request._replace(body=body)

    def _until(self, mark: bytes, limit: int) -> Generator[None, None, bytes]:
        seen = 0
        while (end := self._buffer.find(mark, seen)) < 0:
            if len(self._buffer) > limit:
                raise BadRequest(431, f"no end of the request's head within {limit} bytes")
            seen = max(0, len(self._buffer) - len(mark) + 1)
            yield
        found = bytes(self._buffer[:end])
        del self._buffer[: end + len(mark)]
        return found

    def _exactly(self, length: int) -> Generator[None, None, bytes]:
        while len(self._buffer) < length:
            yield
        found = bytes(self._buffer[:length])
        del self._buffer[:length]
        return found

    def _chunks(self) -> Generator[None, None, bytes]:
        body = bytearray()
        while True:
            line = yield from self._until(b"\r\n", MAX_HEAD_BYTES)
            size = parse_size(line.partition(b";")[0].decode("latin-1"), 16)
            if size == 0:
                break
            body += yield from self._exactly(size)
            yield from self._exactly(2)
            if len(body) > MAX_BODY_BYTES:
                raise BadRequest(413, f"a body of more than {MAX_BODY_BYTES} bytes")
        while (yield from self._until(b"\r\n", MAX_HEAD_BYTES)):  # trailers end with an empty line
            pass
        return bytes(body)


def parse_head(head: bytes) -> HttpRequest:
    """Parse a request's head, without the empty line.

    Raises:
        BadRequest: the head is malformed.
    """
    first, *lines = head.lstrip(b"\r\n").decode("latin-1").split("\r\n")
    parts = first.split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
        raise BadRequest(400, f"not an HTTP/1 request line: {first[:80]!r}")
    headers = []
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise BadRequest(400, f"not a header: {line[:80]!r}")
        headers.append((name, value.strip(" \t")))
    return HttpRequest(parts[0], parts[1], parts[2], tuple(headers))


def body_length(request: HttpRequest) -> int | None:
    """Return the body's length in bytes; None for a chunked body.

    Raises:
        BadRequest: the length is malformed, or more than `MAX_BODY_BYTES`.
    """
    if "chunked" in request.header("transfer-encoding").lower():
        return None
    return parse_size(request.header("content-length") or "0", 10)


def parse_size(digits: str, base: int) -> int:
    """Return a number of bytes from its digits.

    Raises:
        BadRequest: the digits are no number, or more than `MAX_BODY_BYTES`.
    """
    try:
        size = int(digits.strip(), base)
    except ValueError:
        raise BadRequest(400, f"not a number of bytes: {digits[:80]!r}") from None
    if not 0 <= size <= MAX_BODY_BYTES:
        raise BadRequest(413, f"a body of {size} bytes, at most {MAX_BODY_BYTES} are taken")
    return size


def render_head(status: int, headers: Iterable[tuple[str, str]]) -> bytes:
    """Return a response's status line and headers as bytes."""
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Unknown"
    return render(f"HTTP/1.1 {status} {phrase}", headers)


def render(first: str, headers: Iterable[tuple[str, str]]) -> bytes:
    """Return the head of a message: its first line, the headers, and the empty line."""
    lines = [first, *(f"{name}: {value}" for name, value in headers)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def render_chunk(data: bytes) -> bytes:
    """Return one chunk of a body; the empty chunk ends the body."""
    return b"%x\r\n%s\r\n" % (len(data), data)


TEXT = "text/plain; charset=utf-8"
JSON = "application/json"


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """The response to one request.

    Attributes:
        delay: seconds to wait before the first byte.
        pieces: further pieces of the body, sent chunked, ``interval`` seconds apart.
    """

    status: int = 200
    body: bytes = b""
    content_type: str = TEXT
    headers: tuple[tuple[str, str], ...] = ()
    delay: float = 0.0
    pieces: tuple[bytes, ...] = ()
    interval: float = 0.0


def text(status: int, body: str, delay: float = 0.0) -> HttpResponse:
    """Return a plain text response that is sent after ``delay`` seconds."""
    return HttpResponse(status, body.encode(), delay=delay)


def as_json(value: object) -> HttpResponse:
    """Return ``value`` as indented JSON with a line feed at the end, for terminals."""
    return HttpResponse(200, json.dumps(value, indent=1).encode() + b"\n", JSON)


#: Connections that may wait to be accepted: the activator may dial thousands at once.
BACKLOG = 4096
READ_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class Connection:
    """The connection of a request.

    A handler may use another protocol after the request, with reader and writer. It closes the
    writer at the end.
    """

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    parser: RequestParser

    async def send(self, request: HttpRequest, response: HttpResponse) -> None:
        """Send the response to a request after its delay; return when it is sent."""
        if response.delay:
            await asyncio.sleep(response.delay)
        headers = list(response.headers)
        bodiless = response.status in (204, 304)
        if not bodiless:
            headers.append(("Content-Type", response.content_type))
        if response.pieces:
            headers.append(("Transfer-Encoding", "chunked"))
        elif not bodiless:
            headers.append(("Content-Length", str(len(response.body))))
        if not request.keep_alive:
            headers.append(("Connection", "close"))
        self.writer.write(render_head(response.status, headers))
        if request.method != "HEAD":
            await self._send_body(response)
        await self.writer.drain()

    async def _send_body(self, response: HttpResponse) -> None:
        if not response.pieces:
            self.writer.write(response.body)
            return
        for number, piece in enumerate(response.pieces):
            if number:
                await asyncio.sleep(response.interval)
            self.writer.write(render_chunk(piece))
            await self.writer.drain()
        self.writer.write(render_chunk(b""))


#: Sends the response to a request. A ConnectionError breaks the connection.
Handler = Callable[[HttpRequest, Connection], Awaitable[None]]


class HttpServer:
    """Serves one address. It handles the requests of each connection in order.

    Attributes:
        port: where it listens; set by `start`.
    """

    def __init__(self, handle: Handler) -> None:
        self.port = 0
        self._handle = handle
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def start(self, host: str, port: int) -> None:
        """Listen; port 0 stands for a free one.

        Raises:
            OSError: the address is in use.
        """
        self._server = await asyncio.start_server(
            self._serve, host, port, backlog=BACKLOG, limit=READ_BYTES
        )
        self.port = self._server.sockets[0].getsockname()[1]

    def stop_listening(self) -> None:
        """Accept no more connections."""
        if self._server is not None:
            self._server.close()

    def close(self) -> None:
        """Stop listening, and close all connections; they still send what is written."""
        self.stop_listening()
        for writer in list(self._writers):
            writer.close()

    async def wait_closed(self) -> None:
        """Return when no connection is open after `close`."""
        if self._server is not None:
            await self._server.wait_closed()

    def break_off(self) -> None:
        """Break all connections."""
        for writer in list(self._writers):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Handle the requests of one connection in order, until either side closes it."""
        connection = Connection(reader, writer, RequestParser())
        self._writers.add(writer)
        try:
            await self._converse(connection)
        except BadRequest as error:
            body = f"{error}\n".encode()
            headers = [("Content-Length", str(len(body))), ("Connection", "close")]
            writer.write(render_head(error.status, headers) + body)
        except (ConnectionError, asyncio.CancelledError):
            # Python 3.11 would report a task that the end of the program cancels as an error.
            writer.transport.abort()
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _converse(self, connection: Connection) -> None:
        parser = connection.parser
        while data := await connection.reader.read(READ_BYTES):
            for request in parser.feed(data):
                await self._handle(request, connection)
                if not request.keep_alive or connection.writer.is_closing():
                    return
            if parser.wants_continue():
                connection.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
