from __future__ import annotations

import asyncio

import pytest

from activator.lab.client import fetch, open_and_close, parse_response


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
