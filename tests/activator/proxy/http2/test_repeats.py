"""When the proxy retries a request in HTTP/2: each row of the table of retries, with sockets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from activator.proxy.exchange.retry import MAX_REFUSALS, MAX_REPEATS, Failure
from activator.proxy.http2.frames import ErrorCode
from tests.activator.proxy.exchange.test_retry import states
from tests.activator.proxy.http2.peers import (
    Http2Pod,
    Http2World,
    Message,
    Peer,
    answer_hello,
)
from tests.activator.proxy.world import until
from tests.conftest import both_loops, in_virtual_time
from throttler.backends import CONSECUTIVE_ERRORS, PANIC_PAUSE

Script = Callable[[Peer, int, Message], None]

GO = [
    (b"content-type", b"text/plain; charset=utf-8"),
    (b"x-content-type-options", b"nosniff"),
]
REFUSED = b"dial tcp 127.0.0.1:8080: connect: connection refused\n"


def says(status: int, text: bytes, *, signed: bool = True, cut: int = 0) -> Script:
    """Respond so; ``signed``: as Go's http.Error does; ``cut``: its last bytes by themselves."""

    def answer(peer: Peer, stream: int, message: Message) -> None:
        if not message.ended:
            return
        length = (b"content-length", b"%d" % len(text))
        fields = [(b":status", b"%d" % status), length, *(GO if signed else [])]
        if message.all(b":method") == [b"HEAD"]:
            peer.headers(stream, fields, end=True)
            return
        peer.headers(stream, fields)
        if cut:
            peer.data(stream, text[:-cut])
        peer.data(stream, text[-cut:] if cut else text, end=True)

    return answer


NOT_THERE = says(502, REFUSED)
FULL = says(503, b"pending request queue full\n")
CUT_OFF = says(502, b"EOF\n")
APP_503 = says(503, b"later", signed=False)


def at_end(then: Callable[[Peer, int], object]) -> Script:
    """Do that with each whole request."""

    def script(peer: Peer, stream: int, message: Message) -> None:
        if message.ended and message.reset is None:
            then(peer, stream)
            if not peer.transport.is_closing():
                peer.flush()

    return script


async def pods_of(http2: Http2World, count: int, **spec: Any) -> list[Http2Pod]:
    """Return a revision of that many healthy pods, in the order of their first requests."""
    pods = [await http2.pod() for _ in range(count)]
    http2.list(*pods, **{"container_concurrency": 1} | spec)
    await until(lambda: http2.world.revision().statistics().healthy == count)
    return sorted(pods, key=lambda pod: pod.endpoint)


async def ask(http2: Http2World, method: bytes = b"GET", body: bytes = b"") -> Message:
    """Send one request on a new connection; return its response."""
    client = await http2.client()
    stream = client.ask(b"/x", method, end=not body)
    if body:
        client.data(stream, body, end=True)
    return await client.answer(stream)


def attempts(answer: Message) -> list[bytes]:
    return answer.all(b"activator-attempts")


def die(peer: Peer, stream: int) -> None:
    peer.transport.abort()


def refuse(peer: Peer, stream: int) -> None:
    peer.h2.reset_stream(stream, ErrorCode.REFUSED_STREAM)


def leave(peer: Peer, stream: int) -> None:
    peer.h2.close_connection(0, last_stream_id=0)


def give_up(peer: Peer, stream: int) -> None:
    peer.h2.reset_stream(stream, ErrorCode.INTERNAL_ERROR)


def begin_and_die(peer: Peer, stream: int) -> None:
    peer.headers(stream, [(b":status", b"200")])
    peer.transport.close()


#: By failure: how the first pod fails, and whether a GET and a POST get a second pod's response.
TABLE: dict[Failure, list[tuple[Script, bool, bool]]] = {
    Failure.NEW_LOST: [(at_end(die), True, False)],
    Failure.REFUSED: [(at_end(refuse), True, True), (at_end(leave), True, True)],
    Failure.UNTOUCHED: [(NOT_THERE, True, True), (FULL, True, True)],
    Failure.APPLICATION_LOST: [(CUT_OFF, True, False)],
    Failure.STREAM_LOST: [(at_end(give_up), True, False)],
    Failure.RESPONSE_LOST: [(at_end(begin_and_die), False, False)],
}
ROWS = [(failure, *row) for failure, rows in TABLE.items() for row in rows]


def test_each_failure_is_met_in_this_file() -> None:
    elsewhere = {
        Failure.NO_CONNECTION,
        Failure.REUSED_LOST,
        Failure.REFUSED_STILL,
    }  # below, for they need more
    assert set(TABLE) | elsewhere == set(Failure)


@pytest.mark.parametrize("method", [b"GET", b"POST"])
@pytest.mark.parametrize(("failure", "script", "get", "post"), ROWS)
async def test_what_follows_from_a_failure(http2, failure, script, get, post, method):
    first, second = await pods_of(http2, 2)
    first.on_message = script
    answer = await ask(http2, method, b"body" if method == b"POST" else b"")
    again = get if method == b"GET" else post
    assert ((answer.status, answer.reset) == (200, None)) is again
    assert attempts(answer) == ([b"2"] if again else [])
    assert [seen.body for seen in second.requests] == [seen.body for seen in first.requests] * again
    assert len(first.requests) == 1


@both_loops
@pytest.mark.parametrize("method", [b"GET", b"POST"])
async def test_a_pod_without_a_listener_has_nothing_of_any_method(http2, method):
    first, second = await pods_of(http2, 2)
    first.close()
    answer = await ask(http2, method)
    assert (answer.status, attempts(answer)) == (200, [b"2"])
    assert http2.world.counters().requeues == {"connect-failed": 1}
    assert len(second.requests) == 1


@both_loops
@pytest.mark.parametrize(("method", "status"), [(b"GET", 200), (b"POST", 502)])
async def test_a_connection_that_was_kept_and_ends_says_nothing_of_its_pod(http2, method, status):
    (pod,) = await pods_of(http2, 1)
    assert (await ask(http2)).status == 200
    pod.on_message = lambda peer, stream, message: (
        at_end(die) if peer is pod.connections[0] else answer_hello
    )(peer, stream, message)
    assert (await ask(http2, method)).status == status
    assert states(http2.world) == ["healthy"]
    assert http2.world.counters().requeues == ({"connection-closed": 1} if status == 200 else {})


async def passes(http2: Http2World, seconds: float) -> float:
    """Let time pass in pieces, as probes need it; return how much has."""
    began = http2.world.now()
    for _ in range(round(seconds / 0.005)):
        await http2.world.clock_moves(0.005)
    return http2.world.now() - began


@in_virtual_time
@pytest.mark.parametrize("gesture", [refuse, leave], ids=["refuse", "leave"])
async def test_a_pod_that_goes_on_refusing_is_asked_at_a_pace_until_it_takes_requests(
    http2, gesture
):
    (pod,) = await pods_of(http2, 1, timeout=300)
    pod.on_message = at_end(gesture)
    client = await http2.client()
    stream = client.ask(b"/x", b"POST", end=False)
    client.data(stream, b"once", end=True)
    at_once = MAX_REFUSALS + 1
    await until(lambda: http2.world.waiting == 1 and len(pod.requests) == at_once)
    assert states(http2.world) == ["probing"]
    passed = await passes(http2, 0.5)
    assert 5 < len(pod.requests) - at_once <= 1 + passed / PANIC_PAUSE
    pod.on_message = answer_hello
    await passes(http2, 4 * PANIC_PAUSE)
    assert (await client.answer(stream)).status == 200
    assert {request.body for request in pod.requests} == {b"once"}


@in_virtual_time
async def test_a_pod_that_refuses_for_ever_costs_no_more_than_the_time_there_is(http2):
    (pod,) = await pods_of(http2, 1, timeout=0.3)
    pod.on_message = at_end(refuse)
    client = await http2.client()
    stream = client.ask()
    await until(lambda: http2.world.waiting == 1)
    await passes(http2, 0.4)
    answer = await client.answer(stream)
    assert (answer.status, http2.world.counters().outcomes["timed-out"]) == (504, 1)


async def test_requests_that_are_all_refused_wait_together_and_one_is_tried(http2):
    (pod,) = await pods_of(http2, 1, container_concurrency=0, timeout=300)
    pod.on_message = at_end(refuse)
    client = await http2.client()
    streams = [client.ask(b"/", b"POST") for _ in range(20)]
    await until(lambda: http2.world.waiting == 20)
    before = len(pod.requests)
    assert before <= 20 * (MAX_REFUSALS + 1)
    passed = await passes(http2, 0.2)
    assert len(pod.requests) - before <= 1 + passed / PANIC_PAUSE
    pod.on_message = answer_hello
    await passes(http2, 4 * PANIC_PAUSE)
    assert [(await client.answer(stream)).status for stream in streams] == [200] * 20


async def test_a_pod_that_says_goodbye_all_the_time_loses_no_request(http2):
    def one_each(peer: Peer, stream: int, message: Message) -> None:
        if message.ended and peer.goaway is None:
            peer.goaway = (stream, 0)
            answer_hello(peer, stream, message)
            peer.h2.close_connection(0, last_stream_id=stream)
            peer.flush()

    (pod,) = await pods_of(http2, 1, container_concurrency=0)
    pod.on_message = one_each
    client = await http2.client()
    streams = [client.ask(b"/", b"POST") for _ in range(20)]
    answers = [await client.answer(stream) for stream in streams]
    assert [answer.status for answer in answers] == [200] * 20
    assert states(http2.world) == ["healthy"]


async def test_a_pod_that_takes_fewer_streams_than_it_says_is_asked_for_no_more(http2):
    def two_each(peer: Peer, stream: int, message: Message) -> None:
        if message.ended and message.reset is None:
            had = [m for m in peer.messages.values() if m.ended and m.reset is None]
            if len(had) <= 2:
                held.append((peer, stream, message))
            else:
                message.reset = ErrorCode.REFUSED_STREAM
                refuse(peer, stream)
                peer.flush()

    held: list[tuple[Peer, int, Message]] = []
    (pod,) = await pods_of(http2, 1, container_concurrency=0)
    pod.on_message = two_each
    client = await http2.client()
    streams = [client.ask() for _ in range(20)]
    await until(lambda: len(held) == 20)
    for request in held:
        answer_hello(*request)
    assert [(await client.answer(stream)).status for stream in streams] == [200] * 20
    assert len(pod.requests) == 20 + 18
    assert states(http2.world) == ["healthy"]


async def test_a_requeued_request_keeps_its_body(http2):
    first, second = await pods_of(http2, 2)
    first.on_message = NOT_THERE
    answer = await ask(http2, b"PUT", b"small body")
    assert (answer.status, second.requests[0].body) == (200, b"small body")
    assert http2.world.counters().requeues == {"untouched": 1}
    assert states(http2.world) == ["healthy", "probing"]


async def test_a_post_that_is_held_no_more_gets_the_response_and_its_pod_is_ejected(http2):
    first, second = await pods_of(http2, 2)
    first.on_message = NOT_THERE
    answer = await ask(http2, b"POST", bytes(100_000))
    assert (answer.status, answer.body) == (502, REFUSED)
    assert not answer.all(b"activator-reason")
    assert not second.requests
    assert states(http2.world) == ["healthy", "probing"]


@pytest.mark.parametrize("cut", [1, 20])
async def test_a_refusal_in_pieces_is_served_by_another_pod_too(http2, cut):
    first, _ = await pods_of(http2, 2)
    first.on_message = says(502, REFUSED, cut=cut)
    assert (await ask(http2)).status == 200


async def test_a_response_of_the_application_in_pieces_passes_on_whole(http2):
    first, _ = await pods_of(http2, 2)
    text = b"dial tcp 10.0.0.7:5432: connect: connection refused\n"
    first.on_message = says(502, text, cut=20)
    answer = await ask(http2)
    assert (answer.status, answer.body, answer.ended) == (502, text, True)


@both_loops
async def test_a_withheld_response_that_breaks_off_is_no_response(http2):
    def breaks_off(peer: Peer, stream: int) -> None:
        peer.headers(stream, [(b":status", b"502"), (b"content-length", b"53"), *GO])
        peer.h2.reset_stream(stream, ErrorCode.INTERNAL_ERROR)

    first, _ = await pods_of(http2, 2)
    first.on_message = at_end(breaks_off)
    answer = await ask(http2)
    assert (answer.status, answer.all(b"activator-reason")[0][:15]) == (502, b"upstream-failed")


@pytest.mark.parametrize("script", [NOT_THERE, FULL, CUT_OFF], ids=["not-there", "full", "cut-off"])
async def test_another_pod_serves_a_head_request_that_queue_proxy_refused(http2, script):
    first, second = await pods_of(http2, 2)
    first.on_message = script
    second.on_message = at_end(lambda peer, s: peer.headers(s, [(b":status", b"200")], end=True))
    answer = await ask(http2, b"HEAD")
    assert (answer.status, attempts(answer)) == (200, [b"2"])


async def test_a_pod_that_responds_before_the_end_of_the_body_does_not_get_the_rest(http2):
    def at_once(peer: Peer, stream: int, message: Message) -> None:
        if message.body and not message.over and stream not in peer.unsent:
            peer.on_message = lambda *_: None
            message.ended = True
            NOT_THERE(peer, stream, message)
            message.ended = False

    first, second = await pods_of(http2, 2)
    first.on_message = at_once
    client = await http2.client()
    stream = client.ask(b"/x", b"PUT", end=False)
    client.data(stream, b"first")
    await until(lambda: second.requests and second.requests[0].body == b"first")
    await until(lambda: first.requests[0].reset == ErrorCode.NO_ERROR)
    client.data(stream, b"after", end=True)
    assert (await client.answer(stream)).status == 200
    assert second.requests[0].body == b"firstafter"


async def test_a_request_that_ends_every_application_is_given_up_and_harms_no_pod(http2):
    pods = await pods_of(http2, 4)
    for pod in pods:
        pod.on_message = CUT_OFF
    answer = await ask(http2)
    assert (answer.status, answer.body, attempts(answer)) == (502, b"EOF\n", [b"4"])
    assert [len(pod.requests) for pod in pods] == [1] * 4
    assert states(http2.world) == ["healthy"] * 4


async def test_behind_the_cluster_ip_a_request_is_requeued_a_few_times_at_most(http2):
    (pod,) = await pods_of(http2, 1)
    pod.on_message = NOT_THERE
    (tracker,) = http2.world.revision().backends.pods.values()
    tracker.is_service = True
    answer = await ask(http2)
    assert (answer.status, answer.body) == (502, REFUSED)
    assert len(pod.requests) == 1 + MAX_REPEATS


async def test_behind_the_cluster_ip_a_request_is_refused_a_few_times_at_most(http2):
    (pod,) = await pods_of(http2, 1)
    pod.on_message = at_end(refuse)
    (tracker,) = http2.world.revision().backends.pods.values()
    tracker.is_service = True
    answer = await ask(http2)
    assert answer.status == 502
    assert b"REFUSED_STREAM" in answer.body
    assert len(pod.requests) == 1 + MAX_REFUSALS


@in_virtual_time
async def test_a_pod_with_only_error_responses_is_ejected_until_its_next_probe(http2):
    ill, _ = await pods_of(http2, 2)
    ill.on_message = APP_503
    answers = [(await ask(http2)).status for _ in range(CONSECUTIVE_ERRORS + 5)]
    assert answers == [503] * CONSECUTIVE_ERRORS + [200] * 5
    assert states(http2.world) == ["healthy", "probing"]
    ill.on_message = answer_hello
    await http2.world.clock_moves(0.11)
    assert states(http2.world) == ["healthy", "healthy"]


async def test_good_responses_between_bad_ones_keep_a_pod(http2):
    pod, _ = await pods_of(http2, 2)
    for _ in range(4):
        pod.on_message = APP_503
        for _ in range(CONSECUTIVE_ERRORS - 1):
            assert (await ask(http2)).status == 503
        pod.on_message = answer_hello
        assert (await ask(http2)).status == 200
    assert states(http2.world) == ["healthy", "healthy"]
