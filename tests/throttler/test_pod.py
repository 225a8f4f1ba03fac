"""One pod's record: its states, its epochs, its limit."""

from __future__ import annotations

import pytest

from tests.throttler.world import One, addresses, revision
from throttler.capacity import MAX_CAPACITY, RAISE_ANYWAY
from throttler.model import Endpoint
from throttler.pod import PodEvent, PodState, PodTracker

(A,) = addresses(1)


@pytest.fixture
def pod() -> PodTracker:
    return PodTracker(One(10).throttler.config, Endpoint("[fd00::1]:8012", "uid"), True, 3.0)


def limited(pod: PodTracker, container_concurrency: int) -> None:
    """Set a revision's limit."""
    pod.config.revision = revision(container_concurrency)
    pod.set_limit()


def test_a_new_pod_has_to_be_probed_and_gets_no_requests(pod: PodTracker) -> None:
    assert (pod.state, pod.in_use, pod.in_flight, pod.epoch) == (PodState.PROBING, False, 0, 0)
    assert (pod.address, pod.listed_at, pod.probe.at) == ("[fd00::1]:8012", 3.0, None)


def test_only_some_events_make_older_probes_void(pod: PodTracker) -> None:
    epochs = []
    for event in (
        PodEvent.PROBE_PASSED,
        PodEvent.PROBE_FAILED,
        PodEvent.PROBE_PASSED,
        PodEvent.CONNECT_FAILED,
        PodEvent.DELISTED,
        PodEvent.LISTED,
    ):
        pod.apply(event, 1.0)
        epochs.append(pod.epoch)
    assert epochs == [0, 1, 1, 2, 2, 3]


def test_an_impossible_event_is_reported_and_changes_nothing(pod: PodTracker) -> None:
    with pytest.raises(LookupError, match="a pod that is probing cannot have idle"):
        pod.apply(PodEvent.IDLE, 1.0)
    assert (pod.state, pod.epoch) == (PodState.PROBING, 0)


def test_a_pod_with_a_limit_has_it_at_once(pod: PodTracker) -> None:
    pod.in_flight = 7
    limited(pod, 3)
    assert pod.limit == 3


def test_a_pod_without_one_begins_64_above_what_it_has(pod: PodTracker) -> None:
    pod.in_flight = 7
    limited(pod, 0)
    assert pod.limit == 71


def test_a_slow_start_doubles_until_there_is_no_limit(pod: PodTracker) -> None:
    limited(pod, 0)
    limits = []
    for _ in range(13):
        limits.append(pod.limit)
        pod.raise_limit()
    assert limits == [64 << n for n in range(11)] + [MAX_CAPACITY] * 2


def test_a_slow_start_continues_while_more_requests_at_a_time_give_more_responses(
    pod: PodTracker,
) -> None:
    limited(pod, 0)
    for answers in (100, 200, 400):
        pod.ramp.finished = answers
        pod.raise_limit()
    assert pod.limit == 64 * 8


def test_a_pod_without_more_responses_at_twice_the_limit_gets_no_more_for_a_while(
    pod: PodTracker,
) -> None:
    limited(pod, 0)
    limits = []
    for _ in range(RAISE_ANYWAY + 3):
        pod.ramp.finished = 100
        pod.raise_limit()
        limits.append(pod.limit)
    assert limits == [128] * (RAISE_ANYWAY + 1) + [256, 256]


def test_a_pod_without_a_response_yet_may_only_be_slow(pod: PodTracker) -> None:
    limited(pod, 0)
    pod.ramp.finished = 100
    pod.raise_limit()
    pod.raise_limit()
    pod.raise_limit()
    assert pod.limit == 256


def test_a_new_slow_start_is_not_measured_by_the_responses_of_the_last(pod: PodTracker) -> None:
    limited(pod, 0)
    pod.ramp.finished = 1000
    pod.raise_limit()
    limited(pod, 0)
    pod.raise_limit()
    assert pod.limit == 128


def test_it_shows_what_a_person_wants_to_know(pod: PodTracker) -> None:
    assert repr(pod) == "<pod [fd00::1]:8012 probing 0/10>"


def test_it_is_known_since_when_a_pod_is_in_its_state() -> None:
    one = One(1)
    one.now = 5.0
    one.set_endpoints([A])
    pod = one.pod(A)
    assert pod.state_since == 5.0
    one.now = 7.0
    one.failed(pod)
    assert pod.state_since == 5.0
    one.passed(pod)
    assert pod.state_since == 7.0
    one.request()
    one.now = 9.0
    one.passed(pod)
    assert pod.state_since == 7.0
    one.set_endpoints([])
    assert pod.state_since == 9.0
