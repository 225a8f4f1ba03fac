"""A connection to a pod in HTTP/2, its streams, and how many of them the pod accepts."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import pytest

from activator.build import Build, running
from activator.proxy.http2.connection import Stream, data_head, header_frames
from activator.proxy.pods.http1 import MAX_INTERIM
from activator.proxy.pods.http2 import FIRST_STREAMS, Capacity, Http2PodConnection
from tests.activator.proxy.client.test_http2 import BEGIN, block, raw
from tests.activator.proxy.http2.peers import Headers, Message, Peer, answer_hello
from tests.activator.proxy.pods.test_pool import pools_of
from tests.activator.proxy.world import until
from tests.conftest import both_loops

Script = Callable[[Peer, int, Message], None]


async def test_a_pod_that_takes_few_streams_gets_more_connections(http2):
    pod = await http2.serving()
    pod.settings = {"streams": 2}
    client = await http2.client()
    assert (await client.answer(client.ask())).body == b"hello"
    pod.on_message = lambda *_: None
    streams = [client.ask() for _ in range(6)]
    await until(lambda: len([m for m in pod.requests if m.ended]) == 7)
    assert len(pod.connections) == 3
    for peer in pod.connections:
        for stream, message in list(peer.messages.items()):
            if message.ended and (peer is not pod.connections[0] or stream != 1):
                answer_hello(peer, stream, message)
    for stream in streams:
        assert (await client.answer(stream)).status == 200


@both_loops
async def test_a_pod_that_says_goodbye_finishes_what_it_took_and_loses_nothing(http2):
    def leave(peer: Peer, stream: int, message: Message) -> None:
        if peer is not pod.connections[0]:
            answer_hello(peer, stream, message)
        elif message.ended and len(peer.messages) == 2:
            peer.h2.close_connection(0, last_stream_id=1)
            peer.flush()

    pod = await http2.serving()
    pod.on_message = leave
    client = await http2.client()
    # Of any method: a request that the pod did not process may be sent again.
    streams = [client.ask(b"/", b"POST") for _ in range(2)]
    assert (await client.answer(streams[1])).body == b"hello"
    assert streams[0] not in client.messages
    pod.connections[0].transport.abort()
    assert (await client.answer(streams[0])).status == 502


@both_loops
async def test_a_get_survives_its_pods_connection(http2):
    def die_once(peer: Peer, stream: int, message: Message) -> None:
        if message.ended:
            if peer is pod.connections[0]:
                peer.transport.abort()
            else:
                answer_hello(peer, stream, message)

    pod = await http2.serving()
    pod.on_message = die_once
    client = await http2.client()
    assert (await client.answer(client.ask())).status == 200


@both_loops
async def test_a_pod_without_a_listener_is_found_out(http2):
    pod = await http2.serving()
    pod.close()
    http2.world.healthy = lambda _: False
    client = await http2.client()
    client.ask()
    await until(lambda: http2.world.waiting == 1)


@both_loops
async def test_requests_that_come_and_go_do_not_pile_up_for_a_pod_that_reads_nothing(http2):
    def stop(peer: Peer, stream: int, message: Message) -> None:
        if peer is pod.connections[0]:
            peer.transport.pause_reading()
        else:
            answer_hello(peer, stream, message)

    pod = await http2.serving()
    pod.on_message = stop
    other = await http2.client()
    waits = other.ask(b"/", b"POST")
    await until(lambda: pod.requests)
    ((upstream,),) = (pool.shared for pool in pools_of(http2.world))
    largest = 0
    head = block((b"x", b"y" * 16_000))
    for _ in range(20):
        crowd = b"".join(header_frames(n, head, ended=True) for n in range(1, 121, 2))
        client = await raw(http2, BEGIN + crowd)
        await until(lambda: http2.world.in_flight == 61 or upstream.link.is_ending())
        largest = max(largest, upstream.link.transport.get_write_buffer_size())
        client.abort()
        await until(lambda: http2.world.in_flight <= 1)
        if upstream.link.is_ending():
            break
    assert (await other.answer(waits)).status == 502
    assert (await other.answer(other.ask())).body == b"hello"
    assert largest < 6 << 20


@pytest.mark.parametrize(
    "fields", [[(b":status", b"2")], [(b"a", b"b")], [(b":status", b"200"), (b"te", b"x\0")]]
)
async def test_a_malformed_response_costs_its_request_alone(http2, fields):
    def answer(peer: Peer, stream: int, message: Message) -> None:
        if message.ended:
            if message.all(b":path") == [b"/bad"]:
                peer.headers(stream, fields, end=True)
            else:
                answer_hello(peer, stream, message)

    pod = await http2.serving()
    pod.on_message = answer
    client = await http2.client()
    bad, good = client.ask(b"/bad"), client.ask(b"/good")
    assert (await client.answer(bad)).status == 502
    assert (await client.answer(good)).status == 200
    assert len(pod.connections) == 1


def after(fields: Headers, *, frame: bytes = b"", count: int = 0, end: bool = True) -> Script:
    """Respond with that many interim responses and a head; the test sends the rest."""

    def answer(peer: Peer, stream: int, message: Message) -> None:
        if message.ended and message.reset is None:
            for _ in range(count):
                peer.headers(stream, [(b":status", b"103"), (b"link", b"<a>")])
            peer.headers(stream, fields, end=end)
            if frame:
                size = len(frame)
                peer.transport.write(data_head(stream, size, ended=True) + frame)

    return answer


async def test_sixteen_interim_responses_pass_and_more_are_a_502(http2):
    pod = await http2.serving()
    client = await http2.client()
    pod.on_message = after([(b":status", b"200")], count=MAX_INTERIM)
    answer = await client.answer(client.ask())
    assert (answer.status, len(answer.interim)) == (200, MAX_INTERIM)
    pod.on_message = after([(b":status", b"200")], count=MAX_INTERIM + 1)
    answer = await client.answer(client.ask())
    assert (answer.status, len(answer.interim)) == (502, MAX_INTERIM)
    assert len(pod.connections) == 1


@both_loops
async def test_interim_responses_are_not_piled_up_for_a_client_that_reads_nothing(http2):
    pod = await http2.serving()
    pod.on_message = after([(b":status", b"200")], count=MAX_INTERIM)
    client = await http2.client()
    assert (await client.answer(client.ask())).interim
    (downstream,) = http2.world.proxy.connections
    downstream.handler.link.pause_writing()
    answer = await client.answer(client.ask())
    assert (answer.status, answer.interim) == (200, [])


@pytest.mark.parametrize(
    ("method", "status", "length"),
    [(b"HEAD", 200, [b"5"]), (b"GET", 204, []), (b"GET", 304, [b"5"])],
)
@pytest.mark.parametrize("said", [False, True])
async def test_what_follows_a_response_without_content_is_dropped(
    http2, method, status, length, said
):
    pod = await http2.serving()
    fields = [(b":status", b"%d" % status)] + [(b"content-length", b"5")] * said
    pod.on_message = after(fields, frame=b"stray", end=False)
    client = await http2.client()
    for _ in range(3):
        answer = await client.answer(client.ask(b"/", method))
        assert (answer.status, answer.body, answer.reset) == (status, b"", None)
        assert answer.all(b"content-length") == length * said
    assert len(pod.connections) == 1
    assert http2.world.in_flight == 0


@pytest.mark.skipif(
    running() is Build.COMPILED, reason="compiled code does not see a replaced method"
)
async def test_a_stream_that_its_pod_ends_before_its_request_has_ended_is_removed_once(
    http2, monkeypatch
):
    removed: list[int] = []
    plain = Http2PodConnection.on_stream_removed

    def count(pod: Http2PodConnection, stream: Stream) -> None:
        removed.append(stream.id)
        plain(pod, stream)

    monkeypatch.setattr(Http2PodConnection, "on_stream_removed", count)
    pod = await http2.serving()
    client = await http2.client()
    stream = client.ask(b"/", b"POST", end=False)
    await until(lambda: pod.requests)
    (peer,) = pod.connections
    peer.headers(1, [(b":status", b"200")])
    peer.data(1, b"early", end=True)
    assert (await client.answer(stream)).body == b"early"
    await until(lambda: pod.requests[0].reset is not None)
    assert removed == [1]


def test_a_pod_that_takes_no_streams_now_may_take_as_many_as_before_later() -> None:
    capacity = Capacity()
    capacity.announced(7)
    assert capacity.max_streams == 7
    capacity.announced(0)
    assert capacity.max_streams == FIRST_STREAMS


def test_a_refusal_bounds_streams_by_those_that_were_left() -> None:
    capacity = Capacity()
    capacity.refused(5)
    assert capacity.refusal_limit == 5
    capacity.refused(9)
    assert capacity.refusal_limit == 5


def test_a_pod_that_refuses_the_only_stream_sets_no_bound() -> None:
    capacity = Capacity()
    capacity.refused(0)
    assert capacity.refusal_limit == inf
