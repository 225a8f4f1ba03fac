from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from activator.lab.client import ActivatorEvents

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
HELLO = b'3a\r\nretry: 2000\nid: x-0\nevent: hello\ndata: {"version":"1"}\n\n\r\n'
EVENT = b'2b\r\nid: x-1\nevent: queue-began\ndata: {"waiting":1}\n\n\r\n'


@asynccontextmanager
async def server(answer: bytes):
    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await reader.read()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as found:
        yield found.sockets[0].getsockname()


async def test_events_after_the_greeting_are_taken_in_order():
    taken: asyncio.Queue[tuple[str, dict[str, object]]] = asyncio.Queue()
    stream = ActivatorEvents(lambda kind, data: taken.put_nowait((kind, data)))
    async with server(HEAD + HELLO + b"8\r\n: idle\n\n\r\n" + EVENT) as where:
        await stream.open(*where)
        assert await taken.get() == ("queue-began", {"waiting": 1})
        await stream.close()
    assert taken.empty()


async def test_other_response_is_an_error():
    stream = ActivatorEvents(lambda kind, data: None)
    async with server(b"HTTP/1.1 503 Busy\r\n\r\n") as where:
        with pytest.raises(ConnectionError, match="/api/v1/events"):
            await stream.open(*where)
        await stream.close()


async def test_stream_that_was_never_opened_may_be_closed():
    await ActivatorEvents(lambda kind, data: None).close()
