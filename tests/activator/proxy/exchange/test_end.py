"""How requests end: served, with an error response, broken off, or drained."""

from __future__ import annotations

import pytest

from activator.proxy.exchange.end import of_pod
from tests.activator.proxy.world import (
    TO_REVISION,
    PodConnection,
    Seen,
    about,
    answer_whole,
    ok,
    request,
    until,
)
from tests.conftest import both_loops, in_virtual_time
from throttler.reason import Reason
from throttler.throttler import Limits
from throttler.ticket import FAILED, NEUTRAL, SERVED

#: More than the kernel's buffers between two sockets of this machine take.
LARGE = 12 << 20


async def test_the_deadline_of_a_waiting_request_is_exact(world):
    world.revise(timeout=0.25)
    client = await world.client()
    started = world.now()
    client.send(request())
    answer = await client.answer()
    assert (answer.status, answer.body) == (504, b"activator request timeout")
    assert answer.get(b"content-type") == b"text/plain; charset=utf-8"
    assert answer.get(b"x-content-type-options") is None
    assert answer.get(b"activator-reason") == b"no-endpoints"
    assert answer.get(b"retry-after") == b"4"
    assert world.now() - started == about(0.25, within=0.1)
    assert not client.eof
    assert world.counters().outcomes["timed-out"] == 1


@both_loops
async def test_a_deadline_while_the_body_is_unread_closes_behind_the_504(world):
    world.revise(timeout=0.1)
    client = await world.client()
    client.send(request(b"/", b"POST", fields=b"Content-Length: 1000\r\n") + b"some")
    answer = await client.answer()
    assert (answer.status, answer.get(b"connection")) == (504, b"close")
    await client.ended()


@in_virtual_time
async def test_the_deadline_while_a_pod_works_is_a_504_and_the_pod_is_released(world):
    pod = await world.serving(timeout=0.25)
    pod.on_data = lambda connection: None
    client = await world.client()
    client.send(request())
    answer = await client.answer()
    assert (answer.status, answer.body) == (504, b"activator request timeout")
    assert answer.get(b"retry-after") == b"1"
    await until(lambda: not pod.open)
    assert len(pod.requests) == 1
    client.send(request())
    assert (await client.answer()).status == 504


@both_loops
@pytest.mark.parametrize(
    ("stage", "leave"),
    [
        ("in-flight", "close"),
        ("in-flight", "abort"),
        ("in-answer", "abort"),
        ("in-request", "close"),
        ("in-request", "abort"),
    ],
)
async def test_a_client_that_cancels_frees_the_slot_and_the_pod_learns_of_it(world, stage, leave):
    pod = await world.serving(container_concurrency=1)
    begun = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"
    pod.on_data = lambda connection: stage == "in-answer" and connection.write(begun)
    client = await world.client()
    if stage == "in-request":
        client.send(request(b"/", b"POST", fields=b"Content-Length: 100\r\n") + b"half")
    else:
        client.send(request())
    await until(lambda: pod.requests)
    if stage == "in-answer":
        await client.size(len(begun))

    getattr(client, leave)()

    await world.in_time(lambda: not world.busy)
    await until(lambda: not pod.open)
    assert world.counters().outcomes["cancelled"] == 1


@both_loops
async def test_a_client_that_closes_in_the_middle_of_its_response_is_noticed_by_the_next_byte(
    world,
):
    pod = await world.serving()
    pod.on_data = lambda connection: connection.write(b"HTTP/1.1 200 OK\r\n\r\nbegun")
    client = await world.client()
    client.send(request())
    await client.ended_or_answered()
    client.close()
    await world.clock_moves(0.1)
    assert world.in_flight == 1  # it may still read: a half-close looks the same

    for connection in pod.open * 2:  # the first write causes a reset, the second may fail
        if not connection.transport.is_closing():
            connection.write(b"more")
        await world.clock_moves(0.1)

    await world.idle()
    await until(lambda: not pod.open)


async def test_a_free_slot_goes_to_the_next_in_line(world):
    pod = await world.serving(container_concurrency=1)
    pod.on_data = lambda connection: None
    first = await world.client()
    first.send(request(b"/first"))
    await until(lambda: pod.requests)
    second = await world.client()
    second.send(request(b"/second"))
    await until(lambda: world.waiting == 1)
    pod.on_data = answer_whole

    first.abort()

    assert (await second.answer()).status == 200
    assert [seen.target for seen in pod.requests] == [b"/first", b"/second"]


async def test_a_drain_ends_requests_without_a_pod(world):
    pod = await world.serving(container_concurrency=1)
    pod.on_data = lambda connection: None
    busy = await world.client()
    busy.send(request())
    await until(lambda: pod.requests)
    waiting = await world.client()
    waiting.send(request())
    await until(lambda: world.waiting == 1)

    world.proxy.drain()

    answer = await waiting.answer()
    assert (answer.status, answer.get(b"connection")) == (503, b"close")
    await waiting.ended()
    pod.connections[0].write(ok())
    assert (await busy.answer()).status == 200


async def test_two_revisions_do_not_share_pods(world):
    pod = await world.serving()
    other = await world.pod()
    other.answer = ok(b"other")
    world.revise(other, name="other")
    await until(lambda: world.revision("other").statistics().healthy == 1)
    answer = await world.ask(request().replace(b"Revision: rev", b"Revision: other"))
    assert answer.body == b"other"
    assert not pod.requests
    assert TO_REVISION.count(b"rev")


@pytest.mark.untraced
async def test_each_response_belongs_to_its_own_request(world):
    """Many clients, few connections: no client gets another's response."""
    pod = await world.serving(container_concurrency=3)

    def echo(seen: Seen) -> bytes:
        return ok(seen.target + seen.body)

    pod.answer = echo
    clients = [await world.client() for _ in range(20)]
    for turn in range(5):
        for number, client in enumerate(clients):
            client.send(request(b"/%d-%d" % (number, turn), b"POST", body=b"!%d" % number))
        for number, client in enumerate(clients):
            assert (await client.answer()).body == b"/%d-%d!%d" % (number, turn, number)
    assert len(pod.connections) <= 3


async def test_why_a_request_failed_is_remembered_of_its_revision(world):
    pod = await world.serving()
    client = await world.client()
    pod.on_data = lambda connection: connection.close()
    client.send(request(b"/", b"POST", body=b"x"))
    assert (await client.answer()).status == 502
    last = world.failures().last
    assert (last.status, last.reason) == (502, Reason.UPSTREAM_FAILED)
    assert last.detail.startswith(f"{pod.endpoint.address}: ")

    def begin(connection: PodConnection) -> None:
        connection.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")
        world.loop.call_later(0.001, connection.close)

    pod.on_data = begin
    client = await world.client()
    client.send(request())
    await client.ended()
    last = world.failures().last
    assert (last.status, last.reason) == (200, Reason.UPSTREAM_FAILED)
    assert last.detail.endswith("; the response had begun")
    assert world.failures().by_reason == {Reason.UPSTREAM_FAILED: 2}


@in_virtual_time
async def test_after_the_response_has_begun_the_deadline_breaks_it_off(world):
    pod = await world.serving(timeout=0.25)

    def begin(connection: PodConnection) -> None:
        connection.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n")

    pod.on_data = begin
    client = await world.client()
    client.send(request())
    await client.ended()
    assert b"half" in client.received
    assert b"timeout" not in client.received
    assert b"0\r\n\r\n" not in client.received
    await until(lambda: not pod.open)


def test_the_end_of_a_tunnel_says_nothing_about_its_pod() -> None:
    assert [of_pod("served", status) for status in (101, 200, 503)] == [NEUTRAL, SERVED, FAILED]


async def test_a_full_queue_gets_503_at_once(new_world):
    world = await new_world(queue=Limits(queue_depth=1))
    world.revise()
    first = await world.client()
    first.send(request())
    await until(lambda: world.waiting == 1)

    second = await world.client()
    second.send(request())
    answer = await second.answer()

    assert (answer.status, answer.body) == (503, b"pending request queue full\n")
    assert answer.get(b"activator-reason") == b"queue-full; revision-depth"
    assert answer.get(b"retry-after") == b"4"
    assert not second.eof
    first.abort()


async def test_a_refused_request_gets_a_retry_time_by_how_long_it_took(new_world):
    world = await new_world(queue=Limits(queue_depth=2))
    pod = await world.serving(container_concurrency=1)
    pod.on_data = lambda connection: None
    clients = [await world.client() for _ in range(4)]
    for number, client in enumerate(clients):
        client.send(request())
        await until(lambda number=number: world.waiting == min(number, 2))
    assert (await clients[3].answer()).get(b"retry-after") == b"4", "nothing is known yet"
    world.revision().forecast.turnovers.add(20.0)

    again = await world.ask()

    # Two requests wait; the third turn is due after 60 s, and jitter takes off a fifth.
    assert (again.status, again.get(b"retry-after")) == (503, b"48")
    for client in clients[:3]:
        client.abort()


async def test_with_early_shedding_a_request_that_would_expire_is_refused_at_once(new_world):
    world = await new_world(queue=Limits(shed_early=True))
    pod = await world.serving(container_concurrency=1, timeout=50.0)
    pod.on_data = lambda connection: None
    world.revision().forecast.turnovers.add(30.0)
    clients = [await world.client() for _ in range(3)]
    for number, client in enumerate(clients):
        client.send(request())
        await until(lambda number=number: world.waiting == min(number, 1) and pod.requests)

    answer = await clients[2].answer()

    assert (answer.status, answer.body) == (503, b"expected wait exceeds the time-out\n")
    assert answer.get(b"activator-reason") == b"wait-too-long; 60.0 s expected, 50.0 s left"
    assert answer.get(b"retry-after") == b"48"
    assert world.counters().outcomes["shed"] == 1
    for client in clients[:2]:
        client.abort()


@in_virtual_time
async def test_who_is_refused_while_this_activator_ends_may_come_to_another_at_once(new_world):
    world = await new_world(queue=Limits(queue_depth=1, shed_early=True))
    pod = await world.serving(container_concurrency=1, timeout=0.25)
    pod.on_data = lambda connection: None
    busy, waiting = await world.client(), await world.client()
    busy.send(request())
    await until(lambda: pod.requests)
    waiting.send(request())
    await until(lambda: world.waiting == 1)
    world.proxy.services.draining = True
    full = await world.ask()
    world.revision().forecast.turnovers.add(30.0)
    shed = await world.ask()
    answers = [full, shed, await busy.answer(), await waiting.answer()]
    assert [answer.status for answer in answers] == [503, 503, 504, 504]
    assert shed.get(b"activator-reason").startswith(b"wait-too-long")
    assert [answer.get(b"retry-after") for answer in answers] == [b"0"] * 4
    assert world.proxy.too_many_connections().retry_after == 0
