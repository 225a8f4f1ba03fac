"""Pods whose HTTP/2 is unusual: limits below every request, no streams, a close without a word."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from activator.proxy.http2 import frames
from activator.proxy.http2.frame_reader import Http2Setting, write_settings
from activator.proxy.transport.peer_socket import UnreadBytes
from tests.activator.proxy.http2.peers import Http2World, Message, Peer
from tests.activator.proxy.world import Pod, PodConnection, request, until
from tests.conftest import in_virtual_time

_SMALL = 1500
_GRPC = (b"content-type", b"application/grpc")


async def _limited(http2: Http2World, size: int = _SMALL):
    pod = await http2.serving()
    limit = ((Http2Setting.MAX_HEADER_LIST_SIZE, size),)
    pod.greeting = frames.settings(write_settings(limit))
    return pod


async def _answer(client: Peer, stream: int, seconds: float = 30.0) -> Message:
    """Let time pass until a response is over."""
    over = asyncio.Event()

    def look(peer: Peer, number: int, message: Message) -> None:
        if number == stream and message.over:
            over.set()

    client.on_message = look
    if stream not in client.messages or not client.messages[stream].over:
        async with asyncio.timeout(seconds):
            await over.wait()
    return client.messages[stream]


# -- SETTINGS_MAX_HEADER_LIST_SIZE ------------------------------------------------------------


async def test_a_header_section_above_the_limit_of_its_pod_gets_431(http2):
    pod = await _limited(http2)
    client = await http2.client()
    streams = [client.ask(b"/small", b"POST", end=False)]
    await until(lambda: pod.requests)
    large = client.ask(b"/large", b"GET", (b"x-large", b"x" * _SMALL))
    answer = await client.answer(large)
    assert answer.status == 431
    assert answer.all(b"activator-reason")[0].startswith(b"bad-request")
    assert f"{pod.endpoint.address}: the header fields have ".encode() in answer.body
    assert b"the pod accepts 1500" in answer.body
    streams.append(client.ask(b"/small"))
    client.data(streams[0], b"body", end=True)
    for stream in streams:  # the connection of the pod goes on, with all that is on it
        assert (await client.answer(stream)).body == b"hello"
    assert len(pod.connections) == 1
    assert [dict(seen.headers)[b":path"] for seen in pod.requests] == [b"/small", b"/small"]
    assert http2.world.counters().outcomes["refused"] == 1
    assert http2.world.revision().statistics().healthy == 1


async def test_a_header_section_of_just_the_limit_passes_and_one_byte_more_does_not(http2):
    pod = await http2.serving()
    client = await http2.client()
    assert (await client.answer(client.ask(b"/", b"GET", (b"x", b"")))).status == 200
    seen = pod.requests[0].headers
    size = sum(len(name) + len(value) + 32 for name, value in seen)
    limit = frames.settings(write_settings(((Http2Setting.MAX_HEADER_LIST_SIZE, size + 9),)))
    pod.connections[0].transport.write(limit)
    streams = [client.ask(b"/", b"GET", (b"x", b"y" * length)) for length in (9, 10)]
    assert [(await client.answer(stream)).status for stream in streams] == [200, 431]


async def test_many_queued_requests_above_the_limit_of_their_pod_get_431(http2):
    """Each frees the slot for the next one; nested calls would exceed the stack."""
    pod = await _limited(http2)
    http2.list(pod, container_concurrency=1)
    client = await http2.client()
    first = client.ask(b"/small", b"POST", end=False)
    await until(lambda: pod.requests)
    large = [client.ask(b"/large", b"GET", (b"x-large", b"x" * _SMALL)) for _ in range(200)]
    await until(lambda: http2.world.waiting == len(large))
    client.data(first, b"body", end=True)
    for stream in large:
        assert (await client.answer(stream)).status == 431
    assert (http2.world.waiting, http2.world.in_flight) == (0, 0)


async def test_a_request_of_http1_with_a_body_gets_431_too(http2):
    pod = await _limited(http2)
    world = http2.world
    assert (await world.ask()).body == b"hello"  # from now on the pod is known to speak HTTP/2
    world.errors.clear()
    fields = b"X-Large: %b\r\n" % (b"x" * _SMALL)
    client = await world.client()
    client.send(request(method=b"POST", fields=fields, body=b"body"))
    answer = await client.answer()
    assert answer.status == 431
    assert len(pod.requests) == 1


async def test_a_call_of_grpc_above_the_limit_gets_a_grpc_status(http2):
    await _limited(http2)
    client = await http2.client()
    stream = client.ask(b"/s/M", b"POST", _GRPC, (b"x-large", b"x" * _SMALL))
    answer = await client.answer(stream)
    assert answer.all(b"grpc-status") == [b"2"]
    assert b"the pod accepts" in answer.all(b"grpc-message")[0]


async def test_a_pod_may_change_its_limit(http2):
    pod = await _limited(http2)
    client = await http2.client()
    large = (b"x-large", b"x" * _SMALL)
    assert (await client.answer(client.ask(b"/", b"GET", large))).status == 431
    more = frames.settings(write_settings(((Http2Setting.MAX_HEADER_LIST_SIZE, 4 * _SMALL),)))
    pod.connections[0].transport.write(more)
    assert (await client.answer(client.ask(b"/", b"GET"))).status == 200
    assert (await client.answer(client.ask(b"/", b"GET", large))).status == 200


# -- SETTINGS_MAX_CONCURRENT_STREAMS of 0 -----------------------------------------------------


@in_virtual_time
async def test_a_pod_that_accepts_no_streams_is_dialled_ever_more_seldom(http2):
    pod = await http2.serving()
    pod.settings = {"streams": 0}
    client = await http2.client()
    stream = client.ask(b"/", b"POST", end=False)
    client.data(stream, b"body", end=True)
    await http2.world.clock_moves(5)
    first = len(pod.connections)
    await http2.world.clock_moves(20)
    assert first < 15
    assert len(pod.connections) - first < 25  # one a second at most
    assert stream not in client.messages  # the request still waits
    reason, detail = http2.world.driver.why(http2.world.revision())
    assert "accepts no HTTP/2 streams" in detail, reason
    pod.settings = {}
    assert (await _answer(client, stream)).body == b"hello"
    pod.settings = {"streams": 1}
    pod.connections[-1].transport.abort()
    assert (await _answer(client, client.ask())).body == b"hello"


@in_virtual_time
async def test_the_error_response_at_the_deadline_names_a_pod_without_streams(http2):
    pod = await http2.serving(timeout=2.0)
    pod.settings = {"streams": 0}
    client = await http2.client()
    answer = await _answer(client, client.ask())
    assert answer.status == 504
    assert b"accepts no HTTP/2 streams" in answer.all(b"activator-reason")[0]


# -- a close without a word on the preface ----------------------------------------------------


async def _silent(http2: Http2World) -> Pod:
    """A pod of HTTP/1 that closes on the preface of HTTP/2 without a response."""
    world = http2.world
    pod = await world.pod()

    def data(connection: PodConnection) -> None:
        if connection.received.startswith(b"PRI * HTTP/2.0"):
            world.errors[:] = [each for each in world.errors if "PRI *" not in each]
            connection.close()
        else:
            usual(connection)

    usual, pod.on_data = pod.on_data, data
    http2.list(cast(Any, pod))
    return pod


@pytest.mark.parametrize("method", [b"GET", b"POST"])
async def test_a_pod_that_closes_on_the_preface_gets_the_request_in_http1(http2, method):
    pod = await _silent(http2)
    client = await http2.client()
    for _ in range(3):
        stream = client.ask(b"/", method, end=False)
        client.data(stream, b"body", end=True)
        assert (await _answer(client, stream)).status == 200
    assert [seen.body for seen in pod.requests if seen.method != b"PRI"] == [b"body"] * 3
    assert sum(each.received.startswith(b"PRI") for each in pod.connections) == 1


async def test_a_pod_of_http2_that_closed_once_gets_http2_again(http2):
    pod = await http2.serving()
    pod.greeting = None
    client = await http2.client()
    stream = client.ask()
    await until(lambda: pod.connections)
    pod.greeting = b""
    assert (await _answer(client, stream)).body == b"hello"
    calls = [client.ask(b"/s/M", b"POST", _GRPC) for _ in range(2)]
    for call in calls:
        assert (await _answer(client, call)).status == 200
    http2.world.errors.clear()  # the library objects to a request in HTTP/1


async def test_a_pod_with_an_open_connection_of_http2_gets_http2_when_another_one_closes(http2):
    pod = await http2.serving()
    pod.settings = {"streams": 1}
    client = await http2.client()
    first = client.ask(b"/", b"POST", end=False)
    await until(lambda: pod.requests)
    pod.greeting = None
    second = client.ask()
    await until(lambda: len(pod.connections) == 2)
    client.data(first, b"body", end=True)
    for stream in (first, second, client.ask()):
        assert (await _answer(client, stream)).body == b"hello"
    assert len(pod.connections[0].messages) == 3


# -- a pod without a listener -----------------------------------------------------------------


async def test_a_post_behind_a_get_whose_connect_is_refused_is_requeued(world):
    pod = await world.serving()
    await pod.refuse()
    clients = [await world.client() for _ in range(2)]
    clients[0].send(request())
    clients[1].send(request(method=b"POST", body=b"body"))
    await until(lambda: world.waiting == 2)
    await pod.listen()
    (tracker,) = world.revision().backends.pods.values()
    world.driver.probe_passed(tracker, tracker.epoch)
    for client, method in zip(clients, (b"GET", b"POST"), strict=True):
        assert (await client.answer(method)).status == 200
    assert world.counters().requeues == {"connect-failed": 2}


async def test_a_post_that_got_its_pod_while_a_get_was_connecting_to_it_is_requeued(world):
    hole = await world.unreachable()
    world.revise(hole)
    await until(lambda: world.revision().statistics().healthy == 1)
    clients = [await world.client() for _ in range(2)]
    clients[0].send(request())
    await until(lambda: world.in_flight == 1)
    await world.clock_moves(0.5)  # half of the time-out of a connect
    clients[1].send(request(method=b"POST", body=b"body"))
    await until(lambda: world.in_flight == 2)
    await world.clock_moves(1.1)
    assert world.waiting == 2
    world.list(await world.pod())
    for client, method in zip(clients, (b"GET", b"POST"), strict=True):
        assert (await client.answer(method)).status == 200
    assert world.counters().requeues == {"connect-timeout": 2}


# -- metrics ----------------------------------------------------------------------------------


def test_the_limit_of_unread_bytes_is_a_whole_number() -> None:
    assert type(UnreadBytes().most) is type(UnreadBytes(100).most) is int
