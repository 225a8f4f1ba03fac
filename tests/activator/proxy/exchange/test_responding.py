"""Responses of pods that misbehave; shown with HTTP/1."""

from __future__ import annotations

from itertools import product

import pytest

from tests.activator.proxy.world import (
    PodConnection,
    World,
    answer_whole,
    own_world,
    request,
    send_pieces,
    until,
)
from tests.conftest import both_loops

#: More than the kernel's buffers between two sockets of this machine take.
LARGE = 12 << 20
SIZES = pytest.mark.parametrize("size", [1, 100_000], ids=["dripped", "whole"])


MALFORMED = {
    "length-and-coding": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n",
    "two-lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    "length-list": b"HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\n\r\nhello",
    "bad-length": b"HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello",
    "empty-length": b"HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\nhello",
    "unknown-coding": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nhello",
    "coding-in-1.0": b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "bad-chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n",
    "obs-fold": b"HTTP/1.1 200 OK\r\nX-A: b\r\n c\r\nContent-Length: 0\r\n\r\n",
    "bare-cr": b"HTTP/1.1 200 OK\r\nX-A: b\rX-C: d\r\nContent-Length: 0\r\n\r\n",
    "bad-extension": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;\r\nhello\r\n",
    "nul": b"HTTP/1.1 200 OK\r\nX-A: \0\r\nContent-Length: 0\r\n\r\n",
    "no-colon": b"HTTP/1.1 200 OK\r\nX-A\r\nContent-Length: 0\r\n\r\n",
    "space-before-colon": b"HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n",
    "status": b"HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n",
    "status-99": b"HTTP/1.1 099 OK\r\nContent-Length: 0\r\n\r\n",
    "status-text": b"HTTP/1.1 abc OK\r\nContent-Length: 0\r\n\r\n",
    "http-2": b"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n",
    "no-http": b"hello, this is a pod\r\n\r\n",
    "tls": b"\x15\x03\x01\x00\x02\x02\x0a\r\n\r\n",
    "101-unasked": b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
    "endless-interim": b"HTTP/1.1 103 Early Hints\r\n\r\n" * 50,
}


@SIZES
async def test_a_malformed_response_is_a_502_and_its_connection_ends(anyio_backend, size):
    for name, method in product(MALFORMED, (b"GET", b"POST")):
        async with own_world(name, method) as world:
            await is_a_502(world, name, method, size)


async def is_a_502(world: World, name: str, method: bytes, size: int) -> None:
    pod = await world.serving()
    pod.on_data = lambda connection: send_pieces(connection, MALFORMED[name], size)
    client = await world.client()
    client.send(request(b"/", method, body=b"x"))

    if name in ("bad-chunk", "bad-extension") and size == 1:  # the head has passed before that
        await client.ended()
        assert b"0\r\n\r\n" not in client.received
    else:
        answer = await client.answer(method)
        assert answer.status == 502
        assert answer.get(b"x-a") is None
    await until(lambda: not pod.open)
    assert len(pod.requests) == 1
    pod.on_data = answer_whole
    assert (await world.ask()).status == 200


@pytest.mark.untraced
@both_loops
@pytest.mark.parametrize("end", ["fin", "rst"])
@pytest.mark.parametrize(
    "begun",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 101\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n0\r\n",
    ],
)
async def test_a_response_that_breaks_off_breaks_off_for_the_client_too(world, begun, end):
    pod = await world.serving()

    def answer(connection: PodConnection) -> None:
        connection.write(begun)
        world.loop.call_later(0.01, connection.close if end == "fin" else connection.reset)

    pod.on_data = answer
    client = await world.client()
    client.send(request())
    await client.ended()

    assert client.received.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"502" not in client.received
    assert b"0\r\n\r\n" not in client.received
    with pytest.raises((AssertionError, Exception)):
        await client.answer()
    assert len(pod.requests) == 1


@both_loops
async def test_an_endless_response_head_is_cut_off(world):
    pod = await world.serving()
    sent = 0

    def flood(connection: PodConnection) -> None:
        def more() -> None:
            nonlocal sent
            if not connection.transport.is_closing():
                sent += 65536
                connection.write(b"X: " + b"a" * 65531 + b"\r\n")
                world.loop.call_soon(more)

        connection.write(b"HTTP/1.1 200 OK\r\n")
        more()

    pod.on_data = flood
    client = await world.client()
    client.send(request(b"/", b"POST", body=b"x"))
    assert (await client.answer(b"POST")).status == 502
    await until(lambda: not pod.open)
    assert sent < 100 << 20
