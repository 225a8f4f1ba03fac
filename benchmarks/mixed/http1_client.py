"""Clients of HTTP/1.1, over connections that they keep or not."""

from __future__ import annotations

import asyncio
import socket
import struct
from asyncio import StreamReader, StreamWriter
from collections.abc import Sequence
from contextlib import suppress
from random import Random
from typing import Final

from benchmarks.mixed.kinds import Kind, authority
from benchmarks.mixed.pod import EVENTS, LARGE, LINES
from benchmarks.mixed.record import Sight, Wrong

HEAD_END: Final = b"\r\n\r\n"
#: A slow reader's buffer in the kernel, what it reads at a time, and seconds between its reads.
SLOW_BUFFER, SLOW_READ, SLOW_PAUSE = 1 << 16, 1 << 18, 0.15
LONGEST_POST: Final = 1 << 16
#: More than an activator reads of a connection that waits.
LONGEST_UPLOAD: Final = 1 << 18
#: How each response of a pod of the lab begins.
LAB_GREETING: Final = b"Hello from "
#: Close sends RST.
NO_LINGER: Final = struct.pack("ii", 1, 0)

Where = tuple[str, int]


class NotComplete(Exception):
    """The connection ended, or the status is not 200."""


class Connection:
    """One connection to the activator; it opens when it is needed.

    Arguments:
        slow: read slowly.
    """

    def __init__(self, *, slow: bool = False) -> None:
        self._slow = slow
        self._to: Where | None = None
        self._reader: StreamReader
        self._writer: StreamWriter

    async def open(self, to: Where) -> StreamWriter:
        """Return a writer to an address, over the present connection if it goes there."""
        if self._to != to:
            self.close()
            sock = socket.socket()
            sock.setblocking(False)
            if self._slow:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SLOW_BUFFER)
            try:
                await asyncio.get_running_loop().sock_connect(sock, to)
            except BaseException:
                sock.close()
                raise
            self._reader, self._writer = await asyncio.open_connection(sock=sock, limit=SLOW_BUFFER)
            self._to = to
        return self._writer

    def close(self, *, reset: bool = False) -> None:
        """Close it; the next request opens another.

        Arguments:
            reset: by RST instead of FIN.
        """
        if self._to is not None:
            self._to = None
            if reset:
                sock = self._writer.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
                self._writer.transport.abort()
            else:
                self._writer.close()

    async def exchange(
        self, to: Where, request: bytes, sight: Sight, *, last: bool = False
    ) -> bytes:
        """Send a request and return the body of its response.

        Arguments:
            last: end this side of the connection behind the request, and expect that the other
                side ends behind the response.

        Raises:
            NotComplete: there is no complete response with status 200.
            Wrong: bytes follow the last response.
        """
        try:
            writer = await self.open(to)
            writer.write(request)
            if last:
                writer.write_eof()
            head = (await self._reader.readuntil(HEAD_END)).decode("latin-1").lower()
            fields = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if line)
            sight.read(fields)
            body = await self._body(fields)
            if last:
                check(await self._reader.read(), b"")
                self.close()
        except (asyncio.IncompleteReadError, OSError) as error:
            self.close()
            raise NotComplete(repr(error)) from error
        except BaseException:
            self.close(reset=True)
            raise
        if fields.get("connection") == "close":
            self.close()
        status = head.split(" ", 2)[1]
        if status != "200":
            raise NotComplete(f"{status}: {body[:100]!r}")
        return body

    async def _body(self, fields: dict[str, str]) -> bytes:
        if "content-length" in fields:
            left = int(fields["content-length"])
            if self._slow:
                return await self._slowly(left)
            return await self._reader.readexactly(left)
        pieces = []
        while size := int(await self._reader.readuntil(b"\r\n"), 16):
            pieces.append((await self._reader.readexactly(size + 2))[:-2])
        await self._reader.readexactly(2)
        return b"".join(pieces)

    async def _slowly(self, left: int) -> bytes:
        pieces = []
        while left:
            pieces.append(await self._reader.readexactly(min(left, SLOW_READ)))
            left -= len(pieces[-1])
            await asyncio.sleep(SLOW_PAUSE)
        return b"".join(pieces)


class Http1:
    """The requests of one client."""

    def __init__(self, seed: int, *, slow: bool = False) -> None:
        self._random = Random(seed)
        self._connection = Connection(slow=slow)

    async def get(self, to: Where, kind: Kind, sight: Sight) -> None:
        """Get the greeting, or lines in chunks."""
        path, expected = "/", b"hello\n"
        if self._random.random() < 0.05 and kind.service == "web":
            path, expected = "/lines", b"".join(b"line %d\n" % n for n in range(LINES))
        check(await self._connection.exchange(to, get(kind, sight, path), sight), expected)

    async def get_once(self, to: Where, kind: Kind, sight: Sight) -> None:
        """Get the greeting over a connection that ends with it."""
        request = get(kind, sight, "/", "Connection: close\r\n")
        check(await self._connection.exchange(to, request, sight), b"hello\n")
        self._connection.close()

    async def post(self, to: Where, kind: Kind, sight: Sight) -> None:
        """Post a body, half of them in chunks, and get it back."""
        body = self._random.randbytes(self._random.randrange(1, LONGEST_POST))
        framed, length = body, f"Content-Length: {len(body)}"
        if self._random.random() < 0.5:
            framed = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
            length = "Transfer-Encoding: chunked"
        head = f"POST / HTTP/1.1\r\n{fields(kind, sight)}x-once: {sight.key}\r\n{length}\r\n\r\n"
        check(await self._connection.exchange(to, head.encode() + framed, sight), body)

    async def scaled_get(self, to: Where, kind: Kind, sight: Sight) -> None:
        """Get the greeting of a pod of the lab."""
        body = await self._connection.exchange(to, get(kind, sight, "/"), sight)
        check(body[: len(LAB_GREETING)], LAB_GREETING)

    async def scaled_post(self, to: Where, kind: Kind, sight: Sight) -> None:
        """Post a body to a pod of the lab, and get it back."""
        body = self._random.randbytes(self._random.randrange(1, LONGEST_POST))
        head = f"POST /echo HTTP/1.1\r\n{fields(kind, sight)}Content-Length: {len(body)}\r\n\r\n"
        check(await self._connection.exchange(to, head.encode() + body, sight), body)

    async def converse(self, to: Sequence[Where], kind: Kind, sight: Sight) -> None:
        """Open a connection of TCP, and get back the bytes of one or two requests.

        The client ends its side behind the last one, often before a pod runs. It tries the next
        address if one refuses, as clients of databases do.
        """
        for where in self._random.sample(to, len(to)):
            sight.via = "{}:{}".format(*where)
            with suppress(ConnectionRefusedError):
                await self._connection.open(where)
                break
        try:
            await self._converse(where, sight)
        finally:
            self._connection.close()

    async def _converse(self, where: Where, sight: Sight) -> None:
        many = self._random.randrange(1, 3)
        for number in range(1, many + 1):
            body = self._random.randbytes(self._random.randrange(1, LONGEST_UPLOAD))
            head = f"POST /echo HTTP/1.1\r\nx-request-id: {sight.key}.{number}\r\n"
            request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
            last = number == many
            check(await self._connection.exchange(where, request, sight, last=last), body)

    async def events(self, to: Where, kind: Kind, sight: Sight) -> None:
        """Read a stream of events to its end."""
        request = get(kind, sight, "/events", "Accept: text/event-stream\r\n")
        expected = b"".join(b"data: %d\n\n" % n for n in range(EVENTS))
        check(await self._connection.exchange(to, request, sight), expected)

    async def download(self, to: Where, kind: Kind, sight: Sight) -> None:
        """Get a large body."""
        body = await self._connection.exchange(to, get(kind, sight, "/large"), sight)
        check(body, bytes(LARGE))

    async def leave(self, to: Where, kind: Kind, sight: Sight) -> None:
        """Leave: in the head, behind it, in a body, or in the response; by FIN or by RST."""
        whole = get(kind, sight, "/large")
        upload = f"POST / HTTP/1.1\r\n{fields(kind, sight)}Content-Length: 9999\r\n\r\nbegun"
        sent = self._random.choice((whole[:-3], whole, upload.encode()))
        writer = await self._connection.open(to)
        writer.write(sent)
        await asyncio.sleep(self._random.choice((0.0, 0.005, 0.2)))
        self._connection.close(reset=self._random.random() < 0.5)


def check(body: bytes, expected: bytes) -> None:
    """Compare a complete body.

    Raises:
        Wrong: it is another one.
    """
    if body != expected:
        raise Wrong(f"{len(body)} bytes, {body[:40]!r}; expected {len(expected)}")


def fields(kind: Kind, sight: Sight) -> str:
    """Return the fields of each request."""
    return f"Host: {authority(kind.service)}\r\nx-request-id: {sight.key}\r\n"


def get(kind: Kind, sight: Sight, path: str, more: str = "") -> bytes:
    """Return a GET."""
    return f"GET {path} HTTP/1.1\r\n{fields(kind, sight)}{more}\r\n".encode()
