"""Records of cold starts: phases in order, one end each, and limited memory."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest

from activator.records import cold_starts as cold_starts
from activator.records.cold_starts import ColdStartPhase, ColdStarts
from activator.records.narration import EventKind
from tests.activator.telemetry.world import World
from throttler.model import AppProtocol, Endpoint, ListedEndpoints, ReadinessRule, RevisionID

POD, OTHER = "10.0.0.1:8012", "10.0.0.2:8012"
HELLO = RevisionID("default", "hello")
#: 2026-11-21T12:00:00.250Z
WALL = 1795262400.25


class Sleeper:
    """A driver whose revision is at zero, and its queued requests."""

    def __init__(self) -> None:
        self.world = World()
        self.driver = self.world.driver
        self.reasons_computed = 0
        self.cold_starts = self.driver.cold_starts = ColdStarts(
            self.driver.events, lambda: WALL, self.why
        )
        self.throttler = self.world.revision()
        self.counts: dict[str, int] = {}

    @property
    def now(self) -> float:
        return self.world.clock.now

    def after(self, seconds: float) -> None:
        self.world.clock.now += seconds

    def why(self, throttler: Any) -> Any:
        self.reasons_computed += 1
        return self.driver.why(throttler)

    def join(self) -> Any:
        return self.cold_starts.join(self.throttler, self.counts, self.now)

    def lists(self, *ready: str, not_ready: tuple[str, ...] = ()) -> list[Any]:
        return self.world.pods(self.throttler, *ready, not_ready=not_ready)

    def probe(self, pod: Any, passes: bool = True) -> None:
        self.cold_starts.probe_started(pod, self.now)
        if passes:
            self.driver.probe_passed(pod, pod.epoch)
        else:
            self.driver.probe_failed(pod, pod.epoch, "refused")

    def responded(self, cold_start: Any, pod: Any, dispatched: float | None = None) -> None:
        dispatched = self.now if dispatched is None else dispatched
        self.cold_starts.responded(cold_start, dispatched, pod.endpoint, self.now)

    def views(self) -> list[dict[str, Any]]:
        return self.cold_starts.views(HELLO)

    def view(self) -> dict[str, Any]:
        (view,) = self.views()
        return view


@pytest.fixture
def sleeper() -> Sleeper:
    return Sleeper()


def test_a_cold_start_from_the_first_request_to_the_first_byte(sleeper: Sleeper) -> None:
    cold_start = sleeper.join()
    arose = sleeper.now
    sleeper.after(0.001)
    sleeper.cold_starts.stats_sent([HELLO], arose, sleeper.now)
    sleeper.after(1.5)
    (pod,) = sleeper.lists(not_ready=(POD,))
    sleeper.after(0.25)
    sleeper.probe(pod, passes=False)
    sleeper.after(0.25)
    assert sleeper.join() is cold_start
    sleeper.probe(pod)
    dispatched = sleeper.now
    sleeper.after(0.125)
    sleeper.responded(cold_start, pod, dispatched)
    sleeper.after(1)
    sleeper.lists(POD)
    assert sleeper.view() == {
        "began": "2026-11-21T12:00:00.250Z",
        "outcome": "served",
        "seconds": 2.126,
        "requests": 2,
        "pod": POD,
        "phases": {
            "stat-sent": 0.001,
            "address": 1.501,
            "probe": 1.751,
            "probe-passed": 2.001,
            "dispatched": 2.001,
            "first-byte": 2.126,
        },
        "probeAheadSeconds": 1.125,
        "why": None,
    }
    assert sleeper.counts == {"served": 1}
    totals = {phase.value: h.total for phase, h in sleeper.cold_starts.phase_seconds.items()}
    assert totals == {
        "stat-sent": pytest.approx(0.001),
        "address": pytest.approx(1.5),
        "probe": pytest.approx(0.25),
        "probe-passed": pytest.approx(0.25),
        "dispatched": 0.0,
        "first-byte": pytest.approx(0.125),
    }
    assert sleeper.cold_starts.seconds.total == pytest.approx(2.126)


def test_one_under_way_is_shown_without_an_end(sleeper: Sleeper) -> None:
    sleeper.join()
    sleeper.after(3)
    sleeper.lists(not_ready=(POD,))
    view = sleeper.view()
    assert (view["outcome"], view["seconds"], view["pod"]) == (None, None, None)
    assert view["phases"] == {"address": 3}


def test_a_request_that_waits_for_a_slot_is_no_cold_start(sleeper: Sleeper) -> None:
    sleeper.world.healthy(sleeper.throttler, POD)
    assert sleeper.join() is None
    assert sleeper.views() == []


def test_what_was_there_before_is_not_seen_in_it(sleeper: Sleeper) -> None:
    (pod,) = sleeper.lists(not_ready=(POD,))
    sleeper.after(1)
    cold_start = sleeper.join()
    sleeper.after(1)
    sleeper.lists(POD)
    sleeper.probe(pod)
    sleeper.responded(cold_start, pod)
    assert list(sleeper.view()["phases"]) == ["probe", "probe-passed", "dispatched", "first-byte"]


def test_a_pod_that_comes_beside_one_that_was_there_is_seen(sleeper: Sleeper) -> None:
    sleeper.lists(not_ready=(POD,))
    sleeper.after(1)
    sleeper.join()
    sleeper.after(1)
    sleeper.lists(not_ready=(POD, OTHER))
    assert sleeper.view()["phases"] == {"address": 1}


def test_an_address_that_another_revision_releases_is_seen(sleeper: Sleeper) -> None:
    sleeper.lists(POD)
    other = sleeper.world.revision("other")
    taken = {AppProtocol.HTTP1: ListedEndpoints(frozenset({Endpoint(POD, "uid-of-another")}))}
    sleeper.driver.set_endpoints(other.revision.id, taken)
    cold_start = sleeper.join()
    sleeper.after(1)
    sleeper.driver.set_endpoints(other.revision.id, {})
    (pod,) = sleeper.throttler.backends.pods.values()
    sleeper.probe(pod)
    sleeper.responded(cold_start, pod)
    phases = ["address", "probe", "probe-passed", "dispatched", "first-byte"]
    assert list(sleeper.view()["phases"]) == phases


def test_a_report_from_before_or_on_others_is_not_seen(sleeper: Sleeper) -> None:
    before = sleeper.now
    sleeper.after(0.5)
    sleeper.join()
    sleeper.cold_starts.stats_sent([HELLO], before, sleeper.now)
    sleeper.cold_starts.stats_sent([RevisionID("default", "other")], sleeper.now, sleeper.now)
    assert sleeper.view()["phases"] == {}


def test_a_report_that_left_too_late_to_matter_is_not_seen(sleeper: Sleeper) -> None:
    sleeper.join()
    arose = sleeper.now
    sleeper.after(1)
    sleeper.lists(not_ready=(POD,))
    sleeper.after(1)
    sleeper.cold_starts.stats_sent([HELLO], arose, sleeper.now)
    assert sleeper.view()["phases"] == {"address": 1}


def test_a_dispatch_in_vain_is_not_the_one_that_counts(sleeper: Sleeper) -> None:
    cold_start = sleeper.join()
    first, second = sleeper.lists(POD, OTHER)
    sleeper.probe(first)
    sleeper.after(4)
    sleeper.driver.connect_failed(first, "refused")
    sleeper.probe(second)
    sleeper.after(1)
    sleeper.responded(cold_start, second, sleeper.now)
    assert sleeper.view()["phases"]["dispatched"] == 5
    assert sleeper.view()["pod"] == OTHER


@pytest.mark.parametrize("outcome", ["timed-out", "cancelled", "draining", "upstream-failed"])
def test_the_phases_of_one_that_was_not_served_are_seen_and_not_measured(
    sleeper: Sleeper, outcome: str
) -> None:
    cold_start = sleeper.join()
    sleeper.after(1)
    sleeper.probe(*sleeper.lists(POD))
    sleeper.after(60)
    sleeper.cold_starts.request_ended(cold_start, outcome, sleeper.now)
    assert sleeper.view()["phases"] == {"address": 1, "probe": 1, "probe-passed": 1}
    assert not any(sum(h.counts) for h in sleeper.cold_starts.phase_seconds.values())


def test_what_was_seen_after_the_dispatch_had_no_part_in_it(sleeper: Sleeper) -> None:
    cold_start = sleeper.join()
    sleeper.after(1)
    first, other = sleeper.lists(POD, OTHER)
    dispatched = sleeper.now
    sleeper.after(1)
    sleeper.probe(other)
    sleeper.responded(cold_start, first, dispatched)
    assert sleeper.view()["phases"] == {"address": 1, "dispatched": 1, "first-byte": 2}


@pytest.mark.parametrize("lost", ["refused", "given-back", "failed"])
def test_a_pod_that_is_lost_for_a_moment_is_no_cold_start(sleeper: Sleeper, lost: str) -> None:
    (pod,) = sleeper.world.healthy(sleeper.throttler, POD)
    match lost:
        case "refused":
            sleeper.driver.connect_failed(pod, "refused")
        case "given-back":
            sleeper.driver.responded_badly(pod, "502", untouched=True)
        case "failed":
            sleeper.driver.probe_failed(pod, pod.epoch, "503", 503)
    assert not sleeper.throttler.capacity()
    assert sleeper.join() is None
    sleeper.lists(not_ready=(POD,))
    assert sleeper.join() is not None, "Kubernetes has taken it out: it starts anew"


@pytest.mark.parametrize("outcome", ["timed-out", "cancelled", "draining", "upstream-failed"])
def test_it_ends_when_the_last_that_waited_has_left(sleeper: Sleeper, outcome: str) -> None:
    cold_start = sleeper.join()
    sleeper.join()
    sleeper.cold_starts.request_ended(cold_start, "cancelled", sleeper.now)
    assert sleeper.view()["outcome"] is None
    sleeper.after(7)
    sleeper.cold_starts.request_ended(cold_start, outcome, sleeper.now)
    assert (sleeper.view()["outcome"], sleeper.view()["seconds"]) == (outcome, 7)
    assert sleeper.counts == {outcome: 1}
    assert sum(sleeper.cold_starts.seconds.counts) == 0  # counts served requests only
    assert sleeper.join() is not cold_start


def failed(sleeper: Sleeper) -> int:
    return sleeper.cold_starts.failed(sleeper.throttler)


def test_failed_ones_count_until_a_pod_is_usable(sleeper: Sleeper) -> None:
    for count, outcome in enumerate(("timed-out", "cancelled", "page", "wait-refused"), 1):
        cold_start = sleeper.join()
        sleeper.after(20)
        sleeper.lists(not_ready=(POD,) if count > 2 else ())
        sleeper.cold_starts.request_ended(cold_start, outcome, sleeper.now)
        assert failed(sleeper) == count
    assert [view["why"] for view in sleeper.views()] == [
        *("pods-not-ready", "pods-not-ready", "no-endpoints", "no-endpoints")
    ]
    sleeper.after(3600)
    assert failed(sleeper) == 4
    sleeper.probe(*sleeper.lists(POD))
    assert failed(sleeper) == 0
    sleeper.lists()
    assert failed(sleeper) == 0, "no start has failed since"


@pytest.mark.parametrize(("seconds", "count"), [(1.9, 0), (2.1, 1)])
def test_a_client_that_leaves_before_pods_usually_start_proves_nothing(
    sleeper: Sleeper, seconds: float, count: int
) -> None:
    sleeper.throttler.forecast.starts.add(2.0)
    cold_start = sleeper.join()
    sleeper.after(seconds)
    sleeper.cold_starts.request_ended(cold_start, "cancelled", sleeper.now)
    assert failed(sleeper) == count


def test_one_that_never_ends_since_clients_overlap_has_failed_as_well(sleeper: Sleeper) -> None:
    cold_start = sleeper.join()
    for _ in range(5):
        sleeper.join()
        sleeper.after(20)
        sleeper.cold_starts.request_ended(cold_start, "cancelled", sleeper.now)
    assert (failed(sleeper), sleeper.view()["outcome"]) == (1, None)


def test_the_reason_is_computed_once_for_all_that_leave_together(sleeper: Sleeper) -> None:
    for cold_start in [sleeper.join() for _ in range(100)]:
        sleeper.cold_starts.request_ended(cold_start, "timed-out", sleeper.now)
    assert sleeper.reasons_computed == 2


def test_the_first_response_ends_it_once(sleeper: Sleeper) -> None:
    cold_start = sleeper.join()
    sleeper.join()
    (pod,) = sleeper.lists(POD)
    sleeper.probe(pod)
    sleeper.responded(cold_start, pod)
    sleeper.after(1)
    sleeper.responded(cold_start, pod)
    for _ in range(2):
        sleeper.cold_starts.request_ended(cold_start, "served", sleeper.now)
    assert sleeper.counts == {"served": 1}
    assert sleeper.view()["seconds"] == 0


def test_listeners_get_the_end(sleeper: Sleeper) -> None:
    heard: list[tuple[EventKind, RevisionID, Mapping[str, Any]]] = []
    sleeper.driver.events.listeners.append(lambda *event: heard.append(event))
    cold_start = sleeper.join()
    sleeper.cold_starts.request_ended(cold_start, "cancelled", sleeper.now)
    mine = [event for event in heard if event[0] is EventKind.COLD_START_FINISHED]
    assert mine == [(EventKind.COLD_START_FINISHED, HELLO, sleeper.view())]


def test_the_newest_are_first_and_the_oldest_go(sleeper: Sleeper) -> None:
    for seconds in range(cold_starts.KEPT + 3):
        cold_start = sleeper.join()
        sleeper.after(seconds)
        sleeper.cold_starts.request_ended(cold_start, "cancelled", sleeper.now)
    sleeper.join()
    seen = [view["seconds"] for view in sleeper.views()]
    assert seen == [None, *range(cold_starts.KEPT + 2, 2, -1)]


def test_of_a_few_revisions_any_are_kept(sleeper: Sleeper, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cold_starts, "KEPT_REVISIONS", 20)
    for turn in range(2):
        for number in range(50):
            throttler = sleeper.world.revision(f"r-{number}")
            cold_start = sleeper.cold_starts.join(throttler, {}, sleeper.now)
            assert cold_start is not None
            sleeper.cold_starts.request_ended(cold_start, "cancelled", sleeper.now)
        kept = [
            number
            for number in range(50)
            if sleeper.cold_starts.views(RevisionID("default", f"r-{number}"))
        ]
        assert kept == list(range(30, 50)), turn
    assert not sleeper.cold_starts.under_way


def test_nothing_is_kept_of_a_deleted_revision(sleeper: Sleeper) -> None:
    past = sleeper.join()
    sleeper.cold_starts.request_ended(past, "cancelled", sleeper.now)
    under_way = sleeper.join()
    sleeper.driver.delete_revision(HELLO)
    assert sleeper.views() == []
    sleeper.cold_starts.request_ended(under_way, "cancelled", sleeper.now)
    assert sleeper.views() == []
    assert not sleeper.cold_starts.under_way


def test_one_that_is_over_keeps_no_revision_alive(sleeper: Sleeper) -> None:
    cold_start = sleeper.join()
    sleeper.cold_starts.request_ended(cold_start, "cancelled", sleeper.now)
    held = [getattr(cold_start, name) for name in type(cold_start).__slots__]
    assert sleeper.throttler not in held


@pytest.mark.parametrize("seed", range(10))
def test_random_walk(sleeper: Sleeper, seed: int) -> None:
    """In any order of events: phases in order, one end for each cold start, nothing left."""
    luck = random.Random(seed)
    began, waiting = [], []
    addresses = [f"10.0.0.{number}:8012" for number in range(1, 4)]
    ends: list[Any] = []
    sleeper.driver.events.listeners.append(
        lambda kind, _, what: ends.append(what) if kind is EventKind.COLD_START_FINISHED else None
    )
    for _ in range(400):
        sleeper.after(luck.choice((0.0, 0.001, 0.5)))
        pods = list(sleeper.throttler.backends.pods.values())
        match luck.randrange(7):
            case 0:
                if (cold_start := sleeper.join()) is not None:
                    waiting.append(cold_start)
                    if cold_start not in began:
                        began.append(cold_start)
            case 1:
                listed = luck.sample(addresses, luck.randrange(3))
                sleeper.lists(*listed[:1], not_ready=tuple(listed[1:]))
            case 2 if pods:
                sleeper.probe(luck.choice(pods), passes=luck.random() < 0.5)
            case 3 if pods:
                sleeper.driver.connect_failed(luck.choice(pods), "refused")
            case 4:
                arose = sleeper.now - luck.choice((0, 1))
                sleeper.cold_starts.stats_sent([HELLO], arose, sleeper.now)
            case 5 if waiting and pods:
                cold_start = waiting.pop(luck.randrange(len(waiting)))
                sleeper.responded(cold_start, luck.choice(pods))
                sleeper.cold_starts.request_ended(cold_start, "served", sleeper.now)
            case 6 if waiting:
                cold_start = waiting.pop(luck.randrange(len(waiting)))
                sleeper.cold_starts.request_ended(cold_start, "cancelled", sleeper.now)
    for cold_start in waiting:
        sleeper.cold_starts.request_ended(cold_start, "cancelled", sleeper.now)
    assert len(ends) == len(began) == sum(sleeper.counts.values())
    assert began, "the walk woke nobody"
    for cold_start in began:
        times = [cold_start.began, *cold_start.seen.values(), cold_start.ended]
        assert times == sorted(times)
        assert list(cold_start.seen) == [
            phase for phase in ColdStartPhase if phase in cold_start.seen
        ]
        assert cold_start.open == 0
    assert not sleeper.cold_starts.under_way


@pytest.fixture
def world():
    return World()


def leads(world):
    return world.driver.cold_starts.leads


def passed(world, pod):
    world.driver.probe_passed(pod, pod.epoch)


def test_the_lead_is_from_our_probe_to_kubernetes_word(world):
    throttler = world.revision()
    (pod,) = world.pods(throttler, not_ready=(POD,))
    world.clock.now += 1
    passed(world, pod)
    world.clock.now += 0.75
    world.pods(throttler, POD)
    assert leads(world).seconds.total == 0.75
    assert sum(leads(world).seconds.counts) == 1
    assert len(leads(world)) == 0


def test_a_change_of_another_pod_ends_no_lead(world):
    throttler = world.revision()
    pod, _ = world.pods(throttler, not_ready=(POD, OTHER))
    passed(world, pod)
    world.pods(throttler, OTHER, not_ready=(POD,))
    assert (len(leads(world)), sum(leads(world).seconds.counts)) == (1, 0)


def test_a_pod_that_kubernetes_lists_first_had_none(world):
    world.healthy(world.revision(), POD)
    assert len(leads(world)) == sum(leads(world).seconds.counts) == 0


def test_a_pod_that_had_to_wait_for_kubernetes_had_none(world):
    throttler = world.revision(readiness=ReadinessRule.KUBERNETES_POLICY)
    (pod,) = world.pods(throttler, not_ready=(POD,))
    passed(world, pod)
    world.clock.now += 1
    world.pods(throttler, POD)
    assert len(leads(world)) == sum(leads(world).seconds.counts) == 0


def test_a_pod_that_failed_in_between_had_none(world):
    throttler = world.revision()
    (pod,) = world.pods(throttler, not_ready=(POD,))
    passed(world, pod)
    world.driver.connect_failed(pod, "refused")
    world.pods(throttler, POD)
    assert len(leads(world)) == sum(leads(world).seconds.counts) == 0


def test_after_a_failure_the_lead_begins_again(world):
    throttler = world.revision()
    (pod,) = world.pods(throttler, not_ready=(POD,))
    passed(world, pod)
    world.clock.now += 5
    world.driver.connect_failed(pod, "refused")
    passed(world, pod)
    world.clock.now += 0.5
    world.pods(throttler, POD)
    assert leads(world).seconds.total == 0.5


def test_nothing_is_kept_of_pods_that_are_gone(world):
    throttler = world.revision()
    for number in range(100):
        (pod,) = world.pods(throttler, not_ready=(f"10.0.1.{number}:8012",))
        passed(world, pod)
    assert len(leads(world)) == 1
    world.pods(throttler)
    assert len(leads(world)) == 0
