"""When the proxy retries a request: the table, and each of its rows with sockets."""

from __future__ import annotations

import itertools

import pytest

from activator.proxy.exchange.request_body import NO_BODY, RequestBody
from activator.proxy.exchange.retry import (
    MAX_REFUSALS,
    MAX_REPEATS,
    RULES,
    Blame,
    Failure,
    Then,
    judge,
    lost,
    may_repeat,
    refused,
)
from activator.proxy.message.fields import HTTP_1_1
from activator.proxy.message.request import Request
from activator.proxy.pods.pool import may_be_lost

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


@pytest.mark.parametrize(("failure", "repeatable"), TABLE)
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
    assert lost(began=answered, reused=reused) is failure


def test_a_pod_that_goes_on_refusing_is_blamed_and_one_on_trial_at_once() -> None:
    assert refused(MAX_REFUSALS, half_open=False) is F.REFUSED
    assert refused(MAX_REFUSALS + 1, half_open=False) is F.REFUSED_STILL
    assert refused(1, half_open=True) is F.REFUSED_STILL


@pytest.mark.parametrize(
    ("method", "may"),
    [
        *((m, True) for m in (b"GET", b"HEAD", b"OPTIONS", b"TRACE", b"PUT", b"DELETE")),
        *((m, False) for m in (b"POST", b"PATCH", b"CONNECT", b"FROB")),
    ],
)
def test_a_method_without_a_second_effect_may_be_repeated(method: bytes, may: bool) -> None:
    bare = Request(method, b"/", HTTP_1_1, b"", {}, b"")
    assert may_repeat(bare, NO_BODY, F.NEW_LOST) is may
    assert may_be_lost(bare) is may


def test_a_key_that_promises_idempotence_does_not_make_a_post_safe() -> None:
    keyed = Request(b"POST", b"/", HTTP_1_1, b"\r\nIdempotency-Key: a", {}, b"")
    assert not may_repeat(keyed, NO_BODY, F.NEW_LOST)


def test_what_is_held_no_more_cannot_be_repeated() -> None:
    put = Request(b"PUT", b"/", HTTP_1_1, b"", {}, b"")
    body = RequestBody(put, 10)
    assert may_repeat(put, body, F.NEW_LOST)
    body.discard()
    assert not may_repeat(put, body, F.NEW_LOST)
