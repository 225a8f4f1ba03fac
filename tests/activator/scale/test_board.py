"""The published states, and their order with requests for replicas."""

from __future__ import annotations

import asyncio

import pytest

from activator.plain.annotations import Annotations, Owner
from activator.plain.service import parse
from activator.process.timers import Tasks
from activator.scale.board import PEAK, Board, Published
from activator.scale.decisions.plan import ACTIVATION_LEASE, Observed, Plan, Planner, WorkloadPhase
from activator.scale.decisions.record import Decided, Facts
from activator.scale.reports.load import Loads, Report, ServiceName
from tests.activator.plain.objects import service

HELLO, OTHER = ServiceName("shop", "hello"), ServiceName("shop", "other")
KEDA = Annotations(owner=Owner.KEDA)


class World:
    """One Service that KEDA scales, one activator, and the loop of the scaler."""

    def __init__(self) -> None:
        self.now = 100.0
        self.loads = Loads()
        self.board = Board(self.loads, lambda: self.now)
        self.planner = Planner(self.now)
        self.loads.connected(1)

    def report(self, load: float) -> None:
        self.loads.record(1, "a", [Report(HELLO, load, 0)], self.now)

    def decide(self, replicas: int, ready: int) -> int | None:
        load = self.loads.of(HELLO)
        busy = load.last_busy if load else float("-inf")
        current = self.loads.current(HELLO, self.now)
        seen = Observed(current, 0, 0, busy, None, replicas, ready)
        plan = self.planner.decide(KEDA, seen, self.now)
        self.board.publish(HELLO, active=plan.active, target=KEDA.scale.target)
        return plan.replicas

    @property
    def workload(self) -> Published:
        found = self.board.workload(HELLO)
        assert found is not None
        return found


def test_a_cold_start_is_active_from_the_first_report_until_its_lease_ends() -> None:
    world = World()
    assert world.decide(0, 0) is None
    assert world.workload == Published(False, 0, 100)
    world.report(3)
    assert world.decide(0, 0) == 1
    assert (world.workload.active, world.workload.shown) == (True, 3)
    world.now += 10
    world.decide(1, 0)
    assert world.workload.active
    world.now += 10
    world.decide(1, 1)
    world.now += ACTIVATION_LEASE - 1
    world.decide(1, 1)
    assert (world.workload.active, world.workload.shown) == (True, 1)
    world.now += 1
    world.decide(1, 1)
    assert (world.workload.active, world.workload.shown) == (False, 0)


def test_a_burst_between_two_reads_counts() -> None:
    world = World()
    for load in (40, 40, 0):
        world.report(load)
        world.now += 1
    world.now += PEAK - 5
    world.decide(1, 1)
    assert world.workload.shown == 40
    world.now += PEAK
    world.decide(1, 1)
    assert world.workload.shown == 0


@pytest.mark.parametrize(("load", "shown"), [(0, 1), (0.2, 1), (1, 1), (7.5, 7.5)])
def test_an_active_service_shows_at_least_one_request(load: float, shown: float) -> None:
    assert Published(True, load, 100).shown == shown
    assert Published(False, load, 100).shown == load


async def test_a_waiter_returns_at_each_change_and_at_the_end() -> None:
    world, tasks = World(), Tasks()
    seen: list[bool | None] = []

    async def follow() -> None:
        active: bool | None = None
        while (workload := world.board.workload(HELLO)) is not None:
            active = workload.active
            seen.append(active)
            await world.board.differs(HELLO, active)
        seen.append(None)

    world.board.publish(HELLO, active=False, target=1)
    tasks.start(follow())
    for active in (False, False, True, True, False):
        await asyncio.sleep(0)
        world.board.publish(HELLO, active=active, target=1)
        world.board.publish(OTHER, active=not active, target=1)
    await asyncio.sleep(0)
    world.board.leave(HELLO, 0)
    await tasks.finish(5)
    assert seen == [False, True, False, None]


async def test_the_loss_of_the_lead_ends_all_waiters() -> None:
    world, tasks = World(), Tasks()
    world.board.start(0)
    for name in (HELLO, OTHER):
        world.board.publish(name, active=True, target=1)
        tasks.start(world.board.differs(name, True))
    await asyncio.sleep(0)
    world.board.stop(0)
    await tasks.finish(5)
    assert not world.board.is_open
    assert world.board.workload(HELLO) is None


def test_the_services_of_a_namespace() -> None:
    world = World()
    for name in (OTHER, ServiceName("x", "hello"), HELLO):
        world.board.publish(name, active=True, target=1)
    assert [name for name, _ in world.board.of_namespace("shop")] == [HELLO, OTHER]
    assert list(world.board.of_namespace("none")) == []


def test_each_decision_is_published_until_the_service_is_gone() -> None:
    board = Board(Loads(), lambda: 0.0)
    board.start(0)
    assert board.is_open
    found = parse(service({"target_concurrency": "7"}))
    assert found is not None
    plan = Plan(None, None, None, False, True, WorkloadPhase.ASLEEP, 1.0)
    board.carry_out(HELLO, Decided(Facts(found, None, 0, 0), plan), 0)
    workload = board.workload(HELLO)
    assert workload is not None
    assert (workload.active, workload.target) == (True, 7)
    # Nothing was decided: the last state stays.
    board.carry_out(HELLO, Decided(Facts(found, None, 0, 0), None, "no-scalable-target"), 0)
    assert board.workload(HELLO) is not None
    board.leave(HELLO, 0)
    assert board.workload(HELLO) is None
    board.stop(0)
    assert not board.is_open
