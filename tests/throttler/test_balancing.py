"""Which policy a revision has: by annotation, else by containerConcurrency as in Knative."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any, cast

import pytest

from activator import build
from tests.throttler.world import One, addresses, revision
from throttler.balancing import POLICIES, key_for, policy_for, policy_name
from throttler.lb_policy import FirstAvailable, Policy, RandomChoice2, RoundRobin
from throttler.model import HashKey, Policies
from throttler.pod import FreePods, PodTracker
from throttler.ticket import FAILED, NEUTRAL, SERVED, Outcome, Ticket


@pytest.mark.parametrize(
    ("container_concurrency", "name", "policy"),
    [
        (0, "random-choice-2", RandomChoice2),
        (1, "first-available", FirstAvailable),
        (3, "first-available", FirstAvailable),
        (4, "round-robin", RoundRobin),
        (1000, "round-robin", RoundRobin),
    ],
)
def test_the_default_follows_from_container_concurrency(
    container_concurrency: int, name: str, policy: type
) -> None:
    spec = revision(container_concurrency)
    assert policy_name(spec) == name
    assert type(policy_for(spec, random.random)) is policy


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("container_concurrency", [0, 1, 10])
def test_an_annotation_chooses_whatever_the_concurrency(
    name: str, container_concurrency: int
) -> None:
    spec = replace(revision(container_concurrency), policies=Policies(name, HashKey(b"x-user")))
    assert policy_name(spec) == name
    one = One(container_concurrency)
    one.throttler.set_revision(spec, one.now)
    one.healthy(addresses(3))
    tickets = one.requests(3)
    assert all(ticket.pod is not None for ticket in tickets)
    for ticket in tickets:
        one.release(ticket)


@pytest.mark.parametrize("name", POLICIES)
def test_a_key_is_wanted_by_the_policies_that_pick_by_it_alone(name: str) -> None:
    spec = replace(revision(), policies=Policies(name, HashKey(b"x-user")))
    assert key_for(spec) == (HashKey(b"x-user") if POLICIES[name].wants_key else None)
    assert key_for(revision()) is None


class Witness:
    """Records the calls that a policy gets; see ``witnessed``."""

    def __init__(self) -> None:
        Policy.__init__(cast(Any, self), follows=True)
        self.loads: list[tuple[int, int, bool]] = []
        self.ends: list[tuple[int, Outcome, float, float]] = []

    def pick(self, ticket: Ticket, pods: list[PodTracker], room: FreePods) -> PodTracker:
        return pods[room.next(0)]

    def changed(self, pod: PodTracker, has_free_slot: bool) -> None:
        self.loads.append((pod.number, pod.in_flight, has_free_slot))

    def ended(self, pod: PodTracker, ticket: Ticket, outcome: Outcome, now: float) -> bool:
        self.ends.append((pod.number, outcome, now - ticket.assigned, ticket.first_byte))
        return False


def witnessed(container_concurrency: int = 1) -> tuple[One, Any]:
    """Return a revision whose policy records; only the source has such a subclass."""
    one, witness = One(container_concurrency), type("Witness", (Witness, Policy), {})()
    one.throttler.slots.policy = one.throttler.slots.follower = witness
    one.healthy(addresses(2))
    one.now = 1.0
    return one, witness


of_the_source = pytest.mark.skipif(
    build.running() is build.Build.COMPILED, reason="no interpreted class inherits a compiled one"
)


@of_the_source
def test_a_policy_that_follows_gets_each_assignment_and_each_end() -> None:
    one, witness = witnessed()
    ticket = one.request()
    assert witness.loads == [(0, 1, False)]
    began = one.now
    ticket.first_byte = began + 0.5
    one.now = began + 1.0
    one.release(ticket)
    assert witness.loads[1:] == [(0, 0, True)]
    assert witness.ends == [(0, SERVED, one.now - began, began + 0.5)]


@of_the_source
def test_a_policy_gets_cancellations_and_failures_of_pods() -> None:
    one, witness = witnessed()
    left, failed = one.requests(2)
    one.throttler.cancel(left, one.now)
    one.throttler.requeue(failed, one.now)
    assert [(number, outcome) for number, outcome, *_ in witness.ends] == [
        (0, NEUTRAL),
        (1, FAILED),
    ]
    assert failed.pod is not None
    assert failed.pod.number == 0  # the request failed at the other pod


@of_the_source
def test_a_pod_that_has_failed_a_request_has_no_room_while_that_is_assigned() -> None:
    one, witness = witnessed(2)
    first = one.request()
    witness.loads.clear()
    one.throttler.requeue(first, one.now)
    assert witness.loads == [
        (0, 0, True),  # the ticket excludes the pod that lost its request
        (0, 0, False),  # avoided
        (1, 1, True),  # the other has the request
        (0, 0, True),  # avoided no longer
    ]


def test_a_policy_follows_the_annotation_while_requests_run_and_wait() -> None:
    one = One(1)
    one.healthy(addresses(2))
    running = one.requests(3)
    for name in POLICIES:
        spec = replace(revision(1), policies=Policies(name, HashKey(b"x-user")))
        one.throttler.set_revision(spec, one.now)
        assert one.throttler.queued.waiting == 1
    assert one.release(running[0]) == [running[2]]
    assert [ticket.pod and ticket.pod.in_flight for ticket in running] == [None, 1, 1]
