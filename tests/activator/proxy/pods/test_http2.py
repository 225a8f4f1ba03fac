"""A connection to a pod: how many requests it takes, and how it ends."""

from __future__ import annotations

from collections.abc import Callable

from activator.proxy.http2 import frames
from tests.activator.proxy.client.test_http2 import BEGIN, block, raw
from tests.activator.proxy.http2.peers import Message, Peer, answer_hello
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
        crowd = b"".join(frames.headers(n, head, ended=True) for n in range(1, 121, 2))
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
