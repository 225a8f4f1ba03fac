"""Read the server-sent events of an activator.

https://html.spec.whatwg.org/multipage/server-sent-events.html, as far as the activator uses it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

PATH = "/api/v1/events"
#: The first event of each stream: the stream contains all later changes.
HELLO = "hello"

#: Takes an event's name and its data; must return at once.
Take = Callable[[str, dict[str, Any]], None]


class ActivatorEvents:
    """One stream of events, from `open` to `close`."""

    def __init__(self, take: Take) -> None:
        self._take = take
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Future[None] | None = None
        self._greeted = asyncio.Event()

    async def open(self, ip: str, port: int) -> None:
        """Open the stream; return when it will contain all further events.

        Raises:
            OSError: no response, or a response that is no stream.
        """
        reader, self._writer = await asyncio.open_connection(ip, port)
        head = f"GET {PATH} HTTP/1.1\r\nHost: {ip}:{port}\r\nAccept: text/event-stream\r\n\r\n"
        self._writer.write(head.encode())
        if b" 200 " not in await reader.readline():
            raise ConnectionError(f"{PATH} did not return a stream")
        self._reading = asyncio.ensure_future(self._read(reader))
        await self._greeted.wait()

    async def _read(self, reader: asyncio.StreamReader) -> None:
        # Ignore all other lines: head, chunk sizes, comments, ids. The server begins a new chunk
        # with each piece, and a piece has only complete events.
        kind = ""
        async for raw in reader:
            field, _, value = raw.decode().rstrip("\r\n").partition(": ")
            if field == "event":
                kind = value
            elif field == "data":
                self._greet_or_take(kind, value)
        self._greeted.set()

    def _greet_or_take(self, kind: str, value: str) -> None:
        if kind == HELLO:
            self._greeted.set()
        else:
            self._take(kind, json.loads(value))

    async def close(self) -> None:
        """Close the stream."""
        if self._writer is not None:
            self._writer.close()
        if self._reading is not None:
            self._reading.cancel()
            with suppress(asyncio.CancelledError, OSError):
                await self._reading
