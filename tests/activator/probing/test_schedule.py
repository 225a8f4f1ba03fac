"""What one pod's probes teach its schedule; test_prober.py has the rest, with all pods."""

from __future__ import annotations

from math import inf

import pytest

from activator.probing.prober import MAX_TIMEOUT, MIN_TIMEOUT_BUSY, ROUND_TRIPS, Schedule
from tests.activator.telemetry.world import World
from throttler.pod import PodTracker, delay_after_not_ready, delay_after_tls


@pytest.fixture
def pod() -> PodTracker:
    world = World()
    (pod,) = world.healthy(world.revision(), "10.0.0.1:8012")
    return pod


def made(pod: PodTracker, timeout: float = 0.3) -> Schedule:
    return Schedule(pod, timeout, lambda schedule, now: None)


def test_the_time_out_follows_the_round_trips_within_its_limits(pod: PodTracker) -> None:
    schedule = made(pod)
    assert (schedule.timeout, schedule.due) == (0.3, inf)
    schedule.ended("", 0.2)
    assert schedule.timeout == ROUND_TRIPS * 0.2
    for now in (0.0, 100.0):
        schedule.ended("", now)
        assert 0.3 <= schedule.timeout <= MAX_TIMEOUT
    assert schedule.timeout == MAX_TIMEOUT


@pytest.mark.parametrize(
    ("kind", "timeout"), [("timeout", 0.6), ("connect-timeout", 0.6), ("connect-failed", 0.3)]
)
def test_a_late_response_doubles_the_time_out(pod: PodTracker, kind: str, timeout: float) -> None:
    schedule = made(pod)
    schedule.ended(kind, 0.0)
    assert schedule.timeout == timeout
    for _ in range(9):
        schedule.ended("timeout", 0.0)
    assert schedule.timeout == MAX_TIMEOUT


def test_a_busy_healthy_pod_has_more_time(pod: PodTracker) -> None:
    schedule = made(pod)
    assert schedule.next_timeout == 0.3
    pod.in_flight = 1
    assert schedule.next_timeout == MIN_TIMEOUT_BUSY


def test_failures_of_one_kind_in_a_row_leave_the_pod_alone_for_longer(pod: PodTracker) -> None:
    schedule = made(pod)
    for count in (1, 2, 3):
        schedule.ended("tls-failed", 10.0)
        assert schedule.quiet_until == 10 + delay_after_tls(count)
    schedule.ended("bad-status", 10.0)
    least = pod.config.revision.probe.least_interval
    assert schedule.tls_failures == 0
    assert schedule.quiet_until == 10 + delay_after_not_ready(1, 10.0, least)
    schedule.ended("", 10.0)
    assert schedule.not_ready == 0
