"""The driver: deadlines in time, effects in order, lookups of names, and no leaks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from activator.autoscaler.concurrency import ConcurrencyReporter, RevisionLoad
from activator.driver import Driver
from activator.records.counters import HttpCounters
from activator.records.entries import PACE, Entries, Failed
from activator.records.narration import EventKind
from tests.activator.throttlers import release
from throttler.capacity import SLOW_START, SLOW_START_STEP
from throttler.errors import RevisionNotFound
from throttler.model import (
    AppProtocol,
    Endpoint,
    ListedEndpoints,
    Revision,
    RevisionID,
    RevisionKind,
)
from throttler.pod import PodState, PodTracker
from throttler.reason import Reason
from throttler.revision import RevisionThrottler
from throttler.throttler import Limits, Throttler
from throttler.ticket import ASSIGNED, CANCELLED, QUEUED, TIMED_OUT, Changes, Ticket

APP = RevisionID("default", "app")
ENCODED = (b"default", b"app")
HOST = b"app.default.svc.cluster.local"


class World:
    """A driver with a throttler; the world records the driver's calls, in order."""

    def __init__(self) -> None:
        self.told: list[tuple[str, object]] = []
        self.loads: list[RevisionID] = []
        self._reporter = ConcurrencyReporter(lambda _: None)
        self.loop = asyncio.get_running_loop()
        throttler = Throttler(Limits(), random=lambda: 0.0)
        self.driver = Driver(throttler, Entries(throttler, self._load), clock=self.loop.time)
        self.driver.prober = self.driver.pools = self

    def _load(self, revision: RevisionID) -> RevisionLoad:
        self.loads.append(revision)
        return self._reporter.load(revision)

    def probe(self, pod: PodTracker) -> None:
        self.told.append(("probe", pod.address))

    def hurry(self, revision: RevisionThrottler) -> None:
        self.told.append(("hurry", revision.revision.id))

    def follow(self, pods: Iterable[PodTracker]) -> None:
        """See activator.driver.Pools."""

    def forget(self, pod: PodTracker) -> None:
        self.told.append(("forget", pod.address))

    def revision(self, container_concurrency: int = 1, **settings: Any) -> RevisionThrottler:
        self.driver.set_revision(
            Revision(APP, container_concurrency=container_concurrency, **settings)
        )
        return self.driver.throttler.find(*APP)

    def list_pods(self, addresses: Iterable[str], revision: RevisionID = APP) -> None:
        endpoints = ListedEndpoints(ready=frozenset(Endpoint(address) for address in addresses))
        self.driver.set_endpoints(revision, {AppProtocol.HTTP1: endpoints})

    def pass_probe(self, revision: RevisionThrottler) -> None:
        for pod in list(revision.backends.pods.values()):
            self.driver.probe_passed(pod, pod.epoch)

    def ask(self, revision: RevisionThrottler, name: str, within: float = 300.0) -> Request:
        return Request(self, revision, name, self.loop.time() + within)


class Request:
    """One request; it records the calls of the driver with their times."""

    def __init__(
        self, world: World, revision: RevisionThrottler, name: str, deadline: float
    ) -> None:
        self.world = world
        self.name = name
        self.ended_at = asyncio.get_running_loop().create_future()
        self.ticket = Ticket(self, deadline)
        if revision.admit(self.ticket, world.loop.time()) is None:
            world.driver.began_waiting(revision)

    def ticket_assigned(self) -> None:
        self.world.told.append(("assigned", self.name))

    def ticket_expired(self, reason: Reason, detail: str) -> None:
        self.why = (reason, detail)
        self.world.told.append(("expired", self.name))
        self.ended_at.set_result(self.world.loop.time())


async def test_waiter_expires_exactly_at_its_deadline() -> None:
    world = World()
    revision = world.revision()
    late = world.ask(revision, "late", within=7.25)
    soon = world.ask(revision, "soon", within=2.5)  # an earlier one, armed after a later one

    assert await soon.ended_at == 2.5
    assert late.ticket.state is QUEUED
    assert await late.ended_at == 7.25
    assert (soon.ticket.state, late.ticket.state) == (TIMED_OUT, TIMED_OUT)


async def test_deadlines_at_the_same_moment_expire_in_order_of_arrival() -> None:
    world = World()
    revision = world.revision()
    requests = [world.ask(revision, name, within=3.0) for name in "abc"]
    for request in requests:
        assert await request.ended_at == 3.0
    assert [told for told in world.told if told[0] == "expired"] == [
        ("expired", name) for name in "abc"
    ]


async def test_a_deadline_still_holds_after_an_earlier_waiter_left() -> None:
    world = World()
    revision = world.revision()
    gone = world.ask(revision, "gone", within=1.0)
    stays = world.ask(revision, "stays", within=4.0)
    world.driver.cancel(revision, gone.ticket, world.loop.time())

    assert await stays.ended_at == 4.0
    assert gone.ticket.state is CANCELLED
    assert not gone.ended_at.done()


async def test_a_served_request_does_not_expire_and_leaves_no_timer() -> None:
    world = World()
    revision = world.revision()
    request = world.ask(revision, "served", within=1.0)
    world.list_pods(["10.0.0.1:8012"])
    world.pass_probe(revision)
    assert request.ticket.state is ASSIGNED
    other = world.ask(revision, "other", within=5.0)  # queued behind it; keeps the timer
    assert await other.ended_at == 5.0
    assert ("expired", "served") not in world.told


async def test_closed_driver_enforces_no_deadline() -> None:
    world = World()
    revision = world.revision()
    request = world.ask(revision, "kept", within=1.0)
    world.driver.close()
    world.driver.close()  # a second time is harmless
    passed = asyncio.get_running_loop().create_future()
    world.loop.call_later(2.0, passed.set_result, None)
    await passed
    assert not request.ended_at.done()


async def test_slow_start_widens_in_time_without_any_event() -> None:
    world = World()
    revision = world.revision(container_concurrency=0)
    requests = [world.ask(revision, str(number)) for number in range(3 * SLOW_START)]
    world.list_pods(["10.0.0.1:8012"])
    world.pass_probe(revision)
    (pod,) = revision.backends.pods.values()
    assert pod.in_flight == SLOW_START

    moments = []
    while any(request.ticket.state is QUEUED for request in requests):
        passed = asyncio.get_running_loop().create_future()
        world.loop.call_later(SLOW_START_STEP, passed.set_result, None)
        await passed
        moments.append(pod.in_flight)
    assert moments == [2 * SLOW_START, 3 * SLOW_START]


async def test_the_first_waiter_hurries_the_prober_and_the_next_do_not() -> None:
    world = World()
    revision = world.revision()
    world.ask(revision, "first")
    world.ask(revision, "second")
    assert world.told == [("hurry", APP)]


async def test_changes_are_carried_out_pods_first_then_ends_then_beginnings() -> None:
    world = World()
    revision = world.revision(container_concurrency=1)
    world.list_pods(["10.0.0.1:8012", "10.0.0.2:8012"])
    gone, probed = sorted(revision.backends.pods.values(), key=lambda pod: pod.address)
    expired, assigned = (world.ask(revision, name) for name in ("expired", "assigned"))
    world.told.clear()

    changes = Changes(probe=[probed])
    changes.assigned, changes.expired = [assigned.ticket], [expired.ticket]
    changes.gone = [gone]
    world.driver.carry_out(changes)

    assert world.told == [
        ("forget", gone.address),  # by the prober
        ("forget", gone.address),  # and by the pools
        ("probe", probed.address),
        ("expired", "expired"),
        ("assigned", "assigned"),
    ]


async def test_waiters_get_pods_in_order_of_arrival() -> None:
    world = World()
    revision = world.revision(container_concurrency=2)
    for name in "abc":
        world.ask(revision, name)
    world.list_pods(["10.0.0.1:8012"])
    world.told.clear()
    world.pass_probe(revision)
    assert world.told == [("assigned", "a"), ("assigned", "b")]


async def test_release_hands_the_place_to_the_next_waiter_in_the_same_call() -> None:
    world = World()
    revision = world.revision()
    world.list_pods(["10.0.0.1:8012"])
    world.pass_probe(revision)
    first, second = world.ask(revision, "first"), world.ask(revision, "second")
    assert second.ticket.state is QUEUED
    release(world.driver, revision, first.ticket, world.loop.time())
    assert second.ticket.state is ASSIGNED
    assert world.told[-1] == ("assigned", "second")


async def test_requeued_request_goes_to_another_pod_before_those_that_came_later() -> None:
    world = World()
    revision = world.revision()
    world.list_pods(["10.0.0.1:8012", "10.0.0.2:8012"])
    world.pass_probe(revision)
    first, second = world.ask(revision, "first"), world.ask(revision, "second")
    world.ask(revision, "third")
    assert first.ticket.pod is not None
    assert second.ticket.pod is not None
    broken, good = first.ticket.pod, second.ticket.pod
    world.told.clear()

    world.driver.connect_failed(broken, "connection refused")
    world.driver.requeue(revision, first.ticket, world.loop.time())
    assert first.ticket.state is QUEUED
    assert broken.state is PodState.PROBING
    release(world.driver, revision, second.ticket, world.loop.time())

    assert first.ticket.pod is good
    assert world.told == [("probe", broken.address), ("assigned", "first")]


async def test_requeued_request_that_is_the_only_waiter_hurries_the_prober_and_expires() -> None:
    world = World()
    revision = world.revision()
    world.list_pods(["10.0.0.1:8012"])
    world.pass_probe(revision)
    request = world.ask(revision, "only", within=9.0)
    (pod,) = revision.backends.pods.values()
    world.driver.connect_failed(pod, "connection refused")
    world.driver.requeue(revision, request.ticket, world.loop.time())
    assert ("hurry", APP) in world.told
    assert await request.ended_at == 9.0


async def test_request_requeued_at_its_deadline_ends_there() -> None:
    world = World()
    revision = world.revision()
    world.list_pods(["10.0.0.1:8012"])
    world.pass_probe(revision)
    request = world.ask(revision, "late", within=1.0)
    world.driver.requeue(revision, request.ticket, request.ticket.deadline)
    assert request.ticket.state is TIMED_OUT
    assert ("expired", "late") in world.told


async def test_results_of_probes_of_an_earlier_epoch_change_nothing() -> None:
    world = World()
    revision = world.revision()
    world.list_pods(["10.0.0.1:8012"])
    (pod,) = revision.backends.pods.values()
    before = pod.epoch
    world.pass_probe(revision)
    world.driver.probe_failed(pod, pod.epoch, "refused")
    assert pod.epoch == before + 1
    world.driver.probe_passed(pod, before)
    assert pod.state is PodState.PROBING
    world.driver.carry_out(None)


async def test_deleted_revision_is_found_neither_by_name_nor_by_host() -> None:
    world = World()
    world.revision()
    before = world.driver.entries.find_host(HOST)
    world.driver.delete_revision(APP)
    with pytest.raises(RevisionNotFound):
        world.driver.entries.find(*ENCODED)
    with pytest.raises(RevisionNotFound):
        world.driver.entries.find_host(HOST)
    assert not world.driver.entries

    world.revision()
    assert world.driver.entries.find_host(HOST) is not before


async def test_requests_of_a_deleted_revision_still_expire_in_time() -> None:
    world = World()
    revision = world.revision()
    request = world.ask(revision, "waits", within=6.0)
    world.driver.delete_revision(APP)
    assert await request.ended_at == 6.0


async def test_deleting_what_is_not_there_is_harmless() -> None:
    World().driver.delete_revision(RevisionID("no", "such"))


async def test_counters_of_a_pod_that_is_gone_are_dropped_and_others_kept() -> None:
    world = World()
    revision = world.revision()
    world.list_pods(["10.0.0.1:8012", "10.0.0.2:8012"])
    world.pass_probe(revision)
    counters = world.driver.entries.find(*ENCODED).counters
    for address in ("10.0.0.1:8012", "10.0.0.2:8012"):
        for status in (200, 503):
            assert isinstance(counters.client_of((address, b"GET", status, 1)), HttpCounters)

    world.list_pods(["10.0.0.2:8012"])
    assert {address for address, *_ in counters.client} == {"10.0.0.2:8012"}


async def test_counters_of_a_draining_pod_stay_until_its_last_request_has_ended() -> None:
    world = World()
    revision = world.revision()
    world.list_pods(["10.0.0.1:8012"])
    world.pass_probe(revision)
    request = world.ask(revision, "last")
    counters = world.driver.entries.find(*ENCODED).counters
    counters.client_of(("10.0.0.1:8012", b"GET", 200, 1))
    world.list_pods([])
    assert counters.client
    release(world.driver, revision, request.ticket, world.loop.time())
    assert not counters.client


@pytest.mark.parametrize("name", ["naïve", "Ж"])
async def test_names_beyond_latin_1_do_no_harm(name: str) -> None:
    """A folder of manifests may hold anything."""
    world = World()
    revision = RevisionID("default", name)
    world.driver.set_revision(Revision(revision))
    world.list_pods(["10.0.0.1:8012"], revision)
    world.list_pods([], revision)
    assert world.told.count(("forget", "10.0.0.1:8012")) == 2
    world.driver.delete_revision(revision)
    assert not list(world.driver.throttler)


async def test_a_way_around_the_pods_is_logged_when_it_begins_and_when_it_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "activator")
    world = World()
    revision = world.revision()
    world.driver.set_service(APP, {AppProtocol.HTTP1: "10.96.0.5:80"})
    world.list_pods(["10.0.0.1:8012"])
    (pod,) = revision.backends.pods.values()
    caplog.clear()
    world.driver.probe_failed(pod, pod.epoch, "status 503", 503)
    service = revision.backends.service.tracker
    assert service is not None
    assert ("probe", service.address) in world.told
    world.driver.probe_passed(service, service.epoch)
    world.driver.probe_passed(pod, pod.epoch)

    assert [m for m in caplog.messages if "capacity" not in m] == [
        "ClusterIP 10.96.0.5:80: pod 10.0.0.1:8012: its probe failed: status 503; "
        "no request goes to it until it passes a probe",
        "ClusterIP 10.96.0.5:80: it passed its probe; requests may go to it",
        "requests go to the ClusterIP 10.96.0.5:80: pods are out of reach",
        "pod 10.0.0.1:8012: it passed its probe; requests may go to it",
        "ClusterIP 10.96.0.5:80: requests no longer need it; it is gone",
        "requests no longer go to the ClusterIP 10.96.0.5:80",
    ]
    assert ("forget", service.address) in world.told


async def test_requests_that_expire_together_get_the_reason_by_one_look_at_the_pods() -> None:
    world = World()
    revision = world.revision()
    looks: list[bool] = []

    def autoscaler_lost(kind: RevisionKind) -> bool:
        looks.append(True)  # each check of the pods reads it once
        return False

    world.driver.autoscaler_lost = autoscaler_lost
    requests = [world.ask(revision, f"{n}", within=1.0) for n in range(100)]

    assert await requests[-1].ended_at == 1.0
    assert {request.why for request in requests} == {(Reason.NO_ENDPOINTS, "")}
    assert looks == [True]


async def test_where_no_pod_is_listed_a_lost_autoscaler_is_the_reason() -> None:
    world = World()
    revision = world.revision()
    world.driver.autoscaler_lost = lambda _kind: True
    request = world.ask(revision, "a", within=1.0)
    await request.ended_at
    assert request.why == (Reason.AUTOSCALER_UNREACHABLE, "")


async def test_requests_that_fail_together_are_one_event_and_all_are_counted() -> None:
    world = World()
    world.revision()
    entry = world.driver.entries.find(*ENCODED)
    heard: list[tuple[EventKind, Any]] = []
    world.driver.events.listen(lambda kind, _, what: heard.append((kind, what)))
    for number in range(100):
        failed = Failed(world.loop.time(), 502, Reason.UPSTREAM_FAILED, f"{number}")
        world.driver.failed(entry, failed)
    assert [(kind, what["requests"], what["detail"]) for kind, what in heard] == [
        (EventKind.FAILED, 1, "0")
    ]
    later = world.loop.time() + PACE
    world.driver.failed(entry, Failed(later, 504, Reason.RESPONSE_LATE, ""))
    assert heard[1:] == [
        (
            EventKind.FAILED,
            {"status": 504, "reason": "response-late", "detail": None, "requests": 100},
        )
    ]
    assert world.driver.entries.known(APP) is entry
    failures = entry.failures
    assert failures.by_reason == {Reason.UPSTREAM_FAILED: 100, Reason.RESPONSE_LATE: 1}
    assert world.driver.entries.known(RevisionID("default", "nobody")) is None
