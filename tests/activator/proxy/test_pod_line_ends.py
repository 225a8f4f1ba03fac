"""Pods that end lines with a bare LF: clients get the same response, with CRLF."""

from __future__ import annotations

import asyncio
import re
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from activator.proxy.message.grammar import FramingError
from activator.proxy.message.response import read_response, with_crlf
from tests.activator.proxy.world import (
    Answer,
    PodConnection,
    World,
    ok,
    own_world,
    request,
    turns,
    until,
)
from tests.rows import naming

DATE = b"Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n"
FIELDS = DATE + b"X-A: b\r\n"
HEAD = b"HTTP/1.1 200 OK\r\n" + FIELDS
#: One response in all framings, with CRLF.
ANSWERS = {
    "length": ok(b"hello", FIELDS),
    "keep-alive": ok(b"hello", FIELDS + b"Connection: keep-alive\r\n"),
    "no-reason": ok(b"hello", FIELDS).replace(b" OK", b" "),
    "1.0": ok(b"hello", FIELDS).replace(b"HTTP/1.1", b"HTTP/1.0"),
    "chunks": HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;a=b\r\nllo\r\n0\r\n\r\n",
    "interim": b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + ok(b"hello", FIELDS),
}
#: Bodies hold no CR, so that only line ends change.
LINE_ENDS = {
    "all": lambda wire: wire.replace(b"\r\n", b"\n"),
    "first": lambda wire: wire.replace(b"\r\n", b"\n", 1),
    "all-but-the-first": lambda wire: wire.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n", 1),
    "before-the-empty-line": lambda wire: wire.replace(b"\r\n\r\n", b"\n\r\n"),
    "the-empty-line": lambda wire: wire.replace(b"\r\n\r\n", b"\r\n\n"),
}
SIZES = pytest.mark.parametrize("size", [1, 2, 100_000], ids=["bytes", "pairs", "whole"])


def answers(data: bytes, size: int, end: bool = False):
    """Have a pod send these bytes for each request, in pieces of ``size``."""

    def answer(connection: PodConnection) -> None:
        loop = asyncio.get_running_loop()

        def send(at: int) -> None:
            if connection.transport.is_closing():
                return
            if at < len(data):
                connection.write(data[at : at + size])
                loop.call_soon(loop.call_soon, send, at + size)
            elif end:
                connection.close()

        send(0)

    return answer


async def got(world: World, version: bytes) -> Answer:
    """Return the bytes that a client gets for one request; every line of it ends with CRLF."""
    client = await world.client()
    client.send(request(fields=b"Connection: close\r\n").replace(b"HTTP/1.1", version))
    await client.ended()
    assert client.received.count(b"\n") == client.received.count(b"\r\n")
    return await client.answer()


@SIZES
@pytest.mark.parametrize("version", [b"HTTP/1.1", b"HTTP/1.0"])
async def test_a_client_gets_the_same_as_with_crlf(world, version, size):
    pod = await world.serving()
    for name, ends in product(ANSWERS, LINE_ENDS):
        with naming(name, ends):
            pod.on_data = answers(ANSWERS[name], 100_000)
            expected = await got(world, version)
            assert expected.body == b"hello"

            pod.on_data = answers(LINE_ENDS[ends](ANSWERS[name]), size)

            assert await got(world, version) == expected


async def test_a_connection_is_kept_and_nothing_passes_as_it_came(world):
    pod = await world.serving()
    pod.on_data = answers(LINE_ENDS["all"](ANSWERS["length"]), 100_000)
    client = await world.client()
    for _ in range(3):
        client.send(request())
        answer = await client.answer()
        assert (answer.body, answer.get(b"x-a")) == (b"hello", b"b")
    assert b"\n" not in bytes(client.received).replace(b"\r\n", b"")
    assert len(pod.connections) == 1


@SIZES
async def test_trailers_pass(world, size):
    pod = await world.serving()
    wire = b"HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n5\nhello\n0\nX-Sum: 1\nX-B: 2\r\n\n"
    pod.on_data = answers(wire, size)
    answer = await world.ask()
    assert answer.body == b"hello"
    assert answer.trailers == [(b"x-sum", b"1"), (b"x-b", b"2")]


@SIZES
async def test_a_100_comes_through(world, size):
    pod = await world.serving()
    pod.on_data = answers(b"HTTP/1.1 100 Continue\n\n", size)
    client = await world.client()
    client.send(request(b"/", b"POST", b"Content-Length: 5\r\nExpect: 100-continue\r\n"))
    assert await client.take(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
    pod.on_data = answers(ok(b"hello").replace(b"\r\n", b"\n"), size)
    client.send(b"world")
    assert (await client.answer(b"POST")).body == b"hello"


@SIZES
async def test_a_protocol_is_switched(world, size):
    pod = await world.serving()
    head = b"HTTP/1.1 101 Switching Protocols\nConnection: Upgrade\nUpgrade: echo\n\n"
    pod.on_data = answers(head + b"early\n\n", size)
    client = await world.client()
    client.send(request(fields=b"Connection: Upgrade\r\nUpgrade: echo\r\n"))
    await until(lambda: client.received.endswith(b"early\n\n"))
    head, _, rest = bytes(client.received).partition(b"\r\n\r\n")
    assert rest == b"early\n\n"
    assert b"\n" not in head.replace(b"\r\n", b"")
    client.abort()
    await until(lambda: not world.in_flight)


@SIZES
async def test_the_first_empty_line_ends_the_head(world, size):
    """The rest is the body, also where it looks like the end of a head."""
    pod = await world.serving()
    body = b"Set-Cookie: a=b\r\n\r\nHTTP/1.1 200 OK\nContent-Length: 0\n\n"
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d" % len(body)
    for empty in (b"\n\n", b"\n\r\n", b"\r\n\n", b"\r\n\r\n"):
        with naming(empty):
            pod.on_data = answers(head + empty + body, size)
            client = await world.client()
            client.send(request())
            answer = await client.answer()
            assert answer.body == body
            assert answer.get(b"set-cookie") is None
            assert not client.unread


@SIZES
async def test_bytes_behind_a_response_belong_to_no_response(world, size):
    pod = await world.serving()
    wire = ok(b"hello").replace(b"\r\n", b"\n")
    pod.on_data = answers(wire + ok(b"smuggled").replace(b"\r\n", b"\n"), size)
    client = await world.client()
    for _ in range(2):
        client.send(request())
        assert (await client.answer()).body == b"hello"
        await turns(200)
        assert not client.unread
    assert len(pod.connections) == 2


MALFORMED = (
    b"HTTP/1.1 200 OK\nX-A: b\n c\nContent-Length: 0\n\n",
    b"HTTP/1.1 200 OK\nX-A: b\rX-C: d\nContent-Length: 0\n\n",
    b"HTTP/1.1 200 OK\r\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\nX-A\nContent-Length: 0\n\n",
    b"HTTP/1.1 200 OK\nContent-Length: 5\nContent-Length: 6\n\n",
    b"HTTP/1.1 200 OK\nContent-Length: 5\nTransfer-Encoding: chunked\n\n",
    b"\n\nHTTP/1.1 200 OK\nContent-Length: 0\n\n",
    b"hello\n\n",
)


@SIZES
async def test_what_else_is_malformed_stays_a_502(anyio_backend, size):
    for wire in MALFORMED:
        async with own_world(wire) as world:
            pod = await world.serving()
            pod.on_data = answers(wire, size)
            answer = await world.ask(request(b"/", b"POST", body=b"x"), b"POST")
            assert answer.status == 502
            assert answer.get(b"x-a") is None
            await until(lambda pod=pod: not pod.open)


async def test_chunks_that_break_off_are_not_whole(world):
    pod = await world.serving()
    head = b"HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n"
    for wire in (b"3\nabc", b"3\nabc\r", b"3\nabc\n", b"0\n", b"0\nX-Sum: 1\n"):
        with naming(wire):
            pod.on_data = answers(head + wire, 100_000, end=True)
            client = await world.client()
            client.send(request())
            await client.ended()
            assert client.received.startswith(b"HTTP/1.1 200 OK\r\n")
            assert b"0\r\n\r\n" not in client.received


HEADS = st.lists(
    st.sampled_from(
        [
            *(b"\r\n", b"\n", b"\r", b"\n\n", b"\r\n\r\n", b"\n\r\n", b" ", b"X: a", b"X:", b"5"),
            *(b"Content-Length: 5", b"Transfer-Encoding: chunked", b"HTTP/1.1 200 OK", b"\t"),
        ]
    ),
    max_size=12,
).map(b"".join)


@settings(deadline=None, max_examples=400)
@given(HEADS)
def test_both_readers_find_the_same_end_of_the_head(rest):
    """The strict reader accepts no head with a bare LF. So the end is the first empty line by
    either rule.
    """
    wire = b"HTTP/1.1 200 OK" + rest + b"\r\n\r\n"
    strict = wire[: wire.index(b"\r\n\r\n") + 4]
    try:
        read_response(strict, to_head=False)
    except FramingError:
        changed = with_crlf(wire)
        assert changed is None or b"\n" not in changed.partition(b"\r\n\r\n")[0].replace(
            b"\r\n", b""
        )
    else:
        found = re.search(rb"\n\r?\n", wire)
        assert found
        assert len(strict) == found.end()
