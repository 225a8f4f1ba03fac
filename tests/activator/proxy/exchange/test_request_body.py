"""How long a request's body is held, and what of it goes to a pod."""

from __future__ import annotations

import tracemalloc

import pytest

from activator.proxy.exchange.request_body import NO_BODY, HeldBody
from activator.proxy.message.request import RequestLimits, read_request
from tests.activator.telemetry.world import World
from throttler.throttler import Limits


def held(fields: bytes = b"Content-Length: 100\r\n", method: bytes = b"PUT", limit: int = 10):
    head = method + b" / HTTP/1.1\r\nHost: a\r\n" + fields + b"\r\n"
    return HeldBody(read_request(head, RequestLimits()), limit)


def test_a_body_of_known_length_goes_on_as_it_came():
    body = held()
    assert body.framed([b"ab", b"c"], b"") == b"abc"
    assert body.framed([b"abc"], b"") == b"abc"


def test_a_chunked_body_goes_on_in_chunks_and_ends_once():
    body = held(b"Transfer-Encoding: chunked\r\n")
    assert body.framed([b"ab", b"c"], b"") == b"3\r\nabc\r\n"
    assert body.framed([], b"") == b""
    body.complete = True
    assert body.framed([b"d"], b"X-A: 1\r\n") == b"1\r\nd\r\n0\r\n\r\n"


def test_trailers_go_on_where_they_were_announced_and_are_allowed():
    body = held(b"Transfer-Encoding: chunked\r\nTrailer: X-A\r\n")
    body.complete = True
    assert body.framed([], b"X-A: 1\r\nContent-Length: 5\r\n") == b"0\r\nX-A: 1\r\n\r\n"


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
    ("method", "data", "kept"),
    [
        (b"PUT", b"small", True),
        (b"PUT", b"larger than the limit", False),
        (b"POST", b"small", False),
        (b"FROB", b"small", False),
        (b"POST", b"", True),
    ],
)
def test_after_sending_only_what_may_be_sent_again_is_kept(method, data, kept):
    body = held(method=method)
    if data:
        body.keep(data)
    body.on_sent()
    assert body.replayable is kept
    assert body.pieces == ([data] if kept and data else [])


def test_requests_without_a_body_share_one_that_is_complete_and_may_be_repeated():
    assert (NO_BODY.complete, NO_BODY.replayable, NO_BODY.pieces) == (True, True, [])


def test_a_waiting_body_is_read_as_far_as_the_budgets_go():
    world = World(Limits(queue_bytes=10))
    ticket = world.request(world.revision())
    body = held(limit=100)
    body.charge(ticket, 10, sent=False)
    assert body.replayable
    assert ticket.size == 10
    body.charge(ticket, 1, sent=False)
    assert body.full
    assert ticket.size == 10


def test_a_body_that_a_pod_has_costs_no_budget():
    world = World(Limits(queue_bytes=10))
    throttler = world.revision()
    world.healthy(throttler, "10.0.0.1:8012")
    ticket = world.request(throttler)
    body = held(limit=10)
    body.keep(bytes(20))
    body.charge(ticket, 20, sent=False)
    assert body.replayable
    body.charge(ticket, 20, sent=True)
    assert not body.replayable
    assert ticket.size == 40
