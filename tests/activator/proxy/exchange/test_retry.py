"""Which failed attempts are made again, and which pods are to blame."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from activator.proxy.exchange.exchange import NO_BODY, RequestBody
from activator.proxy.exchange.retry import (
    MAX_REFUSALS,
    MAX_REPEATS,
    RULES,
    Blame,
    Failure,
    Then,
    claim_of,
    is_repeatable,
    judge,
    lost,
    own_failure,
    refused,
)
from activator.proxy.exchange.sides import Progress
from activator.proxy.message.fields import HTTP_1_1
from activator.proxy.message.request import Request
from activator.proxy.message.response import read_response
from activator.proxy.pods.pool import may_be_lost
from activator.records.counters import CAUSES
from tests.activator.proxy.world import (
    Pod,
    PodConnection,
    World,
    about,
    answer_whole,
    ok,
    request,
    until,
)
from tests.conftest import both_loops, in_virtual_time
from tests.rows import in_one_test, pairwise
from throttler.backends import CONSECUTIVE_ERRORS, PANIC_PAUSE
from throttler.pod import PodState
from throttler.throttler import Limits

F, T, B = Failure, Then, Blame

#: By failure and whether a repeat is allowed: the first step, and the step after a counted failure.
TABLE: dict[tuple[Failure, bool], tuple[tuple[Then, Blame], tuple[Then, Blame]]] = {
    (F.NO_CONNECTION, True): ((T.REQUEUE, B.UNREACHABLE), (T.REQUEUE, B.UNREACHABLE)),
    (F.NO_CONNECTION, False): ((T.REQUEUE, B.UNREACHABLE), (T.REQUEUE, B.UNREACHABLE)),
    (F.REUSED_LOST, True): ((T.SAME_POD, B.NONE), (T.SAME_POD, B.NONE)),
    (F.REUSED_LOST, False): ((T.PASS_ON, B.NONE), (T.PASS_ON, B.NONE)),
    (F.NEW_LOST, True): ((T.REQUEUE, B.UNREACHABLE), (T.REQUEUE, B.NONE)),
    (F.NEW_LOST, False): ((T.PASS_ON, B.UNREACHABLE), (T.PASS_ON, B.NONE)),
    (F.REFUSED, True): ((T.REQUEUE, B.NONE), (T.REQUEUE, B.NONE)),
    (F.REFUSED, False): ((T.PASS_ON, B.NONE), (T.PASS_ON, B.NONE)),
    (F.REFUSED_STILL, True): ((T.REQUEUE, B.RESPONSE), (T.REQUEUE, B.RESPONSE)),
    (F.REFUSED_STILL, False): ((T.PASS_ON, B.RESPONSE), (T.PASS_ON, B.RESPONSE)),
    (F.UNTOUCHED, True): ((T.REQUEUE, B.RESPONSE), (T.REQUEUE, B.RESPONSE)),
    (F.UNTOUCHED, False): ((T.PASS_ON, B.RESPONSE), (T.PASS_ON, B.RESPONSE)),
    (F.APPLICATION_LOST, True): ((T.REQUEUE, B.RESPONSE), (T.REQUEUE, B.NONE)),
    (F.APPLICATION_LOST, False): ((T.PASS_ON, B.RESPONSE), (T.PASS_ON, B.NONE)),
    (F.STREAM_LOST, True): ((T.REQUEUE, B.RESPONSE), (T.REQUEUE, B.NONE)),
    (F.STREAM_LOST, False): ((T.PASS_ON, B.RESPONSE), (T.PASS_ON, B.NONE)),
    (F.RESPONSE_LOST, True): ((T.PASS_ON, B.RESPONSE), (T.PASS_ON, B.RESPONSE)),
    (F.RESPONSE_LOST, False): ((T.PASS_ON, B.RESPONSE), (T.PASS_ON, B.RESPONSE)),
}


def test_the_table_of_this_test_asks_for_every_row() -> None:
    assert set(TABLE) == set(itertools.product(Failure, (True, False)))
    assert set(RULES) == set(Failure)


@in_one_test(("failure", "repeatable"), TABLE)
def test_each_failure_has_one_outcome(failure: Failure, repeatable: bool) -> None:
    first, later = TABLE[failure, repeatable]
    assert judge(failure, repeatable=repeatable, repeats=0) == first
    assert judge(failure, repeatable=repeatable, repeats=1) == later


def test_only_what_a_pod_had_in_its_hands_is_counted_against_the_bound() -> None:
    def then(failure: Failure, repeats: int) -> Then:
        return judge(failure, repeatable=True, repeats=repeats)[0]

    for failure in (F.REUSED_LOST, F.NEW_LOST, F.APPLICATION_LOST, F.STREAM_LOST):
        assert then(failure, MAX_REPEATS - 1) is not T.PASS_ON
        assert then(failure, MAX_REPEATS) is T.PASS_ON
    for failure in (F.NO_CONNECTION, F.REFUSED, F.REFUSED_STILL, F.UNTOUCHED):
        assert then(failure, MAX_REPEATS + 100) is T.REQUEUE


@pytest.mark.parametrize(
    ("answered", "reused", "failure"),
    [
        (True, True, F.RESPONSE_LOST),
        (True, False, F.RESPONSE_LOST),
        (False, True, F.REUSED_LOST),
        (False, False, F.NEW_LOST),
    ],
)
def test_the_end_of_a_connection(answered: bool, reused: bool, failure: Failure) -> None:
    assert lost(Progress.BEGAN if answered else Progress.SILENT, reused=reused) is failure


def test_a_pod_that_goes_on_refusing_is_blamed_and_one_on_trial_at_once() -> None:
    assert refused(MAX_REFUSALS, half_open=False) is F.REFUSED
    assert refused(MAX_REFUSALS + 1, half_open=False) is F.REFUSED_STILL
    assert refused(1, half_open=True) is F.REFUSED_STILL


@in_one_test(
    ("method", "may"),
    [
        *((m, True) for m in (b"GET", b"HEAD", b"OPTIONS", b"TRACE", b"PUT", b"DELETE")),
        *((m, False) for m in (b"POST", b"PATCH", b"CONNECT", b"FROB")),
    ],
)
def test_a_method_without_a_second_effect_may_be_repeated(method: bytes, may: bool) -> None:
    bare = Request(method, b"/", HTTP_1_1, b"", {}, b"")
    assert is_repeatable(bare, NO_BODY, F.NEW_LOST) is may
    assert may_be_lost(bare) is may


def test_a_key_that_promises_idempotence_does_not_make_a_post_safe() -> None:
    keyed = Request(b"POST", b"/", HTTP_1_1, b"\r\nIdempotency-Key: a", {}, b"")
    assert not is_repeatable(keyed, NO_BODY, F.NEW_LOST)


def test_what_is_held_no_more_cannot_be_repeated() -> None:
    put = Request(b"PUT", b"/", HTTP_1_1, b"", {}, b"")
    body = RequestBody(put, 10)
    assert is_repeatable(put, body, F.NEW_LOST)
    body.discard()
    assert not is_repeatable(put, body, F.NEW_LOST)


F = Failure

GO = b"Content-Type: text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\n"


def own(status: int, text: bytes) -> bytes:
    """Return a response that queue-proxy makes itself."""
    return b"HTTP/1.1 %d X\r\n%bContent-Length: %d\r\n\r\n%b" % (status, GO, len(text), text)


NOT_THERE = own(502, b"dial tcp 127.0.0.1:8080: connect: connection refused\n")
FULL = own(503, b"pending request queue full\n")
CUT_OFF = own(502, b"EOF\n")
APP_503 = b"HTTP/1.1 503 X\r\nContent-Length: 5\r\n\r\nlater"


async def pods_of(world: World, count: int, **spec: Any) -> list[Pod]:
    """Return a revision of that many healthy pods, in the order of their first requests."""
    pods = [await world.pod() for _ in range(count)]
    world.revise(*pods, **{"container_concurrency": 1} | spec)
    await until(lambda: world.revision().statistics().healthy == count)
    return sorted(pods, key=lambda pod: pod.endpoint)


def states(world: World) -> list[str]:
    return sorted(pod.state.value for pod in world.revision().backends.pods.values())


def attempts(answer: Any) -> bytes | None:
    found: bytes | None = answer.get(b"activator-attempts")
    return found


def test_the_responses_of_these_tests_are_classified_as_meant() -> None:
    meant = {NOT_THERE: F.UNTOUCHED, FULL: F.UNTOUCHED, CUT_OFF: F.APPLICATION_LOST, APP_503: None}
    for answer, failure in meant.items():
        head, _, body = answer.partition(b"\r\n\r\n")
        response = read_response(head + b"\r\n\r\n", to_head=False)
        assert own_failure(claim_of(response, bodiless=False), [body]) is failure


@pytest.mark.parametrize("answer", [NOT_THERE, FULL], ids=["not-there", "full"])
@pytest.mark.parametrize(
    "wire",
    [
        request(b"/x"),
        request(b"/x", b"PUT", body=b"small body"),
        request(b"/x", b"POST", body=b"small body"),
        request(b"/x", b"POST", b"Transfer-Encoding: chunked\r\n") + b"5\r\nsmall\r\n0\r\n\r\n",
    ],
    ids=["get", "put", "post", "chunks"],
)
async def test_what_queue_proxy_gives_back_untouched_another_pod_serves(world, wire, answer):
    bare, other = await pods_of(world, 2)
    bare.answer = answer
    other.answer = ok(b"other")

    client = await world.client()
    client.send(wire)
    got = await client.answer()

    assert (got.status, got.body) == (200, b"other")
    assert attempts(got) == b"2"
    assert other.requests[-1].body == bare.requests[-1].body
    assert world.counters().requeues == {"untouched": 1}
    assert states(world) == ["healthy", "probing"]


async def test_a_post_that_is_held_no_more_gets_the_response_and_its_pod_is_ejected(new_world):
    world = await new_world(hold_bytes=1000)
    bare, other = await pods_of(world, 2)
    bare.answer = NOT_THERE

    got = await world.ask(request(b"/x", b"POST", body=bytes(2000)), b"POST")

    assert (got.status, got.body) == (502, NOT_THERE.partition(b"\r\n\r\n")[2])
    assert attempts(got) is None
    assert got.get(b"activator-reason") is None
    assert len(bare.requests) == 1
    assert not other.requests
    assert states(world) == ["healthy", "probing"]


@pytest.mark.parametrize("method", [b"GET", b"POST"])
async def test_a_request_that_the_application_had_when_it_ended_is_repeated_if_it_may(
    world, method
):
    cut, other = await pods_of(world, 2)
    cut.answer = CUT_OFF
    got = await world.ask(request(b"/x", method), method)
    if method == b"GET":
        assert (got.status, attempts(got)) == (200, b"2")
        assert world.counters().requeues == {"application-lost": 1}
    else:
        assert (got.status, got.body, attempts(got)) == (502, b"EOF\n", None)
        assert not other.requests
    assert states(world) == ["healthy", "healthy"], "one such answer says little of a pod"


PIPE = b"write tcp 127.0.0.1:4000->127.0.0.1:8080: write: broken pipe\n"
CLOSED = b"write tcp 127.0.0.1:4000->127.0.0.1:8080: use of closed network connection\n"
COPYING = b"readfrom tcp 127.0.0.1:4000->127.0.0.1:8080: "


@pairwise(
    method=[b"PUT", b"DELETE", b"POST"],
    text=[COPYING + PIPE, COPYING + CLOSED, CLOSED],
    cut=[True, False],
)
async def test_a_body_that_the_application_did_not_take_is_sent_again_if_it_may(
    world, method, text, cut
):
    ending, other = await pods_of(world, 2)
    other.answer = ok(b"other")
    answer = own(502, text)
    at = len(answer) // 2 if cut else len(answer)

    def in_pieces(connection: PodConnection) -> None:
        if connection.requests and connection.requests[-1].whole:
            connection.write(answer[:at])
            world.loop.call_later(0.001, connection.write, answer[at:])

    ending.on_data = in_pieces
    got = await world.ask(request(b"/x", method, body=b"small body"), method)
    if method == b"POST":
        assert (got.status, got.body, attempts(got)) == (502, text, None)
        assert not other.requests
    else:
        assert (got.status, got.body, attempts(got)) == (200, b"other", b"2")
        assert other.requests[-1].body == b"small body"


async def test_a_request_that_ends_every_application_is_given_up_and_harms_no_pod(world):
    pods = await pods_of(world, 4)
    for pod in pods:
        pod.answer = CUT_OFF
    got = await world.ask()
    assert (got.status, got.body, attempts(got)) == (502, b"EOF\n", b"4")
    assert [len(pod.requests) for pod in pods] == [1] * 4
    assert states(world) == ["healthy"] * 4


@in_virtual_time
async def test_the_only_pod_is_asked_until_its_application_is_back(world):
    (pod,) = await pods_of(world, 1, container_concurrency=0)
    pod.answer = NOT_THERE
    world.loop.call_later(1.0, setattr, pod, "answer", ok())
    clients = [await world.client() for _ in range(20)]
    started = world.now()
    for client in clients:
        client.send(request())

    assert [(await client.answer()).status for client in clients] == [200] * 20

    assert world.now() - started < 1.0 + 4 * PANIC_PAUSE
    asked = len(pod.requests) - 20
    assert asked < 20 + 1.0 / PANIC_PAUSE, "each pause one of those that wait is tried"


async def test_no_request_is_shed_while_the_only_pod_refuses_requests(new_world):
    """The time counts as a long start: no request waited for one."""
    world = await new_world(queue=Limits(shed_early=True))
    (pod,) = await pods_of(world, 1, container_concurrency=0, timeout=20.0)
    world.revision().forecast.starts.add(100.0)
    pod.answer = NOT_THERE
    world.loop.call_later(0.3, setattr, pod, "answer", ok())
    clients = [await world.client() for _ in range(30)]
    for client in clients:
        client.send(request())
        await world.clock_moves(0.01)
    assert [(await client.answer()).status for client in clients] == [200] * 30


@in_virtual_time
async def test_a_post_that_waits_behind_a_get_is_not_tried_on_a_pod_without_application(world):
    (pod,) = await pods_of(world, 1, container_concurrency=0)
    pod.answer = NOT_THERE
    get = await world.client()
    get.send(request())
    await until(lambda: world.waiting == 1)
    posts = [await world.client() for _ in range(5)]
    for client in posts:
        client.send(request(b"/", b"POST", body=b"x"))
    world.loop.call_later(0.5, setattr, pod, "answer", ok())

    for client in (get, *posts):
        assert (await client.answer()).status == 200


@in_virtual_time
async def test_a_request_that_is_requeued_all_the_time_ends_at_its_deadline(world):
    (pod,) = await pods_of(world, 1, timeout=1.0)
    pod.answer = NOT_THERE
    started = world.now()

    got = await world.ask()

    assert (got.status, got.body) == (504, b"activator request timeout")
    assert int(attempts(got) or b"0") == len(pod.requests) > 10
    assert world.now() - started == about(1.0, within=0.1)


async def test_behind_the_cluster_ip_a_request_is_requeued_a_few_times_at_most(world):
    """The ClusterIP is never ejected for its responses, so nothing would slow a longer series."""
    (pod,) = await pods_of(world, 1)
    pod.answer = NOT_THERE
    (tracker,) = world.revision().backends.pods.values()
    tracker.is_service = True

    got = await world.ask()

    assert (got.status, got.body) == (
        502,
        b"dial tcp 127.0.0.1:8080: connect: connection refused\n",
    )
    assert len(pod.requests) == 1 + MAX_REPEATS


async def test_a_response_of_the_application_passes_on_and_the_only_pod_stays(world):
    (pod,) = await pods_of(world, 1)
    pod.answer = APP_503
    for _ in range(3 * CONSECUTIVE_ERRORS):
        got = await world.ask()
        assert (got.status, got.body, attempts(got)) == (503, b"later", None)
    assert states(world) == ["healthy"]


@in_virtual_time
async def test_a_pod_with_only_error_responses_is_ejected_until_its_next_probe(world):
    ill, other = await pods_of(world, 2)
    ill.answer = APP_503
    answers = [(await world.ask()).status for _ in range(CONSECUTIVE_ERRORS + 5)]
    assert answers == [503] * CONSECUTIVE_ERRORS + [200] * 5
    assert states(world) == ["healthy", "probing"]
    ill.answer = ok()
    await world.clock_moves(0.11)
    assert states(world) == ["healthy", "healthy"]
    assert (await world.ask()).status == 200
    assert len(ill.requests) == CONSECUTIVE_ERRORS + 1
    assert len(other.requests) == 5


async def test_good_responses_between_bad_ones_keep_a_pod(world):
    pod, _ = await pods_of(world, 2)
    for _ in range(4):
        pod.answer = APP_503
        for _ in range(CONSECUTIVE_ERRORS - 1):
            assert (await world.ask()).status == 503
        pod.answer = ok()
        assert (await world.ask()).status == 200
    assert states(world) == ["healthy", "healthy"]


@pytest.mark.parametrize("cut", [1, 20])
async def test_what_queue_proxy_gives_back_in_pieces_another_pod_serves_too(world, cut):
    bare, _ = await pods_of(world, 2)
    bare.on_data = in_two(world, NOT_THERE, cut)
    assert (await world.ask()).status == 200


async def test_a_response_of_the_application_in_pieces_passes_on_whole(world):
    bare, _ = await pods_of(world, 2)
    text = b"dial tcp 10.0.0.7:5432: connect: connection refused\n"
    bare.on_data = in_two(world, own(502, text), 20)
    answer = await world.ask()
    assert (answer.status, answer.body) == (502, text)


@both_loops
async def test_a_withheld_response_that_breaks_off_is_no_response(world):
    bare, _ = await pods_of(world, 2)

    def breaks_off(connection: PodConnection) -> None:
        connection.write(NOT_THERE[:-20])
        connection.close()

    bare.on_data = breaks_off
    answer = await world.ask()
    assert (answer.status, answer.get(b"activator-reason")[:15]) == (502, b"upstream-failed")


def in_two(world: World, answer: bytes, last: int) -> Callable[[PodConnection], None]:
    """Write all but the last bytes, and the rest a moment later."""

    def slowly(connection: PodConnection) -> None:
        connection.write(answer[:-last])
        world.loop.call_later(0.05, connection.write, answer[-last:])

    return slowly


@pytest.mark.parametrize("answer", [NOT_THERE, FULL, CUT_OFF], ids=["not-there", "full", "cut-off"])
async def test_another_pod_serves_a_head_request_that_queue_proxy_refused(world, answer):
    bare, other = await pods_of(world, 2)
    bare.answer = answer.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
    other.answer = ok().partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
    client = await world.client()
    client.send(request(b"/x", b"HEAD"))
    got = await client.answer(b"HEAD")
    assert (got.status, attempts(got)) == (200, b"2")


UPGRADE = b"Connection: Upgrade\r\nUpgrade: websocket\r\n"


async def test_an_opening_of_a_tunnel_that_no_application_had_another_pod_serves(world):
    bare, _ = await pods_of(world, 2)
    bare.answer = NOT_THERE
    answer = await world.ask(request(fields=UPGRADE))
    assert (answer.status, attempts(answer)) == (200, b"2")


async def test_an_opening_of_a_tunnel_that_an_application_may_have_had_is_not_repeated(world):
    bare, _ = await pods_of(world, 2)
    bare.answer = CUT_OFF
    assert (await world.ask(request(fields=UPGRADE))).status == 502


@in_virtual_time
async def test_no_request_follows_on_a_connection_with_an_unfinished_body(world):
    """The response that ends the half-open time also assigns the next request."""
    (pod,) = await pods_of(world, 1, container_concurrency=0)

    def at_once(connection: PodConnection) -> None:
        if not connection.received.startswith(b"PUT"):
            answer_whole(connection)
        elif not connection.answered:
            connection.answered = 1
            connection.write(answers.pop(0))

    answers = [NOT_THERE, ok()]
    pod.on_data = at_once
    upload, after = await world.client(), await world.client()
    upload.send(request(b"/", b"PUT", fields=b"Content-Length: 1000\r\n") + b"first")
    await until(lambda: world.waiting == 1)
    after.send(request(b"/", b"POST", body=b"x"))
    assert (await upload.answer()).status == 200
    assert (await after.answer(b"POST")).status == 200
    assert [seen.body for seen in pod.requests] == [b"first", b"first", b"x"]


@both_loops
async def test_a_pod_that_responds_before_the_end_of_the_body_does_not_get_the_rest(world):
    bare, other = await pods_of(world, 2)

    def at_once(connection: PodConnection) -> None:
        if b"\r\n\r\n" in connection.received and not connection.answered:
            connection.answered = 1
            connection.write(NOT_THERE)

    bare.on_data = at_once
    client = await world.client()
    client.send(request(b"/x", b"PUT", fields=b"Content-Length: 10\r\n") + b"first")
    await until(lambda: other.connections)
    await until(lambda: bare.connections[0].closed, "its connection waits for the rest of it")
    client.send(b"after")
    assert (await client.answer()).status == 200
    assert other.requests[0].body == b"firstafter"


@both_loops
async def test_a_request_says_how_often_it_was_given_to_a_pod(world):
    gone, lossy, other = await pods_of(world, 3)
    await gone.refuse()
    lossy.on_data = lambda connection: connection.close()
    got = await world.ask()
    assert (got.status, attempts(got)) == (200, b"3")
    assert world.counters().requeues == {"connect-failed": 1, "connection-lost": 1}
    assert set(world.counters().requeues) <= set(CAUSES)
    assert len(other.requests) == 1


async def test_the_own_response_says_it_too(world):
    (pod,) = await pods_of(world, 1)
    pod.on_data = lambda connection: connection.close()
    got = await world.ask()
    assert (got.status, attempts(got)) == (502, b"4")


async def test_a_request_with_one_attempt_gets_the_bytes_of_its_pod(world):
    (pod,) = await pods_of(world, 1)
    pod.answer = ok(b"hello", b"Date: Sat, 21 Nov 2026 22:22:44 GMT\r\n")
    client = await world.client()
    client.send(request())
    await client.answer()
    assert bytes(client.received) == pod.answer


@both_loops
async def test_a_request_that_breaks_every_connection_harms_no_other(world):
    """A request that makes each pod drop its connection is tried a few times, and then fails."""
    pods = await pods_of(world, 4, container_concurrency=10)

    def picky(connection: PodConnection) -> None:
        if connection.requests and connection.requests[-1].target == b"/poison":
            connection.close()
        else:
            answer_whole(connection)

    for pod in pods:
        pod.on_data = picky
    for _ in range(10):
        poison = await world.client()
        poison.send(request(b"/poison"))
        good = [await world.client() for _ in range(8)]
        for client in good:
            client.send(request(b"/good"))
        assert [(await client.answer()).status for client in good] == [200] * 8
        got = await poison.answer()
        assert (got.status, attempts(got)) == (502, b"4")
        await world.in_time(lambda: states(world) == ["healthy"] * 4)
    seen = sum(r.target == b"/poison" for pod in pods for r in pod.requests)
    assert seen == 10 * (1 + MAX_REPEATS)


async def test_a_request_that_breaks_connections_is_held_against_one_pod_at_most(world):
    pods = await pods_of(world, 4)
    for pod in pods:
        pod.on_data = lambda connection: connection.close()
    world.healthy = lambda tracker: False
    assert (await world.ask()).status == 502
    (out,) = [
        pod for pod in world.revision().backends.pods.values() if pod.state is PodState.PROBING
    ]
    assert "closed" in out.probe.error
    assert [len(pod.requests) for pod in pods] == [1] * 4, "another pod each time"
