"""How long the proxy holds a request's body, and which part of it a pod gets."""

from __future__ import annotations

import tracemalloc

import pytest

from activator.proxy.exchange.exchange import NO_BODY, RequestBody
from activator.proxy.message.request import RequestLimits, read_request
from tests.activator.proxy.world import request, turns, until
from throttler.throttler import Limits


def held(fields: bytes = b"Content-Length: 100\r\n", method: bytes = b"PUT", limit: int = 10):
    head = method + b" / HTTP/1.1\r\nHost: a\r\n" + fields + b"\r\n"
    return RequestBody(read_request(head, RequestLimits()), limit)


def test_it_is_full_at_its_limit_and_keeps_what_was_read_all_the_same():
    body = held(limit=3)
    body.keep(b"ab")
    assert not body.full
    body.keep(b"cdef")
    assert body.full
    assert b"".join(body.pieces) == b"abcdef"


def test_what_comes_two_bytes_at_a_time_takes_hardly_more_than_it_is_counted():
    body = held(limit=1 << 16)
    tracemalloc.start()
    for number in range(1 << 15):
        body.keep(b"%02d" % (number % 100))
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert body.size == len(b"".join(body.pieces)) == 1 << 16
    assert taken < 1.5 * body.size


@pytest.mark.parametrize(
    ("method", "data", "may_return", "kept"),
    [
        (b"PUT", b"small", False, True),
        (b"PUT", b"larger than the limit", False, False),
        (b"PUT", b"larger than the limit", True, False),
        (b"POST", b"small", False, False),
        (b"POST", b"small", True, True),
        (b"FROB", b"small", False, False),
        (b"POST", b"", False, True),
    ],
)
def test_after_sending_only_what_may_be_sent_again_is_kept(method, data, may_return, kept):
    body = held(method=method)
    if data:
        body.keep(data)
    body.sent(may_return=may_return)
    assert body.replayable is kept
    assert body.pieces == ([data] if kept and data else [])


def test_requests_without_a_body_share_one_that_is_complete_and_may_be_repeated():
    assert (NO_BODY.complete, NO_BODY.replayable, NO_BODY.pieces) == (True, True, [])


async def test_a_waiting_body_is_read_as_far_as_the_budgets_go(new_world):
    world = await new_world(queue=Limits(queue_bytes=10_000))
    pod = await world.pod()
    world.revise()
    client = await world.client()
    body = b"b" * 60_000  # fits a socket's buffer: no timer of the kernel takes part
    head = b"Content-Length: %d\r\n" % len(body)
    client.send(request(b"/", b"PUT", fields=head))
    await until(lambda: world.waiting == 1)
    client.send(body)
    await turns(200)
    assert world.revision().queued.own.bytes <= 10_000
    world.list(pod)
    assert (await client.answer()).status == 200
    assert pod.requests[0].body == body
