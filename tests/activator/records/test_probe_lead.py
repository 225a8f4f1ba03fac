"""How long pods were in use before Kubernetes listed them as ready."""

from __future__ import annotations

import pytest

from tests.activator.telemetry.world import World
from throttler.model import ReadinessRule

POD, OTHER = "10.0.0.1:8012", "10.0.0.2:8012"


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
    assert not leads(world)._since
