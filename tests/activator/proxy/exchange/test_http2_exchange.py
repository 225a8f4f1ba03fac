"""One request in HTTP/2 and its response: what pods see, what clients see, gRPC, retries."""

from __future__ import annotations

import os
import socket
import struct

import pytest

from activator.proxy.http2.frames import STREAM_WINDOW, ErrorCode
from tests.activator.proxy.http2.peers import Http2World, Message, Peer, answer_hello, echo
from tests.activator.proxy.world import turns, until
from tests.conftest import both_loops, in_virtual_time
from throttler.model import HashKey, KeyKind, Policies

GRPC = (b"content-type", b"application/grpc")


@both_loops
async def test_a_request_reaches_a_pod_and_its_response_the_client(http2):
    pod = await http2.serving()
    client = await http2.client()
    stream = client.ask(b"//a%2f?q=1", b"GET", (b"x-forwarded-for", b"10.0.0.1"), (b"a", b"b"))
    answer = await client.answer(stream)

    assert (answer.status, answer.body, answer.ended) == (200, b"hello", True)
    assert len(answer.all(b"date")) == 1
    seen = pod.requests[0].headers
    assert [name[:1] == b":" for name, _ in seen] == 4 * [True] + 4 * [False]
    assert sorted(seen) == sorted(
        [
            (b":method", b"GET"),
            (b":scheme", b"http"),
            (b":path", b"//a%2f?q=1"),
            (b":authority", pod.endpoint.address.encode()),
            (b"k-proxy-request", b"activator"),
            (b"k-original-host", b"example.com"),
            (b"x-forwarded-for", b"10.0.0.1, 127.0.0.1"),
            (b"a", b"b"),
        ]
    )


async def test_trailers_pass_both_ways(http2):
    def answer(peer: Peer, stream: int, message: Message) -> None:
        if message.ended:
            peer.headers(stream, [(b":status", b"200")])
            peer.data(stream, message.body)
            peer.headers(stream, [(b"grpc-status", b"0"), (b"t-bin", b"AAE")], end=True)

    pod = await http2.serving()
    pod.on_message = answer
    client = await http2.client()
    stream = client.ask(b"/", b"POST", (b"te", b"trailers"), end=False)
    client.data(stream, b"ping")
    client.headers(stream, [(b"x-checksum", b"1")], end=True)
    answered = await client.answer(stream)

    assert answered.body == b"ping"
    assert answered.trailers == [(b"grpc-status", b"0"), (b"t-bin", b"AAE")]
    assert pod.requests[0].trailers == [(b"x-checksum", b"1")]
    assert pod.requests[0].all(b"te") == [b"trailers"]


async def test_many_streams_share_a_connection_to_the_pod(http2):
    pod = await http2.serving()
    client = await http2.client()
    streams = [client.ask(b"/%d" % number) for number in range(50)]
    for stream in streams:
        assert (await client.answer(stream)).body == b"hello"
    assert len(pod.connections) == 1


@both_loops
async def test_both_sides_stream_at_once(http2):
    def echo_pieces(peer: Peer, stream: int, message: Message) -> None:
        if message.headers and not message.body:
            peer.headers(stream, [(b":status", b"200")])
        elif message.body:
            message.body, body = b"", message.body
            peer.data(stream, body)

    pod = await http2.serving()
    pod.on_message = echo_pieces
    client = await http2.client()
    stream = client.ask(b"/", b"POST", end=False)
    for number in range(100):
        client.data(stream, b"%03d" % number)
        await until(lambda: len(client.messages.get(stream, Message()).body) >= 3 * (number + 1))  # noqa: B023 # awaited in its turn
    client.h2.reset_stream(stream, ErrorCode.CANCEL)
    client.flush()
    await until(lambda: pod.requests[0].reset == ErrorCode.CANCEL)
    assert http2.world.counters().outcomes["cancelled"] == 1


async def test_a_request_waits_for_a_pod_with_its_body(http2):
    pod = await http2.pod()
    http2.list()
    client = await http2.client()
    stream = client.ask(b"/", b"POST", end=False)
    client.data(stream, b"held", end=True)
    await until(lambda: http2.world.waiting == 1)
    http2.list(pod)
    assert (await client.answer(stream)).body == b"hello"
    assert pod.requests[0].body == b"held"


@both_loops
async def test_a_client_that_resets_leaves_the_queue(http2):
    http2.list()
    client = await http2.client()
    stream = client.ask()
    await until(lambda: http2.world.waiting == 1)
    client.h2.reset_stream(stream)
    client.flush()
    await until(lambda: http2.world.waiting == 0)


@both_loops
@pytest.mark.parametrize("size", [64 << 10, 400 << 10])
async def test_large_bodies_pass_whole_both_ways(http2, size):
    pod = await http2.serving()
    pod.on_message = echo
    client = await http2.client()
    body = bytes(range(256)) * (size // 256)
    stream = client.ask(b"/", b"PUT", (b"content-length", b"%d" % size), end=False)
    client.data(stream, body, end=True)
    assert (await client.answer(stream)).body == body


@both_loops
async def test_a_pod_is_stopped_by_a_client_that_does_not_read(http2):
    def endless(peer: Peer, stream: int, message: Message) -> None:
        if message.ended:
            peer.headers(stream, [(b":status", b"200")])
            peer.data(stream, bytes(4 << 20), end=True)

    pod = await http2.serving()
    pod.on_message = endless
    client = await http2.client()
    client.reads = False
    slow = client.ask()
    await until(lambda: len(client.messages.get(slow, Message()).body) == 65535)
    left = [left for left, _ in pod.connections[0].unsent.values()]
    # The client's window, and the pod's own.
    assert len(left[0]) >= (4 << 20) - 65535 - (64 << 10)

    # Other streams on both connections continue.
    pod.on_message = answer_hello
    other = await http2.client()
    assert (await other.answer(other.ask())).body == b"hello"
    client.h2.reset_stream(slow)
    client.flush()


# -- when something fails ------------------------------------------------------------------------


async def test_a_refused_stream_is_sent_again_whatever_its_method(http2):
    def refuse_once(peer: Peer, stream: int, message: Message) -> None:
        if message.ended and len(pod.requests) == 1:
            peer.h2.reset_stream(stream, ErrorCode.REFUSED_STREAM)
            peer.flush()
        else:
            answer_hello(peer, stream, message)

    pod = await http2.serving()
    pod.on_message = refuse_once
    client = await http2.client()
    stream = client.ask(b"/", b"POST", end=False)
    client.data(stream, b"once", end=True)
    answer = await client.answer(stream)
    assert answer.status == 200
    assert answer.all(b"activator-attempts") == [b"2"]
    assert [seen.body for seen in pod.requests] == [b"once", b"once"]


@both_loops
async def test_a_goaway_counts_where_the_pod_resets_the_connection_behind_it(http2):
    """The proxy may notice the reset as it writes the next request."""
    pod = await http2.serving()
    client = await http2.client()
    assert (await client.answer(client.ask())).status == 200
    (tracker,) = http2.world.revision().backends.pods.values()
    pool = http2.world.pools.of(tracker)
    pool.shared[0].link.transport.pause_reading()  # the proxy notices later events only by a write
    (peer,) = pod.connections
    pod.on_message = lambda *_: None
    refused = client.ask(b"/refused", b"POST")
    await until(lambda: 3 in peer.messages)
    pod.on_message = answer_hello
    peer.h2.close_connection(last_stream_id=1)
    peer.flush()
    sock = peer.transport.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.transport.abort()
    await until(lambda: peer.lost)
    await turns()
    later = client.ask(b"/later", b"POST")
    assert (await client.answer(refused)).status == 200
    assert (await client.answer(later)).status == 200


@both_loops
async def test_what_a_pod_resets_before_its_response_is_502_and_after_it_is_broken_off(http2):
    def reset(peer: Peer, stream: int, message: Message) -> None:
        if message.ended and message.reset is None:
            if message.all(b":path") == [b"/late"]:
                peer.headers(stream, [(b":status", b"200")])
            peer.h2.reset_stream(stream, ErrorCode.ENHANCE_YOUR_CALM)
            peer.flush()

    pod = await http2.serving()
    pod.on_message = reset
    client = await http2.client()
    answer = await client.answer(client.ask(b"/early"))
    assert (answer.status, answer.all(b"activator-reason")[0][:15]) == (502, b"upstream-failed")
    # As the pod has done it: a gRPC client makes RESOURCE_EXHAUSTED of this.
    late = await client.answer(client.ask(b"/late"))
    assert (late.status, late.reset) == (200, ErrorCode.ENHANCE_YOUR_CALM)


@pytest.mark.untraced
@pytest.mark.parametrize(
    ("method", "code", "status", "sent"),
    [
        (b"GET", ErrorCode.INTERNAL_ERROR, 200, 2),
        (b"GET", ErrorCode.CANCEL, 200, 2),
        (b"GET", ErrorCode.ENHANCE_YOUR_CALM, 502, 1),
        (b"POST", ErrorCode.INTERNAL_ERROR, 502, 1),
    ],
)
async def test_what_a_pod_resets_before_its_response_is_sent_again_where_it_may_be(
    http2, method, code, status, sent
):
    def reset(peer: Peer, stream: int, message: Message) -> None:
        if message.ended:
            peer.h2.reset_stream(stream, code)
            peer.flush()
            pod.on_message = answer_hello

    pod = await http2.serving()
    pod.on_message = reset
    client = await http2.client()
    answer = await client.answer(client.ask(b"/", method))
    assert (answer.status, len(pod.requests)) == (status, sent)
    assert http2.world.revision().statistics().healthy == 1


async def test_a_response_that_is_not_as_long_as_it_says_is_broken_off(http2):
    def lie(peer: Peer, stream: int, message: Message) -> None:
        if message.ended:
            peer.headers(stream, [(b":status", b"200"), (b"content-length", b"9")])
            peer.data(stream, b"short", end=True)

    pod = await http2.serving()
    pod.on_message = lie
    client = await http2.client()
    assert (await client.answer(client.ask())).reset == ErrorCode.INTERNAL_ERROR


# -- gRPC ----------------------------------------------------------------------------------------


async def test_own_responses_have_grpcs_form_for_grpc(http2):
    client = await http2.client()
    answer = await client.answer(client.ask(b"/s/m", b"POST", GRPC))
    assert answer.status == 404
    assert answer.all(b"grpc-status") == [b"12"]
    assert answer.all(b"grpc-message")[0].startswith(b"unknown-revision")
    assert answer.all(b"content-type") == [b"application/grpc"]
    assert (answer.body, answer.ended) == (b"", True)


@both_loops
@pytest.mark.parametrize(
    ("more", "reset", "trailers"),
    [
        ((), ErrorCode.INTERNAL_ERROR, []),
        (
            (GRPC,),
            None,
            [
                (b"grpc-status", b"14"),
                (b"grpc-message", b"upstream-failed; the response had begun"),
            ],
        ),
    ],
)
async def test_a_response_that_breaks_off_is_not_taken_for_whole(http2, more, reset, trailers):
    def begin(peer: Peer, stream: int, message: Message) -> None:
        if message.ended:
            peer.headers(stream, [(b":status", b"200")])
            peer.data(stream, b"half")

    pod = await http2.serving()
    pod.on_message = begin
    client = await http2.client()
    stream = client.ask(b"/s/m", b"POST", *more)
    await until(lambda: client.messages.get(stream, Message()).body == b"half")
    pod.connections[0].transport.abort()
    answer = await client.answer(stream)
    assert (answer.status, answer.reset, answer.trailers) == (200, reset, trailers)
    assert http2.world.counters().outcomes["upstream-failed"] == 1
    assert http2.world.in_flight == 0


@in_virtual_time
async def test_grpc_gets_its_time_out_in_the_middle_of_a_response(http2):
    def begin(peer: Peer, stream: int, message: Message) -> None:
        if message.ended:
            peer.headers(stream, [(b":status", b"200")])

    pod = await http2.serving(timeout=300)
    pod.on_message = begin
    client = await http2.client()
    stream = client.ask(b"/s/m", b"POST", GRPC, (b"grpc-timeout", b"50m"))
    await until(lambda: stream in client.messages)
    await http2.world.clock_moves(0.06)
    assert dict((await client.answer(stream)).trailers)[b"grpc-status"] == b"4"
    await until(lambda: pod.requests[0].reset == ErrorCode.CANCEL)


@in_virtual_time
async def test_a_grpc_timeout_ends_the_wait(http2):
    http2.list(timeout=300)
    client = await http2.client()
    before = http2.world.now()
    stream = client.ask(b"/s/m", b"POST", GRPC, (b"grpc-timeout", b"50m"))
    await until(lambda: http2.world.waiting == 1)
    await http2.world.clock_moves(0.06)
    answer = await client.answer(stream)
    assert http2.world.now() - before < 5
    assert (answer.status, answer.all(b"grpc-status")) == (504, [b"4"])


@in_virtual_time
async def test_a_grpc_timeout_is_named_where_it_ends_a_request(http2):
    pod = await http2.serving()
    pod.on_message = lambda *_: None
    client = await http2.client()
    stream = client.ask(b"/s/m", b"POST", GRPC, (b"grpc-timeout", b"50m"))
    await until(lambda: pod.requests and pod.requests[0].ended)
    await http2.world.clock_moves(0.06)
    answer = await client.answer(stream)
    assert answer.all(b"grpc-message") == [b"response-late; grpc-timeout 0.05s"]
    await until(lambda: pod.requests[0].reset == ErrorCode.CANCEL)


async def test_what_no_pod_is_asked_for_a_probe(http2: Http2World):
    client = await http2.client()
    answer = await client.answer(client.ask(b"/", b"GET", (b"k-network-probe", b"activator")))
    assert (answer.status, answer.body) == (200, b"activator")
    answer = await client.answer(client.ask(b"/", b"GET", (b"user-agent", b"kube-probe/1.30")))
    assert answer.status == 200


@both_loops
async def test_who_sends_all_before_it_reads_gets_an_early_response_larger_than_its_window(http2):
    def stop(peer: Peer, stream: int, message: Message) -> None:
        peer.reads = False

    pod = await http2.serving()
    pod.on_message = stop
    client = await http2.client(window=1000)
    client.reads = False
    stream = client.ask(b"/", b"POST", end=False)
    client.data(stream, bytes(4 * STREAM_WINDOW), end=True)
    # The pod has one window, and half of another waits for it.
    await until(lambda: len(client.unsent[stream][0]) <= 5 * STREAM_WINDOW // 2)
    (peer,) = pod.connections
    peer.headers(1, [(b":status", b"413")])
    peer.data(1, bytes(5000), end=True)
    await until(lambda: stream not in client.unsent)
    client.h2.increment_flow_control_window(5000, stream)
    client.flush()
    assert len((await client.answer(stream)).body) == 5000


@both_loops
@pytest.mark.parametrize("turn", [0, 1, 10])
async def test_no_pod_gets_the_request_of_a_client_that_left(http2, turn):
    pod = await http2.pod()
    http2.list()
    client = await http2.client()
    for _ in range(20):
        client.ask()
    await until(lambda: http2.world.waiting == 20)
    fd = os.dup(client.transport.get_extra_info("socket").fileno())
    with socket.socket(fileno=fd) as sock:
        sock.shutdown(socket.SHUT_RDWR)  # in the kernel: no callback has run

    await turns(turn)
    http2.list(pod)
    await http2.world.clock_moves(0.1)

    await http2.world.idle()
    assert not pod.requests


@pytest.mark.untraced
async def test_requests_with_one_key_go_to_one_pod(http2):
    pods = [await http2.pod() for _ in range(3)]
    http2.list(*pods, policies=Policies("hash", HashKey(b"x-user")))
    await until(lambda: http2.world.revision().statistics().healthy == 3)
    for _ in range(2):
        client = await http2.client()
        for user in range(40):
            stream = client.ask(b"/%d" % user, b"GET", (b"x-user", b"user-%d" % user))
            assert (await client.answer(stream)).status == 200
    seen = [[dict(request.headers)[b":path"] for request in pod.requests] for pod in pods]
    seen = [[path for path in paths if path != b"/healthz"] for paths in seen]
    assert all(paths[: len(paths) // 2] * 2 == paths for paths in seen)
    assert all(seen)
    assert sum(map(len, seen)) == 80


async def test_requests_with_a_cookie_or_of_a_session_stay_at_their_pod(http2):
    """A browser may send its cookies as several fields (RFC 9113 section 8.2.3)."""
    pods = [await http2.pod() for _ in range(3)]
    http2.list(*pods, policies=Policies(sticky=HashKey(kind=KeyKind.COOKIE)))
    await until(lambda: http2.world.revision().statistics().healthy == 3)
    client = await http2.client()
    first = await client.answer(client.ask(b"/first"))
    fields = dict(first.headers)
    cookie = fields[b"set-cookie"].partition(b";")[0]
    assert cookie.startswith(b"activator-pod=")
    for _ in range(4):
        stream = client.ask(b"/again", b"GET", (b"cookie", b"theme=dark"), (b"cookie", cookie))
        again = await client.answer(stream)
        assert (again.status, dict(again.headers).get(b"set-cookie")) == (200, None)
    paths = [[dict(request.headers)[b":path"] for request in pod.requests] for pod in pods]
    assert sorted(len([p for p in each if p != b"/healthz"]) for each in paths) == [0, 0, 5]


async def test_the_calls_of_a_grpc_session_stay_at_the_pod_that_began_it(http2):
    """The initial metadata of the first response names the session."""

    def answer(peer: Peer, stream: int, message: Message) -> None:
        if not message.ended:
            return
        begun = [] if message.all(b"x-session") else [(b"x-session", b"session-1")]
        peer.headers(stream, [(b":status", b"200"), GRPC, *begun])
        peer.data(stream, message.body)
        peer.headers(stream, [(b"grpc-status", b"0")], end=True)

    pods = [await http2.pod() for _ in range(3)]
    http2.list(*pods, policies=Policies("round-robin", sticky=HashKey(b"x-session")))
    await until(lambda: http2.world.revision().statistics().healthy == 3)
    for pod in pods:
        pod.on_message = answer
    metadata: list[tuple[bytes, bytes]] = []
    for _ in range(6):
        client = await http2.client()
        stream = client.ask(b"/a.B/C", b"POST", GRPC, *metadata, end=False)
        client.data(stream, b"\0\0\0\0\0", end=True)
        answered = await client.answer(stream)
        assert (answered.body, answered.trailers) == (b"\0\0\0\0\0", [(b"grpc-status", b"0")])
        metadata = metadata or [(b"x-session", answered.all(b"x-session")[0])]
    calls = [[p for p in pod.requests if (b":path", b"/a.B/C") in p.headers] for pod in pods]
    assert sorted(map(len, calls)) == [0, 0, 6]
