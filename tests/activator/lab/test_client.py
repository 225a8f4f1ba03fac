"""Clients of the lab."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from activator.lab.programs import (
    ActivatorEvents,
    ClientResponse,
    SteadyTraffic,
    fetch,
    open_and_close,
    parse_response,
)
from tests.process import PATIENCE


async def test_request_is_sent_as_given_and_its_response_is_parsed():
    asked = []

    async def answer(reader, writer):
        asked.append(await reader.readuntil(b"\r\n\r\n") + await reader.readexactly(2))
        writer.write(b"HTTP/1.1 503 Busy\r\nA: 1\r\nContent-Length: 2\r\n\r\nno")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        response = await fetch("127.0.0.1", port, "/x?y", "POST", {"Host": "h"}, b"hi")
    assert asked[0].startswith(b"POST /x?y HTTP/1.1\r\nHost: h\r\n")
    assert asked[0].endswith(b"Content-Length: 2\r\n\r\nhi")
    assert (response.status, response.headers["a"], response.body) == (503, "1", "no")
    assert response.took >= 0


@pytest.mark.parametrize(
    "data", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nno"]
)
def test_an_incomplete_response_is_no_response(data):
    with pytest.raises(ConnectionError):
        parse_response(data)


async def test_connection_may_end_without_a_byte():
    seen = asyncio.get_running_loop().create_future()

    async def take(reader, writer):
        seen.set_result(await reader.read())
        writer.close()

    async with await asyncio.start_server(take, "127.0.0.1", 0) as server:
        await open_and_close("127.0.0.1", server.sockets[0].getsockname()[1])
        assert await seen == b""


async def test_a_closed_port_is_an_error():
    with pytest.raises(OSError, match="refused"):
        await fetch("127.0.0.1", 1, "/")


async def test_load_goes_on_until_it_is_stopped_and_waits_for_what_it_sent():
    gate, held = asyncio.Event(), asyncio.Event()
    gate.set()
    sent = []

    async def ask(method: str, request_id: str) -> ClientResponse:
        sent.append((method, request_id))
        if not gate.is_set():
            held.set()
        await gate.wait()
        return ClientResponse(200 if method == "GET" else 502, {}, "", 0.002)

    load = SteadyTraffic(ask, rate=1000, posts=3)
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as tasks:
        load.start(tasks)
        await load.more(6)
        gate.clear()
        await held.wait()
        stopping = tasks.create_task(load.stop())
        await asyncio.sleep(0)
        assert not stopping.done()
        gate.set()
    count = len(sent)
    assert count == len({request_id for _, request_id in sent})
    assert load.statuses("GET") == {200: count - count // 3}
    assert load.statuses("POST") == {502: count // 3}
    assert load.posts == {request_id for method, request_id in sent if method == "POST"}
    assert "times 200; median 2 ms, maximum 2 ms; POST /: " in load.summary()


async def test_pace_does_not_wait_for_responses():
    gate = asyncio.Event()
    sent = []

    async def ask(method: str, request_id: str) -> ClientResponse:
        sent.append(request_id)
        if len(sent) == 5:
            gate.set()
        await gate.wait()
        return ClientResponse(200, {}, "")

    load = SteadyTraffic(ask, rate=1000)
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as tasks:
        load.start(tasks)
        await load.more(5)
        await load.stop()


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
