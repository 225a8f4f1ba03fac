"""Objects in every order, through inventory, driver and throttler: what a request would find.

Knative's activator has four faults here. It drops Endpoints that come before their Revision, and
keeps the pods of deleted Endpoints. It loses the pods of a Revision that is deleted and created
again. It ends at a negative containerConcurrency.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import permutations
from typing import Any

import pytest

from activator.autoscaler.concurrency import ConcurrencyReporter
from activator.discovery.inventory import Inventory
from activator.discovery.rejections import Rejection
from activator.driver import Driver
from activator.knative.system_objects import SystemObjects
from activator.records.entries import Entries
from tests.activator.discovery.recording import (
    A,
    private,
    public,
    replace,
    revision,
    service,
    slice_of,
)
from tests.rows import in_one_test
from throttler.capacity import ActivatorShare
from throttler.errors import RevisionNotFound
from throttler.pod import PodTracker
from throttler.reason import Reason
from throttler.revision import RevisionThrottler
from throttler.throttler import Limits, Throttler
from throttler.ticket import Ticket

OWN_IP = "10.1.0.2"
NO_SYSTEM_OBJECTS = SystemObjects({}, {}, lambda pems: None)


class World:
    """An activator without sockets."""

    def __init__(self) -> None:
        throttler = Throttler(Limits(), random=lambda: 0.0, own_ip=OWN_IP)
        entries = Entries(throttler, ConcurrencyReporter(lambda _: None).load)
        self.driver = Driver(throttler, entries, clock=lambda: 0.0)
        self.driver.prober = self.driver.pools = self
        self.rejections: list[Rejection] = []
        self.inventory = Inventory(self.driver, NO_SYSTEM_OBJECTS, self.rejections.append)

    def request_began(self, now: float) -> None: ...
    def request_ended(self, now: float) -> None: ...
    def probe(self, pod: PodTracker) -> None: ...
    def hurry(self, revision: RevisionThrottler) -> None: ...
    def follow(self, pods: Iterable[PodTracker]) -> None:
        """See activator.driver.Pools."""

    def forget(self, pod: PodTracker) -> None: ...

    def apply(self, *objects: dict[str, Any]) -> None:
        for obj in objects:
            self.inventory.apply(obj)

    def throttler(self) -> RevisionThrottler:
        return self.driver.entries.find(b"default", b"a").throttler

    def pods(self) -> list[str]:
        return sorted(pod.address for pod in self.throttler().backends.pods.values())


@pytest.fixture
def world() -> World:
    return World()


class Owner:
    def ticket_assigned(self) -> None: ...
    def ticket_expired(self, reason: Reason, detail: str) -> None: ...


@in_one_test("order", list(permutations(range(4))))
def test_pods_and_share_are_known_whatever_comes_first(order: tuple[int, ...]) -> None:
    world = World()
    objects = [revision(containerConcurrency=1), private("10.0.0.1", "10.0.0.2"), service()]
    objects.append(public("10.1.0.1", OWN_IP, "10.1.0.3"))
    world.apply(*(objects[index] for index in order))
    assert world.pods() == ["10.0.0.1:8012", "10.0.0.2:8012"]
    assert world.throttler().share == ActivatorShare(index=1, count=3)


def test_slices_that_come_before_their_revision_are_kept_too(world: World) -> None:
    world.apply(slice_of("10.0.0.1"))
    world.apply(slice_of("10.1.0.1", OWN_IP, name="public", service_type="Public"))
    world.apply(revision(containerConcurrency=1))
    assert world.pods() == ["10.0.0.1:8012"]
    assert world.throttler().share == ActivatorShare(index=1, count=2)


@pytest.mark.parametrize("uid", ["u1", "u2"])
def test_a_revision_that_is_created_again_finds_its_pods_without_an_event_of_theirs(
    world: World, uid: str
) -> None:
    world.apply(revision(uid="u1"), private("10.0.0.1"), public(OWN_IP))
    world.inventory.remove("Revision", "default", "a", uid="u1")
    with pytest.raises(RevisionNotFound):
        world.throttler()
    world.apply(revision(uid=uid))
    assert world.pods() == ["10.0.0.1:8012"]
    assert world.throttler().share == ActivatorShare(index=0, count=1)


def test_deletion_and_creation_in_one_list_take_the_new_limit(world: World) -> None:
    world.apply(revision(uid="u1", version="5", containerConcurrency=1), private("10.0.0.1"))
    replace(world.inventory, "Revision", [revision(uid="u2", version="9", containerConcurrency=7)])
    found = world.throttler().revision
    assert (found.uid, found.container_concurrency) == ("u2", 7)
    assert world.pods() == ["10.0.0.1:8012"]


def test_a_revision_that_went_unseen_is_gone_after_the_next_list(world: World) -> None:
    world.apply(revision(), private("10.0.0.1"))
    replace(world.inventory, "Revision", [])
    with pytest.raises(RevisionNotFound):
        world.throttler()
    assert list(world.driver.throttler) == []


def test_deleted_endpoints_leave_no_pod(world: World) -> None:
    world.apply(revision(), private("10.0.0.1"))
    world.inventory.remove("Endpoints", "default", "a-private")
    assert world.pods() == []


async def test_a_request_waits_through_deleted_endpoints_and_gets_the_next_pod(
    world: World,
) -> None:
    world.apply(revision(containerConcurrency=1), private("10.0.0.1"))
    throttler = world.throttler()
    ticket = Ticket(Owner(), deadline=300.0)
    assert throttler.admit(ticket, 0.0) is None
    world.inventory.remove("Endpoints", "default", "a-private")
    world.apply(private("10.0.0.2"))
    (pod,) = throttler.backends.pods.values()
    world.driver.probe_passed(pod, pod.epoch)
    assert ticket.pod is pod
    world.driver.close()


@pytest.mark.parametrize("limit", [-1, -(2**31), 2**31, "5", 1.5, True])
def test_a_wrong_limit_is_a_rejection_and_changes_nothing(world: World, limit: Any) -> None:
    world.apply(revision(containerConcurrency=3), private("10.0.0.1"))
    world.apply(revision(containerConcurrency=limit), revision("b", containerConcurrency=limit))
    assert world.throttler().revision.container_concurrency == 3
    assert world.pods() == ["10.0.0.1:8012"]
    with pytest.raises(RevisionNotFound):
        world.driver.entries.find(b"default", b"b")
    assert [rejection.name for rejection in world.rejections] == ["a", "b"]
    assert "spec.containerConcurrency: expected an integer" in world.rejections[0].reason
    world.apply(revision(containerConcurrency=4))
    assert world.throttler().revision.container_concurrency == 4


def test_one_wrong_object_of_a_list_keeps_the_others_good(world: World) -> None:
    replace(world.inventory, "Revision", [revision("b", containerConcurrency=-1), revision()])
    world.apply(private("10.0.0.1"))
    assert world.pods() == ["10.0.0.1:8012"]
    assert [throttler.revision.id for throttler in world.driver.throttler] == [A]
