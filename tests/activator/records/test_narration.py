"""Which events of pods, capacity and queues listeners get: each change once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from activator.autoscaler.concurrency import ConcurrencyReporter
from activator.driver import Driver
from activator.records.entries import Entries
from activator.records.narration import EventKind, Events
from tests.activator.throttlers import release, throttler_of
from throttler.model import AppProtocol, Endpoint, ListedEndpoints, MeshMode, Revision, RevisionID
from throttler.revision import RevisionThrottler
from throttler.throttler import Limits, Throttler
from throttler.ticket import Ticket

APP = RevisionID("default", "app")
POD = "10.0.0.1:8012"


class Silent:
    """Replace prober, pools, loads and owners of tickets."""

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: None


class World:
    """A driver, and the events that a listener got from it."""

    def __init__(self, own_ip: str = "") -> None:
        self.now = 100.0
        self.heard: list[tuple[str, Mapping[str, Any]]] = []
        throttler = Throttler(Limits(), lambda: 0.0, own_ip=own_ip)
        entries = Entries(throttler, ConcurrencyReporter(lambda _: None).load)
        self.driver = Driver(throttler, entries, clock=lambda: self.now)
        self.driver.prober = self.driver.pools = Silent()

    def listen(self) -> None:
        self.driver.events.listen(self._hear)

    def deafen(self) -> None:
        self.driver.events.leave(self._hear)

    def _hear(self, kind: EventKind, revision: RevisionID, what: Mapping[str, Any]) -> None:
        assert revision == APP
        self.heard.append((kind.value, what))

    def take(self) -> list[tuple[str, Mapping[str, Any]]]:
        """Return the events since the last call."""
        heard, self.heard = self.heard, []
        return heard

    def revision(self, concurrency: int = 2) -> RevisionThrottler:
        self.driver.set_revision(Revision(APP, container_concurrency=concurrency))
        return self.driver.throttler.find(*APP)

    def list_pods(self, *ready: str, not_ready: tuple[str, ...] = ()) -> None:
        sides = (
            frozenset(Endpoint(one, f"uid-{one}") for one in side) for side in (ready, not_ready)
        )
        self.driver.set_endpoints(APP, {AppProtocol.HTTP1: ListedEndpoints(*sides)})

    def pass_probes(self) -> None:
        for pod in list(self.driver.throttler.find(*APP).backends.pods.values()):
            self.driver.probe_passed(pod, pod.epoch)

    def ask(self, revision: RevisionThrottler, within: float = 60.0) -> Ticket:
        ticket = Ticket(Silent(), self.now + within)
        if revision.admit(ticket, self.now) is None:
            self.driver.began_waiting(revision)
        return ticket


def pods(heard: list[tuple[str, Mapping[str, Any]]]) -> list[tuple[Any, ...]]:
    return [
        (what["was"], what["state"], what["ready"]) for kind, what in heard if kind == "pod-changed"
    ]


def others(heard: list[tuple[str, Mapping[str, Any]]]) -> list[tuple[str, Mapping[str, Any]]]:
    return [(kind, what) for kind, what in heard if kind != "pod-changed"]


async def test_a_pods_life_is_published_from_its_first_listing_to_its_end() -> None:
    world = World()
    world.revision()
    world.listen()
    world.list_pods(not_ready=(POD,))
    assert pods(world.take()) == [(None, "probing", False)]
    world.pass_probes()
    heard = world.take()
    assert pods(heard) == [("probing", "healthy", False)]
    assert {**heard[0][1]} | {"was": "", "state": ""} == {
        "address": POD,
        "uid": f"uid-{POD}",
        "clusterIP": False,
        "was": "",
        "state": "",
        "ready": False,
        "why": "it passed its probe",
    }
    world.list_pods(POD)
    assert pods(world.take()) == [("healthy", "healthy", True)]
    world.list_pods()
    assert pods(world.take()) == [("draining", "gone", False)]


async def test_a_draining_pod_is_published_and_its_end_when_its_request_ends() -> None:
    world = World()
    revision = world.revision()
    world.list_pods(POD)
    world.pass_probes()
    ticket = world.ask(revision)
    world.listen()
    world.list_pods()
    assert pods(world.take()) == [("healthy", "draining", False)]
    release(world.driver, throttler_of(world.driver, ticket), ticket, world.now)
    assert pods(world.take()) == [("draining", "gone", False)]


async def test_a_call_that_changes_nothing_is_not_published() -> None:
    world = World()
    world.revision()
    world.list_pods(POD)
    world.pass_probes()
    world.listen()
    world.pass_probes()
    world.list_pods(POD)
    world.revision()
    world.driver.set_mesh(MeshMode.AUTO, False)
    assert world.take() == []


async def test_an_ejected_pod_is_published_with_the_reason() -> None:
    world = World()
    revision = world.revision()
    world.list_pods(POD)
    world.pass_probes()
    world.listen()
    (pod,) = revision.backends.pods.values()
    world.driver.responded_badly(pod, "responded 502", untouched=True)
    heard = world.take()
    assert pods(heard) == [("healthy", "probing", True)]
    assert heard[0][1]["why"] == "a request to it failed: responded 502"


@pytest.mark.parametrize(
    ("sent", "error", "why"),
    [
        (False, "refused", "a request could not be sent to it: refused"),
        (True, "reset", "a request that was sent to it got no response: reset"),
    ],
)
async def test_a_pod_that_loses_a_request_is_reported_with_the_reason(
    sent: bool, error: str, why: str
) -> None:
    world = World()
    world.revision()
    world.list_pods(POD)
    world.pass_probes()
    world.listen()
    (pod,) = world.driver.throttler.find(*APP).backends.pods.values()
    world.driver.connect_failed(pod, error, sent=sent)
    (_, what), *_ = world.take()
    assert (what["was"], what["state"]) == ("healthy", "probing")
    assert what["why"] == why


async def test_events_of_a_pod_have_its_present_listing() -> None:
    def told() -> list[str]:
        return [what["why"].replace("Kubernetes ", "") for _, what in world.take() if "why" in what]

    world = World()
    revision = world.revision(concurrency=1)
    world.listen()
    world.list_pods(not_ready=(POD,))
    assert told() == ["lists it as not ready"]
    world.pass_probes()
    world.take()
    world.list_pods(POD, "10.0.0.2:8012")
    assert told() == ["lists it as ready"] * 2
    world.list_pods("10.0.0.2:8012", not_ready=(POD,))
    assert told() == ["lists it as not ready"]
    world.pass_probes()
    tickets = [world.ask(revision) for _ in range(2)]
    world.take()
    world.list_pods()
    assert told() == ["no longer lists it"] * 2
    world.list_pods(not_ready=(POD, "10.0.0.2:8012"))
    assert told() == ["lists it as not ready"] * 2
    for ticket in tickets:
        release(world.driver, throttler_of(world.driver, ticket), ticket, world.now)


async def test_capacity_is_published_when_it_changes() -> None:
    world = World()
    world.listen()
    world.revision(concurrency=2)
    world.list_pods(POD, "10.0.0.2:8012")
    assert others(world.take()) == []
    world.pass_probes()
    changes = [(what["was"], what["capacity"]) for _, what in others(world.take())]
    assert changes == [(0, 2), (2, 4)]
    world.revision(concurrency=0)
    assert others(world.take()) == [
        ("capacity-changed", {"was": 4, "capacity": None, "inFlight": 0})
    ]


async def test_a_change_of_the_mesh_is_published_for_all_pods() -> None:
    world = World()
    world.revision()
    world.list_pods(POD)
    world.pass_probes()
    world.listen()
    world.driver.set_mesh(MeshMode.ENABLED, False)
    assert ("healthy", "probing", True) in pods(heard := world.take())
    assert ("capacity-changed", {"was": 2, "capacity": 0, "inFlight": 0}) in heard


async def test_a_queue_begins_with_its_first_waiter_and_ends_with_its_last() -> None:
    world = World()
    revision = world.revision(concurrency=1)
    world.listen()
    first, second, third = (world.ask(revision) for _ in range(3))
    what = {"reason": "no-endpoints", "detail": None, "waiting": 1}
    assert world.take() == [("queue-began", what)]
    world.list_pods(POD)
    world.pass_probes()
    assert others(world.take()) == [("capacity-changed", {"was": 0, "capacity": 1, "inFlight": 1})]
    world.now += 2.5
    release(world.driver, throttler_of(world.driver, first), first, world.now)
    world.driver.cancel(throttler_of(world.driver, third), third, world.now)
    assert world.take() == [("queue-ended", {"seconds": 2.5, "waited": 3})]
    release(world.driver, throttler_of(world.driver, second), second, world.now)
    assert world.take() == []


async def test_a_queue_ends_when_its_last_waiter_expires() -> None:
    world = World()
    revision = world.revision()
    world.listen()
    world.ask(revision, within=3.0)
    world.now += 3.0
    world.driver.carry_out(world.driver.throttler.run_due(world.now))
    assert world.take()[-1] == ("queue-ended", {"seconds": 3.0, "waited": 1})


async def test_a_queue_that_began_without_a_listener_is_published_with_its_next_request() -> None:
    world = World()
    revision = world.revision()
    world.ask(revision)
    world.now += 4.0
    world.listen()
    world.ask(revision)
    assert [(kind, what["waiting"]) for kind, what in world.take()] == [("queue-began", 2)]
    world.list_pods(POD)
    world.pass_probes()
    assert world.take()[-1] == ("queue-ended", {"seconds": 4.0, "waited": 2})


async def test_a_queue_that_ended_without_a_listener_is_not_published_later() -> None:
    world = World()
    revision = world.revision(concurrency=1)
    world.listen()
    ticket = world.ask(revision)
    world.deafen()
    world.driver.cancel(throttler_of(world.driver, ticket), ticket, world.now)
    world.listen()
    world.take()
    world.list_pods(POD)
    world.pass_probes()
    ticket, waiter = world.ask(revision), world.ask(revision)
    release(world.driver, throttler_of(world.driver, ticket), ticket, world.now)
    kinds = [kind for kind, _ in others(world.take())]
    assert kinds == ["capacity-changed", "queue-began", "queue-ended"]
    release(world.driver, throttler_of(world.driver, waiter), waiter, world.now)


HELLO = RevisionID("default", "hello")


class Ear:
    """Record the events; leave after ``patience`` events."""

    def __init__(self, events: Events, patience: int = 100) -> None:
        self.heard: list[tuple[EventKind, RevisionID, Mapping[str, Any]]] = []
        self._events = events
        self._patience = patience
        events.listen(self)

    def __call__(self, kind: EventKind, revision: RevisionID, what: Mapping[str, Any]) -> None:
        self.heard.append((kind, revision, what))
        if len(self.heard) == self._patience:
            self._events.leave(self)


def test_all_listeners_get_all_events_in_order() -> None:
    events = Events()
    ears = Ear(events), Ear(events)
    events.publish(EventKind.QUEUE_BEGAN, HELLO, {"reason": "no-endpoints"})
    events.publish(EventKind.QUEUE_ENDED, HELLO, {})
    for ear in ears:
        assert ear.heard == [
            (EventKind.QUEUE_BEGAN, HELLO, {"reason": "no-endpoints"}),
            (EventKind.QUEUE_ENDED, HELLO, {}),
        ]


def test_a_listener_that_leaves_during_an_event_takes_nothing_from_others() -> None:
    events = Events()
    hasty, patient = Ear(events, patience=1), Ear(events)
    for _ in range(2):
        events.publish(EventKind.QUEUE_ENDED, HELLO, {})
    assert len(hasty.heard) == 1
    assert len(patient.heard) == 2


def test_a_session_begins_with_the_first_listener_after_none() -> None:
    events = Events()
    first = Ear(events)
    began = events.session
    second = Ear(events)
    assert events.session == began
    events.leave(first)
    events.leave(second)
    Ear(events)
    assert events.session == began + 1


async def test_an_activator_that_stands_for_the_pods_is_no_cluster_ip() -> None:
    world = World(own_ip="10.9.0.2")
    world.listen()
    world.driver.set_revision(Revision(APP, container_concurrency=1, behind_queue_proxy=False))
    world.list_pods(POD)
    world.pass_probes()
    world.driver.set_activators(APP, {AppProtocol.HTTP1: ["10.9.0.1", "10.9.0.2"]})
    world.take()
    world.list_pods(POD, "10.0.0.2:8012")
    world.pass_probes()
    peers = [what for _, what in world.take() if what.get("uid") == "activator"]
    assert [what["clusterIP"] for what in peers] == [False]
