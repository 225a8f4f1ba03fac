"""A Service whose workload sleeps: its pods get neither requests nor probes, though listed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.throttler.world import OWNER, addresses, endpoints, revision
from throttler.model import AppProtocol, ReadinessRule, Revision, RevisionID, RevisionKind
from throttler.pod import PodTracker
from throttler.pod_rule import verdict
from throttler.reason import Reason
from throttler.throttler import Limits, Throttler
from throttler.ticket import ASSIGNED, QUEUED, Changes, Ticket
from throttler.wait_reason import waiting_reason

A, B = addresses(2)
SERVICE = RevisionID("shop", "hello", RevisionKind.SERVICE)


class World:
    def __init__(self, readiness: ReadinessRule = ReadinessRule.PROBE, **more: bool) -> None:
        self.throttler = Throttler(Limits(), random=lambda: 0.5)
        self.spec: Revision = revision(id=SERVICE, behind_queue_proxy=False, readiness=readiness)
        self.set_asleep(more.get("asleep", False))

    def set_asleep(self, asleep: bool) -> Changes:
        self.spec = replace(self.spec, asleep=asleep)
        return self.throttler.set_revision(self.spec, 1.0)

    def list_ready(self, *listed: str) -> Changes:
        found = {AppProtocol.HTTP1: endpoints(listed)}
        return self.throttler.set_endpoints(SERVICE, found, 1.0)

    def pods(self) -> list[PodTracker]:
        return list(self.throttler.find(*SERVICE).backends.pods.values())

    def passed(self, pod: PodTracker, epoch: int | None = None) -> Changes | None:
        one = self.throttler.find(*SERVICE)
        return one.probe_passed(pod, pod.epoch if epoch is None else epoch, 2.0)

    def request(self) -> Ticket:
        ticket = Ticket(OWNER, 100.0)
        self.throttler.find(*SERVICE).admit(ticket, 2.0)
        return ticket

    def reason(self, lost: bool = False) -> tuple[Reason, str]:
        return waiting_reason(self.throttler.find(*SERVICE), lost)


def test_a_pod_that_passed_is_not_used_while_its_workload_sleeps() -> None:
    world = World()
    world.list_ready(A)
    (pod,) = world.pods()
    world.passed(pod)
    assert world.request().state is ASSIGNED
    before = pod.epoch
    assert world.set_asleep(True).probe == []
    ticket = world.request()
    assert ticket.state is QUEUED
    assert (pod.wants_probe, world.reason()) == (False, (Reason.PODS_ASLEEP, ""))
    assert world.passed(pod, before) is None
    assert world.passed(pod) is None
    assert ticket.state is QUEUED
    found = verdict(pod)
    assert (found.decision.value, found.rule.value) == ("wait", "workload-sleeps")
    assert found.sentence == (
        "Waits, without probes: its Service has the annotation activator.dev/asleep, so the "
        "workload sleeps, or has not confirmed yet that it is awake."
    )


def test_a_workload_that_wakes_needs_a_fresh_probe() -> None:
    world = World()
    world.list_ready(A)
    (pod,) = world.pods()
    world.passed(pod)
    before = pod.epoch
    world.set_asleep(True)
    ticket = world.request()
    assert pod in world.set_asleep(False).probe
    assert ticket.state is QUEUED
    assert world.passed(pod, before) is None, "this probe is older than the sleep"
    changes = world.passed(pod)
    assert changes is not None
    assert (changes.assigned, ticket.state) == ([ticket], ASSIGNED)


def test_a_process_that_starts_while_the_workload_sleeps_probes_nothing() -> None:
    world = World(asleep=True)
    assert world.list_ready(A, B).probe == []
    assert world.request().state is QUEUED
    assert len(world.set_asleep(False).probe) >= 2


def test_pods_without_probes_are_used_only_when_the_mark_is_gone() -> None:
    world = World(ReadinessRule.NO_PROBE, asleep=True)
    world.list_ready(A)
    ticket = world.request()
    assert ticket.state is QUEUED
    assert world.set_asleep(False).assigned == [ticket]


@pytest.mark.parametrize("lost", [True, False])
def test_the_scaler_is_named_if_nothing_can_wake_the_pods(lost: bool) -> None:
    world = World(asleep=True)
    assert world.reason(lost)[0] is (Reason.SCALER_UNREACHABLE if lost else Reason.NO_ENDPOINTS)
    world.list_ready(A)
    detail = "the activator cannot reach `activator scale`, which wakes them" if lost else ""
    assert world.reason(lost) == (Reason.PODS_ASLEEP, detail)
