"""Request heads that arrive in pieces: each head, and the bytes of all of them."""

from __future__ import annotations

import random
from collections import deque
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activator.proxy.client.heads_in_progress import SMALL, HeadBudget, HeadCharge, HeadInProgress
from activator.proxy.http2.hpack import line
from activator.proxy.message.grammar import FramingError
from activator.proxy.message.request import RequestLimits
from tests.activator.proxy.client.test_http2 import BEGIN, frame, goaways, raw
from tests.activator.proxy.http2.peers import Http2World
from tests.activator.proxy.world import World, request, turns, until
from tests.conftest import both_loops, in_virtual_time
from tests.rows import in_one_test, naming

HEAD = b"GET /a?b HTTP/1.1\r\nHost: x\r\nX-Long: y\r\n\r\n"
LIMITS = RequestLimits(max_head=1000, max_target=100)


def head_in_progress() -> HeadInProgress:
    return HeadInProgress(LIMITS, HeadBudget(1 << 20), 0.0)


@pytest.mark.parametrize("before", [b"", b"\r\n"])
def test_a_head_is_handed_over_when_it_is_whole(before):
    wire = before + HEAD
    for size in range(1, len(HEAD) + 1):
        head = head_in_progress()
        pieces = [wire[at : at + size] for at in range(0, len(wire), size)]
        with naming(size):
            assert [head.feed(piece) for piece in pieces] == [b""] * (len(pieces) - 1) + [wire]


def test_what_stands_behind_a_head_comes_with_it():
    head = head_in_progress()
    assert head.feed(HEAD[:20]) == b""
    assert head.feed(HEAD[20:] + b"body") == HEAD + b"body"


@in_one_test(
    ("beginning", "status", "reason"),
    [
        (b"\x16\x03\x01", 400, "this is not HTTP"),
        (b"GET\t/ ", 400, "this is not HTTP"),
        (b"G" * 65, 400, "this is not HTTP"),
        (b"GET / HTTP/1.1\r\nHost: x\n", 400, "a bare LF"),
        (b"GET / HTTP/1.1\rH", 400, "a bare CR"),
        (b"GET / HTTP/1.1\r\nHost: x\r\r", 400, "a bare CR"),
        (b"GET / HTTP/1.1\r\nX: a\rb", 400, "a bare CR"),
        (b"\rGET", 400, "a bare CR"),
        (b"GET /" + b"a" * 200, 414, "the request target is too long"),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * 1000, 431, "the request head is too large"),
    ],
)
def test_what_cannot_become_a_head_is_refused_at_once(beginning, status, reason):
    for pieces in ([beginning], [bytes((byte,)) for byte in beginning]):
        head = head_in_progress()
        with pytest.raises(FramingError, match=reason) as raised:
            deque(map(head.feed, pieces), maxlen=0)
        assert raised.value.status == status


def test_a_head_beyond_the_limit_is_refused_though_it_is_whole():
    with pytest.raises(FramingError, match="too large"):
        head_in_progress().feed(b"GET / HTTP/1.1\r\nX: " + b"a" * 1000 + b"\r\n\r\n")


MOST = 16 * SMALL
#: As many large heads as there is room for: 4 of 3 SMALL in the open 12.
LARGE = 3 * SMALL
FIT = 4
BEGINNING = b"GET / HTTP/1.1\r\nHost: h\r\nX: "
HEADERS, CONTINUATION = 1, 9
#: A header block of HTTP/2 that names no revision.
NOBODYS = b"".join(
    line(name, value)
    for name, value in (
        *((b":method", b"GET"), (b":scheme", b"http")),
        *((b":path", b"/"), (b":authority", b"nobody")),
    )
)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(-1, 4 * SMALL)), max_size=100))
def test_the_sum_is_that_of_the_heads_and_never_beyond_the_bound(steps):
    heads = HeadBudget(MOST)
    charges = [HeadCharge(heads) for _ in range(10)]
    counted = [0] * 10
    for head, size in steps:
        if size < 0:
            charges[head].release()
            counted[head] = 0
        elif charges[head].grow(size):
            counted[head] = size
        else:
            assert sum(counted) + size - counted[head] > MOST * 3 // 4
        assert heads.bytes == sum(counted) <= MOST


def test_small_heads_have_room_that_large_ones_do_not_get():
    heads = HeadBudget(MOST)
    while HeadCharge(heads).grow(SMALL + 1):
        pass
    left = MOST - heads.bytes
    assert left >= MOST // 4
    small = [HeadCharge(heads).grow(SMALL) for _ in range(left // SMALL)]
    assert all(small)
    assert not HeadCharge(heads).grow(SMALL)


@pytest.fixture
async def full(new_world: Any) -> World:
    """Return a proxy where large heads use up the budget."""
    world: World = await new_world(unfinished_header_bytes=MOST)
    await world.serving()
    for _ in range(FIT):
        client = await world.client()
        client.send(BEGINNING)
        client.send(b"a" * (LARGE - len(BEGINNING)))
    await until(lambda: unfinished(world) == FIT * LARGE)
    return world


def unfinished(world: World) -> int:
    return world.proxy.head_budget.bytes


async def test_a_client_beyond_the_limit_gets_an_error_and_no_other(full, caplog):
    hogs = list(full.clients)
    client = await full.client()
    client.send(BEGINNING + b"a" * SMALL)
    answer = await client.answer()
    assert answer.status == 503
    assert answer.get(b"connection") == b"close"
    assert answer.get(b"activator-reason") == b"queue-full; too many in-progress request heads"
    assert answer.get(b"retry-after") is not None
    await client.ended()
    assert "in-progress request heads" in caplog.text
    # The proxy serves complete heads of any size and small heads in pieces. The other heads may
    # end.
    client = await full.client()
    client.send(request(fields=b"X: %b\r\n" % (b"a" * LARGE)))
    assert (await client.answer()).status == 200
    client = await full.client()
    await client.drip(request(), 7)
    assert (await client.answer()).status == 200
    hogs[0].send(b"\r\nKnative-Serving-Namespace: ns\r\nKnative-Serving-Revision: rev\r\n\r\n")
    assert (await hogs[0].answer()).status == 200
    assert full.proxy.counters.bad_requests == 0


ENDS = {
    "it is whole": b"\r\nKnative-Serving-Namespace: ns\r\nKnative-Serving-Revision: rev\r\n\r\n",
    "it is malformed": b"\n\n",
    "it is too large": b"a" * (1 << 20),
    "it grows beyond the bound": b"a" * MOST,
}


@pytest.mark.parametrize("end", [pytest.param(end, id=what) for what, end in ENDS.items()])
async def test_what_a_head_had_is_free_when(full, end):
    full.clients[0].send(end)
    await until(lambda: unfinished(full) == (FIT - 1) * LARGE)


@both_loops
async def test_what_a_head_had_is_free_when_its_client_leaves(full):
    full.clients[0].transport.abort()
    await until(lambda: unfinished(full) == (FIT - 1) * LARGE)


@in_virtual_time
async def test_what_a_head_had_is_free_when_its_time_is_over(new_world):
    world = await new_world(header_timeout=0.2)
    client = await world.client()
    client.send(BEGINNING)
    assert (await client.answer()).status == 408
    assert unfinished(world) == 0


@both_loops
async def test_a_drain_gives_back_what_heads_had(full):
    full.proxy.drain()
    for client in full.clients:
        assert (await client.answer()).status == 503
        client.transport.abort()
    await until(lambda: unfinished(full) == 0)


async def test_header_blocks_of_http2_count_as_well(full):
    http2 = Http2World(full)
    try:
        good, small = [await raw(http2, BEGIN) for _ in range(2)]
        small.send(frame(HEADERS, 0, 1, NOBODYS))
        await until(lambda: unfinished(full) > FIT * LARGE)
        good.send(frame(HEADERS, 0, 1, bytes(SMALL + 1)))
        await good.ended()
        assert [code for _, code in goaways(good.received)] == [11]  # ENHANCE_YOUR_CALM
        # One that is small may come to its end, and another begin.
        assert unfinished(full) == FIT * LARGE + len(NOBODYS)
        small.send(frame(CONTINUATION, 4, 1))
        await until(lambda: unfinished(full) == FIT * LARGE)
        small.send(frame(HEADERS, 0, 3, NOBODYS))
        await until(lambda: unfinished(full) > FIT * LARGE)
        small.transport.abort()
        await until(lambda: unfinished(full) == FIT * LARGE)
    finally:
        http2.close()


async def test_what_comes_whole_is_not_counted(world, monkeypatch):
    def grow(*sizes: int) -> bool:
        raise AssertionError("counted")

    monkeypatch.setattr(HeadCharge, "grow", grow)
    await world.serving()
    client = await world.client()
    client.send(request() + request())
    assert [(await client.answer()).status for _ in range(2)] == [200, 200]


@pytest.mark.parametrize("seed", range(5))
async def test_nothing_is_left_when_all_have_gone(new_world, seed):
    luck = random.Random(seed)
    world = await new_world(unfinished_header_bytes=MOST)
    await world.serving()
    pieces = [
        *(BEGINNING, request()[:50], request(), b"a" * SMALL, b"a" * LARGE, b"\r\n\r\n", b"\n"),
        *(
            BEGIN,
            frame(HEADERS, 5, 1, NOBODYS),
            frame(HEADERS, 5, 3, NOBODYS)[:20],
            frame(HEADERS, 0, 1, NOBODYS),
            frame(CONTINUATION, 4, 1),
        ),
    ]
    clients = [await world.client() for _ in range(20)]
    for _ in range(200):
        client = luck.choice(clients)
        if client.lost or luck.random() < 0.03:
            client.transport.abort()
            clients.remove(client)
            clients.append(await world.client())
        else:
            client.send(luck.choice(pieces))
        await turns(2)
        assert 0 <= unfinished(world) <= MOST
    for client in clients:
        client.transport.abort()
    await world.let_linger()
    await until(lambda: not world.proxy.connections)
    assert unfinished(world) == 0
