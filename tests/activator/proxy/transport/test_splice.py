"""Large bodies that pass within the kernel: all bytes arrive, whatever ends in the middle."""

from __future__ import annotations

import errno
import os
import random

import pytest

from tests.activator.proxy.world import ok, request, turns, until
from tests.conftest import both_loops

pytestmark = [
    both_loops,
    pytest.mark.skipif(not hasattr(os, "splice"), reason="only Linux has splice"),
]

LARGE = 6 << 20
BODY = random.Random(5).randbytes(LARGE)


class _Moves:
    """Counts the bytes that os.splice moves, and may fail.

    Attributes:
        size: bytes so far; fails: the error of the next call.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.size = 0
        self.fails = 0
        self._splice = os.splice
        monkeypatch.setattr(os, "splice", self._move)

    def _move(self, source, sink, count, *, flags):
        if self.fails:
            raise OSError(self.fails, os.strerror(self.fails))
        moved = self._splice(source, sink, count, flags=flags)
        self.size += moved
        return moved


@pytest.fixture
def moves(monkeypatch) -> _Moves:
    return _Moves(monkeypatch)


def _upload(method: bytes = b"POST") -> bytes:
    return request(method=method, body=BODY)


def _files() -> int:
    return len(os.listdir("/proc/self/fd"))


async def test_a_download_passes_within_the_kernel_and_both_connections_stay(world, moves):
    pod = await world.serving(answer=ok(BODY))
    client = await world.client()
    for _ in range(3):
        client.send(request())
        answer = await client.answer()
        assert answer.body == BODY
    assert moves.size > 3 * LARGE  # into a pipe, and out of it
    assert len(pod.connections) == 1
    pod.answer = ok(b"small")
    client.send(request())
    assert (await client.answer()).body == b"small"
    await world.idle()


@pytest.mark.parametrize("method", [b"POST", b"PUT"])
async def test_an_upload_passes_within_the_kernel_and_the_next_request_follows(
    world, moves, method
):
    pod = await world.serving()
    client = await world.client()
    for _ in range(2):
        client.send(_upload(method) + request(b"/next"))
        assert (await client.answer(method)).status == 200
        assert (await client.answer()).status == 200
    assert [seen.body == BODY for seen in pod.requests] == [True, False, True, False]
    assert moves.size > 2 * LARGE
    assert len(pod.connections) == 1
    await world.idle()


async def test_a_client_that_reads_slowly_gets_all(world, moves):
    await world.serving(answer=ok(BODY))
    client = await world.client(8192)
    client.transport.pause_reading()
    client.send(request())
    await until(lambda: world.proxy.unread.bytes)
    await turns(100)
    assert world.proxy.unread.bytes <= 256 << 10
    client.widen()
    client.transport.resume_reading()
    assert (await client.answer()).body == BODY
    assert moves.size
    assert not world.proxy.unread.bytes


async def test_a_pod_that_reads_slowly_gets_all(world, moves):
    pod = await world.serving()
    answer = pod.on_data
    pod.on_data = lambda connection: connection.transport.pause_reading()
    client = await world.client()
    client.send(_upload())
    await until(lambda: world.proxy.unread.bytes)
    await turns(100)
    pod.on_data = answer
    pod.connections[0].widen()
    pod.connections[0].transport.resume_reading()
    assert (await client.answer(b"POST")).status == 200
    assert pod.requests[0].body == BODY
    assert moves.size
    assert not world.proxy.unread.bytes


@pytest.mark.parametrize("abort", [False, True], ids=["close", "reset"])
async def test_a_client_that_leaves_a_download_frees_the_pod(world, moves, abort):
    pod = await world.serving(answer=ok(BODY))
    client = await world.client(8192)
    client.send(request())
    await until(lambda: moves.size)
    client.transport.pause_reading()
    client.abort() if abort else client.close()
    await until(lambda: pod.connections[0].closed)
    await world.idle()
    other = await world.client()
    other.send(request())
    assert (await other.answer()).body == BODY


@pytest.mark.parametrize("abort", [False, True], ids=["close", "reset"])
async def test_a_client_that_leaves_an_upload_frees_the_pod(world, moves, abort):
    pod = await world.serving()
    client = await world.client()
    client.send(_upload()[: LARGE // 2])
    await until(lambda: moves.size)
    client.abort() if abort else client.close()
    await until(lambda: pod.connections[0].closed)
    await world.idle()
    assert not pod.requests[0].whole
    assert world.proxy.counters.bad_requests == (0 if abort else 1)
    other = await world.client()
    other.send(_upload())
    assert (await other.answer(b"POST")).status == 200
    assert pod.requests[1].body == BODY


@pytest.mark.parametrize("abort", [False, True], ids=["close", "reset"])
async def test_a_response_that_its_pod_breaks_off_ends_early_at_the_client(world, moves, abort):
    pod = await world.serving(answer=ok(BODY)[: LARGE // 2])
    client = await world.client()
    client.send(request())
    await until(lambda: moves.size)
    pod.connections[0].reset() if abort else pod.connections[0].close()
    await client.ended()
    head, _, body = bytes(client.received).partition(b"\r\n\r\n")
    assert b" 200 OK" in head
    assert BODY.startswith(body)
    assert len(body) < LARGE
    assert abort or len(body) > LARGE // 2 - 1000
    assert len(pod.requests) == 1
    await world.idle()


async def test_a_pod_that_dies_in_an_upload_gives_a_502(world, moves):
    pod = await world.serving()
    client = await world.client()
    client.send(_upload()[: LARGE // 2])
    await until(lambda: moves.size)
    pod.connections[0].reset()
    answer = await client.answer(b"POST")
    assert answer.status == 502
    assert len(pod.requests) == 1
    client.abort()
    await world.idle()


async def test_a_pod_may_respond_before_the_upload_is_whole(world, moves):
    pod = await world.serving()
    client = await world.client()
    client.send(_upload()[: LARGE // 2])
    await until(lambda: moves.size)
    pod.connections[0].write(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nno\n")
    answer = await client.answer(b"POST")
    assert (answer.status, answer.body) == (413, b"no\n")
    await client.ended()
    await world.idle()


async def test_bytes_behind_a_response_reach_no_other_client(world, moves):
    pod = await world.serving(answer=ok(BODY) + ok(b"evil"), container_concurrency=1)
    one, other = await world.client(), await world.client()
    one.send(request())
    await until(lambda: pod.requests)
    other.send(request(b"/other"))
    pod.answer = ok(b"good")
    assert (await one.answer()).body == BODY
    assert (await other.answer()).body == b"good"
    assert moves.size
    assert len(pod.connections) == 2


@pytest.mark.parametrize("pod_first", [False, True])
async def test_both_bodies_may_pass_at_the_same_time(world, moves, pod_first):
    """The pod responds while it does not read, so both splices have the same two sockets."""
    pod = await world.serving()
    pod.on_data = lambda connection: connection.transport.pause_reading()
    client = await world.client(8192)
    client.send(_upload())
    await until(lambda: world.proxy.unread.bytes)
    client.transport.pause_reading()
    (connection,) = pod.connections
    response = ok(BODY)
    connection.write(response[: LARGE // 2])
    await turns(200)

    pod.on_data = lambda connection: None

    async def read_all(end):
        end.widen()
        end.transport.resume_reading()
        await turns(200)

    await read_all(connection if pod_first else client)
    connection.write(response[LARGE // 2 :])
    await read_all(client if pod_first else connection)
    await until(lambda: pod.requests[0].whole)
    assert pod.requests[0].body == BODY
    assert (await client.answer(b"POST")).body == BODY
    await world.idle()


async def test_a_client_may_end_its_side_behind_an_upload(world, moves):
    pod = await world.serving()
    client = await world.client()
    client.send(_upload())
    client.end_sending()
    assert (await client.answer(b"POST")).status == 200
    assert pod.requests[0].body == BODY
    assert moves.size


async def test_bodies_are_copied_where_a_sandbox_forbids_the_splice(world, moves):
    pod = await world.serving(answer=ok(BODY))
    moves.fails = errno.EPERM
    client = await world.client()
    for _ in range(2):
        client.send(_upload())
        answer = await client.answer(b"POST")
        assert answer.body == BODY
        assert pod.requests.pop().body == BODY
    moves.fails = 0
    client.send(request())
    assert (await client.answer()).body == BODY
    assert not moves.size
    await world.idle()


async def test_beyond_the_last_pipe_bodies_are_copied(world, moves):
    await world.serving(answer=ok(BODY), container_concurrency=0)
    clients = [await world.client(8192) for _ in range(40)]
    for client in clients:
        client.send(request())
    for client in clients:
        client.widen()
        assert (await client.answer()).body == BODY
    assert moves.size
    before = _files()
    clients[0].send(request())
    await clients[0].answer()
    assert _files() <= before
    await world.idle()


async def test_random_ends_harm_no_other_body(world, moves):
    pod = await world.serving(answer=ok(BODY))
    chance = random.Random(7)

    def reset_pod() -> None:
        for connection in pod.open:
            if b" /victim " in connection.received[:40]:
                connection.reset()

    for _ in range(30):
        victim, other = await world.client(), await world.client()
        data = request(b"/victim", chance.choice([b"GET", b"POST"]), body=BODY)
        victim.send(data[: chance.randrange(len(data)) + 1])
        other.send(_upload())
        await turns(chance.randrange(60))
        chance.choice([victim.abort, victim.close, reset_pod])()
        answer = await other.answer(b"POST")
        assert answer.body == BODY
        assert [each.body == BODY for each in pod.requests if each.target == b"/"] == [True]
        pod.requests.clear()
        for client in (victim, other):
            client.abort()
        await world.idle()
        for connection in pod.connections:
            connection.close()
