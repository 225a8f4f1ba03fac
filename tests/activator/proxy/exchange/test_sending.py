"""The bodies of requests and responses; shown with HTTP/1."""

from __future__ import annotations

import pytest

from tests.activator.proxy.world import (
    PodConnection,
    about,
    answer_whole,
    ok,
    request,
    turns,
    until,
)
from tests.conftest import both_loops, in_virtual_time

#: More than the kernel's buffers between two sockets of this machine take.
LARGE = 12 << 20
SIZES = pytest.mark.parametrize("size", [1, 100_000], ids=["dripped", "whole"])


@both_loops
async def test_a_body_streams_both_ways_at_once(world):
    pod = await world.serving()

    def echo(connection: PodConnection) -> None:
        if connection.answered == 0:
            connection.answered = 1
            connection.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        connection.write(b"1\r\n.\r\n")
        if connection.requests[-1].whole:
            connection.write(b"0\r\n\r\n")

    pod.on_data = echo
    client = await world.client()
    client.send(request(b"/", b"POST", fields=b"Transfer-Encoding: chunked\r\n"))
    await client.size(10)
    for _ in range(5):
        before = len(client.received)
        client.send(b"3\r\nabc\r\n")
        await client.size(before + 1)
    client.send(b"0\r\n\r\n")
    answer = await client.answer()
    assert set(answer.body) == set(b".")
    assert pod.requests[0].body == b"abc" * 5


@both_loops
async def test_a_waiting_body_is_read_up_to_a_bound_then_the_client_is_stopped(new_world):
    world = await new_world(hold_bytes=32 << 10)
    pod = await world.pod()
    world.revise()
    client = await world.client()
    client.send(request(b"/", b"POST", body=b"b" * LARGE))
    await until(lambda: world.waiting == 1)
    await turns(500)

    held = world.revision().statistics().queued_bytes
    assert held < (32 << 10) + (256 << 10) + 1000  # one read of the loop beyond the limit
    assert client.transport.get_write_buffer_size() > 0

    world.list(pod)
    assert (await client.answer()).status == 200
    assert len(pod.requests[0].body) == LARGE


@both_loops
async def test_a_pod_that_reads_slowly_stops_the_client(world):
    pod = await world.pod(receive_buffer=4096)
    pod.on_connect = lambda connection: connection.transport.pause_reading()
    world.revise(pod)
    await until(lambda: world.revision().statistics().healthy == 1)
    client = await world.client()
    client.send(request(b"/", b"POST", body=b"b" * LARGE))
    await until(lambda: pod.connections)
    await turns(500)

    assert client.transport.get_write_buffer_size() > 0
    (connection,) = world.proxy.connections
    upstream = connection.handler.exchange.pod_side
    assert upstream.transport.get_write_buffer_size() < 1 << 20

    pod.connections[0].widen()
    pod.connections[0].transport.resume_reading()
    assert (await client.answer()).status == 200
    assert len(pod.requests[0].body) == LARGE


@both_loops
async def test_an_early_response_passes_and_the_rest_of_the_body_is_not_waited_for(world):
    pod = await world.serving()

    def early(connection: PodConnection) -> None:
        if not connection.answered:
            connection.answered = 1
            connection.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nno!")

    pod.on_data = early
    client = await world.client()
    client.send(request(b"/", b"POST", fields=b"Content-Length: 1000\r\n") + b"some")

    answer = await client.answer()

    assert (answer.status, answer.body) == (413, b"no!")
    assert answer.get(b"connection") == b"close"
    await client.ended()
    await until(lambda: not pod.open)


@both_loops
async def test_an_early_response_counts_where_the_pod_resets_the_connection_behind_it(world):
    """A server that closes with unread input does so. The proxy may notice as it writes."""
    pod = await world.serving()
    client = await world.client()

    def early(connection: PodConnection) -> None:
        client.send(b"more")  # the proxy reads this before the response
        connection.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nno!")
        connection.reset()
        pod.on_data = lambda connection: None

    pod.on_data = early
    client.send(request(b"/", b"POST", fields=b"Content-Length: 1000\r\n") + b"some")
    answer = await client.answer()
    assert (answer.status, answer.body) == (413, b"no!")
    await client.ended()


@both_loops
async def test_full_duplex_keeps_a_connection_whose_response_began_first(world):
    """TestActivatorChainHandlerWithFullDuplex: echoes over connections that stay."""
    pod = await world.serving(full_duplex=True)
    pod.on_data = lambda connection: None
    client = await world.client()
    for _ in range(3):
        sent = len(pod.requests)
        client.send(request(b"/", b"POST", b"Content-Length: 6\r\n") + b"abc")
        await until(lambda sent=sent: len(pod.requests) > sent and pod.requests[-1].body == b"abc")
        connection = pod.connections[-1]
        connection.write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabc")
        await client.size(len(client.received) + 1)
        client.send(b"def")
        await until(lambda: pod.requests[-1].body == b"abcdef")
        connection.write(b"def")
        answer = await client.answer(b"POST")
        assert (answer.body, answer.get(b"Connection")) == (b"abcdef", None)
    assert len(pod.connections) == 1


@both_loops
async def test_full_duplex_whose_response_ends_first_ends_the_connections(world):
    pod = await world.serving(full_duplex=True)
    pod.on_data = lambda connection: connection.write(ok(b"early"))
    client = await world.client()
    client.send(request(b"/", b"POST", b"Content-Length: 6\r\n") + b"abc")
    answer = await client.answer(b"POST")
    assert (answer.body, answer.get(b"Connection")) == (b"early", b"close")
    await client.ended()
    await until(lambda: not pod.open)


@both_loops
async def test_the_rest_of_a_body_after_an_early_response_reaches_no_pod(world):
    pod = await world.serving()

    def early(connection: PodConnection) -> None:
        if not connection.answered:
            connection.answered = 1
            connection.write(ok(b"early"))

    pod.on_data = early
    client = await world.client()
    smuggled = request(b"/smuggled")
    length = b"Content-Length: %d\r\n" % (len(smuggled) + 4)
    client.send(request(b"/", b"POST", fields=length) + b"some")
    assert (await client.answer()).body == b"early"
    client.send(smuggled + smuggled)
    await client.ended()
    await turns(50)
    assert [seen.target for seen in pod.requests] == [b"/"]


EXPECT = request(b"/", b"POST", fields=b"Expect: 100-continue\r\nContent-Length: 5\r\n")


@in_virtual_time
async def test_expect_is_forwarded_and_the_pods_100_comes_back(world):
    pod = await world.serving()

    def go_on(connection: PodConnection) -> None:
        if not connection.answered and not connection.requests[0].body:
            connection.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        answer_whole(connection)

    pod.on_data = go_on
    client = await world.client()
    client.send(EXPECT)
    assert await client.take(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert world.now_since_start() < 0.9
    client.send(b"hello")
    assert (await client.answer()).status == 200
    assert pod.requests[0].all(b"expect") == [b"100-continue"]
    assert not client.eof


async def test_without_the_pods_100_the_client_gets_ours_after_a_second(world):
    await world.serving()
    client = await world.client()
    client.send(EXPECT)
    assert await client.take(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert world.now_since_start() == about(1.0, within=0.3)
    client.send(b"hello")
    assert (await client.answer()).status == 200
    assert client.received.count(b"100 Continue") == 1


async def test_no_100_while_no_pod_is_there(world):
    pod = await world.pod()
    world.revise()
    client = await world.client()
    client.send(EXPECT)
    await until(lambda: world.waiting == 1)
    await world.clock_moves(1.5)
    assert not client.received
    world.list(pod)
    assert await client.take(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
    client.send(b"hello")
    assert (await client.answer()).status == 200


@in_virtual_time
async def test_no_100_inside_a_response_that_has_begun(world):
    """A client that waits for a 100 may never send its body after a final status."""
    pod = await world.serving()
    pod.on_data = lambda connection: connection.write(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n.\r\n"
    )
    client = await world.client()
    client.send(EXPECT)
    await until(lambda: client.received.endswith(b"\r\n.\r\n"))
    await world.clock_moves(1.5)
    pod.connections[0].write(b"0\r\n\r\n")
    answer = await client.answer()
    assert (answer.status, answer.body, answer.interim) == (200, b".", [])


@both_loops
async def test_a_final_response_without_100_closes_both_connections(world):
    pod = await world.serving()
    pod.on_data = lambda connection: connection.write(
        b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"
    )
    client = await world.client()
    client.send(EXPECT)
    answer = await client.answer()
    assert (answer.status, answer.get(b"connection")) == (401, b"close")
    await client.ended()
    await until(lambda: not pod.open)


async def test_a_client_that_does_not_wait_for_100_gets_none_from_us(world):
    await world.serving()
    client = await world.client()
    client.send(EXPECT + b"hello")
    answer = await client.answer()
    assert (answer.status, answer.interim) == (200, [])
