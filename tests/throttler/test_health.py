"""A pod's life: every pair of state and event, and the time of the next probe."""

from __future__ import annotations

import itertools

import pytest

from throttler import pod
from throttler.pod import (
    TRANSITIONS,
    PodEvent,
    PodState,
    delay_after_not_ready,
    delay_after_tls,
    probe_delay,
    transition,
)

P, H, D, G = PodState.PROBING, PodState.HEALTHY, PodState.DRAINING, PodState.GONE
NEVER = None

#: One row per state, in the order of EVENTS; "+" makes results of older probes void.
EVENTS = [
    PodEvent.LISTED,
    PodEvent.DELISTED,
    PodEvent.BECAME_NOT_READY,
    PodEvent.PROBE_PASSED,
    PodEvent.PROBE_FAILED,
    PodEvent.CONNECT_FAILED,
    PodEvent.EJECTED,
    PodEvent.TRUSTED,
    PodEvent.BYPASSED,
    PodEvent.IDLE,
]
TABLE: dict[PodState, list[tuple[PodState, str] | None]] = {
    P: [NEVER, (D, ""), (P, ""), (H, ""), (P, ""), (P, ""), NEVER, (H, ""), (P, "+"), NEVER],
    H: [NEVER, (D, ""), (P, "+"), (H, ""), *[(P, "+")] * 3, NEVER, (P, "+"), NEVER],
    D: [(P, "+"), NEVER, NEVER, (D, ""), (D, ""), (D, ""), *[NEVER] * 3, (G, "")],
    G: [NEVER] * 10,
}
CELLS = [
    pytest.param(state, event, cell, id=f"{state.value}-{event.value}")
    for state, row in TABLE.items()
    for event, cell in zip(EVENTS, row, strict=True)
]


def test_the_table_of_this_test_asks_for_every_pair() -> None:
    assert {(c.values[0], c.values[1]) for c in CELLS} == set(itertools.product(PodState, PodEvent))


@pytest.mark.parametrize(("state", "event", "cell"), CELLS)
def test_each_pair_of_state_and_event_has_one_outcome(
    state: PodState, event: PodEvent, cell: tuple[PodState, str] | None
) -> None:
    if cell is None:
        with pytest.raises(LookupError, match=rf"{state.value} cannot have {event.value}"):
            transition(state, event)
    else:
        assert transition(state, event) == (cell[0], cell[1] == "+")


def test_a_pod_becomes_healthy_by_a_probe_or_by_word_of_kubernetes_that_is_enough() -> None:
    ways = {
        pair for pair, follows in TRANSITIONS.items() if follows.state is H and pair[0] is not H
    }
    assert ways == {(P, PodEvent.PROBE_PASSED), (P, PodEvent.TRUSTED)}


def test_events_that_take_a_pod_back_to_probing_make_older_results_void() -> None:
    for (state, event), follows in TRANSITIONS.items():
        # A probe that began before a bypass says nothing about the pod after it.
        is_back = state is not P or event is PodEvent.BYPASSED
        assert follows.new_epoch == (follows.state is P and is_back)


def test_nothing_leads_out_of_gone() -> None:
    assert not [pair for pair in TRANSITIONS if pair[0] is G]


def delay(
    healthy: bool = False,
    wanted_for: float | None = 0.0,
    timed_out: bool = False,
    failures: int = 1,
    bypassed_for: float | None = None,
    is_service: bool = False,
) -> float:
    return probe_delay(
        healthy=healthy,
        wanted_for=wanted_for,
        timed_out=timed_out,
        failures=failures,
        bypassed_for=bypassed_for,
        is_service=is_service,
    )


def test_a_pod_that_requests_wait_for_is_probed_every_few_milliseconds() -> None:
    assert delay() == 0.005
    assert delay(wanted_for=10.0) == 0.005


def test_a_long_start_is_probed_less_often_but_not_noticeably_later() -> None:
    assert delay(wanted_for=10.1) == 0.02
    assert delay(wanted_for=60.1) == 0.1


def test_a_black_hole_is_not_probed_again_at_once() -> None:
    assert delay(timed_out=True) == 0.05
    assert delay(timed_out=True, wanted_for=30.0) == 0.05
    assert delay(timed_out=True, wanted_for=61.0) == 0.1


def test_without_demand_the_delay_grows_with_the_failures_up_to_a_cap() -> None:
    delays = [delay(wanted_for=None, failures=n) for n in range(30)]
    assert delays[0] == 0.2
    assert delays == sorted(delays)
    assert delays[-1] == pod.DELAY_UNWANTED_MAX


def test_a_failing_pod_of_a_busy_revision_is_probed_every_two_seconds_at_least() -> None:
    def busy(failures: int) -> float:
        return probe_delay(
            healthy=False, wanted_for=None, timed_out=False, failures=failures, busy=True
        )

    assert (busy(1), busy(20)) == (0.2, 2.0)


def test_a_delay_can_be_computed_after_any_number_of_failures() -> None:
    assert delay(wanted_for=None, failures=10**9) == pod.DELAY_UNWANTED_MAX


@pytest.mark.parametrize("wanted_for", [None, 0.0, 100.0])
def test_a_healthy_pod_is_checked_now_and_then(wanted_for: float | None) -> None:
    def of(*, busy: bool) -> float:
        return pod.probe_delay(
            healthy=True, wanted_for=wanted_for, timed_out=False, failures=0, busy=busy
        )

    assert (of(busy=True), of(busy=False)) == (30.0, 150.0)


@pytest.mark.parametrize("wanted_for", [None, 0.0])
def test_pods_that_the_cluster_ip_stands_in_for_are_probed_ever_less(
    wanted_for: float | None,
) -> None:
    delays = [delay(wanted_for=wanted_for, bypassed_for=t) for t in (0.0, 0.04, 3.0, 1000.0)]
    assert delays == [0.005, 0.04, 3.0, pod.DELAY_UNWANTED_MAX]


def test_a_cluster_ip_that_fails_is_probed_rarely_even_while_requests_wait() -> None:
    assert delay(is_service=True, timed_out=True, wanted_for=100.0) == pod.DELAY_SERVICE == 0.2
    assert delay(is_service=True, wanted_for=None, failures=4) == pytest.approx(1.6)


def test_a_pod_whose_tls_is_wrong_is_left_alone_ever_longer_up_to_a_second() -> None:
    assert [delay_after_tls(n) for n in range(8)] == [0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    assert delay_after_tls(10**9) == 1.0


def test_a_pod_that_says_not_ready_is_left_alone_ever_longer_up_to_200_ms() -> None:
    delays = [delay_after_not_ready(n, took=0.001) for n in range(7)]
    assert delays == [0, 0.025, 0.05, 0.1, 0.2, 0.2, 0.2]
    assert delay_after_not_ready(10**9, took=0.001) == 0.2


def test_an_expensive_probe_is_repeated_less_often_but_no_later_than_after_200_ms() -> None:
    assert [delay_after_not_ready(n, took=0.004) for n in (1, 2, 3)] == [0.08, 0.16, 0.2]
    assert delay_after_not_ready(1, took=0.01) == 0.2
    assert delay_after_not_ready(1, took=3.0) == 0.2
    assert delay_after_not_ready(0, took=3.0) == 0.0
