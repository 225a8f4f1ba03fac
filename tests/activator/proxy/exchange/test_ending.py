"""How a request ends without a response: deadlines, and clients that leave; shown with HTTP/1."""

from __future__ import annotations

import pytest

from tests.activator.proxy.world import (
    TO_REVISION,
    Seen,
    about,
    answer_whole,
    ok,
    request,
    until,
)
from tests.conftest import both_loops, in_virtual_time

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
