"""The decisions about all Services: when each is made, by which load, and its effects."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from activator.objects.fields import ObjectKey
from activator.scale.decisions.engine import (
    MOST,
    NEW_LEADER,
    STEP,
    TICK,
    observe,
)
from activator.scale.decisions.plan import Observed, WorkloadPhase
from activator.scale.decisions.record import AGAIN, LOOK, Decided, Facts, Record, Workload
from activator.scale.part import Part
from activator.scale.reasons import ScaleReason
from activator.scale.reports.load import Loads, Report, ServiceName
from tests.activator.plain.objects import deployment, named, service
from tests.activator.scale.decisions.engines import EngineWorld
from tests.activator.scale.decisions.records import record, with_owner
from tests.activator.scale.fake_api import status
from tests.activator.scale.world import elapse

HELLO = ServiceName("shop", "hello")
SCALE = "/apis/apps/v1/namespaces/shop/deployments/hello/scale"


class Recording(Part):
    """A part that records its calls."""

    def __init__(self) -> None:
        self.decided: list[Decided] = []
        self.calls: list[str] = []

    def carry_out(self, name: ServiceName, decided: Decided, now: float) -> None:
        self.decided.append(decided)

    def leave(self, name: ServiceName, now: float) -> None:
        self.calls.append(f"remove {name.name}")

    def start(self, now: float) -> None:
        self.calls.append("start")

    def stop(self, now: float) -> None:
        self.calls.append("stop")


class Owners(Part):
    """A part that knows one other component."""

    def __init__(self, other: str) -> None:
        self.other = other

    def complete(self, name: ServiceName, facts: Facts) -> Facts:
        return with_owner(facts, self.other)


class World(EngineWorld):
    """An engine of one Service, in virtual time."""

    def __init__(self, replicas: int = 0, *parts: Part, **annotations: str) -> None:
        self.effect = Recording()
        super().__init__(*parts, self.effect, hello=replicas)
        self.loads.connected(1)
        self.put_service(**annotations)
        self.put_deployment(replicas)

    def put_service(
        self, name: str = "hello", type: str = "", created: str = "", **annotations: str
    ) -> None:
        obj = service(annotations, **({"type": type} if type else {}))
        obj["metadata"] |= {"name": name} | ({"creationTimestamp": created} if created else {})
        self.services.put(ObjectKey("Service", "shop", name), obj)

    def put_deployment(self, replicas: int) -> None:
        key = ObjectKey("Deployment", "shop", "hello")
        self.services.workloads.put(key, deployment(replicas=replicas))

    def put_ready(self, count: int) -> None:
        obj = {
            "metadata": {"labels": {"kubernetes.io/service-name": "hello"}},
            "addressType": "IPv4",
            "ports": [{"name": "", "port": 8080}],
            "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": True}}] * count,
        }
        self.services.readiness.put(ObjectKey("EndpointSlice", "shop", "s"), obj)
        self.engine.changed([HELLO])

    def busy(self, load: float = 1.0, name: ServiceName = HELLO) -> None:
        names = self.loads.record(1, "activator-1", [Report(name, load, 1.0)], self.clock())
        self.engine.busy(names)

    async def tick(self, seconds: float = TICK) -> None:
        """Let time pass, with a tick every two seconds."""
        end = self.clock() + seconds
        while self.clock() < end:
            await elapse(TICK)
            self.engine.tick(self.clock())
        await elapse(0.01)

    @property
    def patches(self) -> list[int]:
        return [patch["spec"]["replicas"] for patch in self.api.patches]

    @property
    def last(self) -> Decided:
        return self.effect.decided[-1]


async def test_a_follower_decides_nothing() -> None:
    world = World(min_scale="1")
    world.busy()
    await world.tick()
    assert world.api.requests == []
    assert world.effect.decided == []
    world.engine.start(world.clock())
    await elapse(0.01)
    assert world.patches == [1]
    assert world.effect.calls == ["start"]


async def test_a_leader_that_stops_decides_nothing_more() -> None:
    world = World()
    world.engine.start(world.clock())
    world.engine.stop(world.clock())
    world.busy()
    await world.tick()
    assert world.patches == []
    assert world.effect.calls == ["start", "stop"]
    assert world.engine.get(HELLO) is None


async def test_an_effect_gets_each_state_once() -> None:
    world = World()
    world.engine.start(world.clock())
    await world.tick(20)
    assert [each.plan.phase for each in world.effect.decided if each.plan] == [WorkloadPhase.ASLEEP]
    world.busy()
    await elapse(0.01)
    world.put_ready(1)
    await world.tick(2)
    assert world.last.facts.ready == 1
    assert world.last.facts.replicas == 1
    known = len(world.effect.decided)
    await world.tick(10)
    assert len(world.effect.decided) <= known + 2


async def test_a_deleted_service_leaves_the_effects() -> None:
    world = World()
    world.engine.start(world.clock())
    world.services.remove(ObjectKey("Service", "shop", "hello"))
    world.engine.changed([HELLO])
    assert world.effect.calls == ["start", "remove hello"]
    world.busy()
    await world.tick()
    assert world.patches == []


async def test_a_refused_service_has_the_reason_and_is_not_scaled() -> None:
    world = World()
    world.put_service(type="ExternalName")
    world.engine.start(world.clock())
    world.busy()
    await world.tick()
    assert world.patches == []
    assert (world.last.reason, world.last.plan) == ("service-refused", None)
    assert "ExternalName" in world.last.detail


async def test_another_owner_of_the_workload_is_a_reason_not_to_remove_pods() -> None:
    world = World(1, Owners("HPA shop/hello"), idle_seconds="1")
    world.engine.start(world.clock())
    world.put_ready(1)
    await world.tick(NEW_LEADER + 60)
    assert world.patches == []
    assert world.last.reason == "two-owners"
    assert "HPA shop/hello" in world.last.detail


@pytest.mark.parametrize(
    ("annotations", "unit"),
    [({}, "request"), ({"protocol": "tcp", "listen_port": "6379"}, "connection")],
)
async def test_a_younger_service_of_the_workload_adds_and_removes_no_pods_and_says_so(
    annotations: dict[str, str], unit: str
) -> None:
    world = World(1)
    world.put_service("newer", min_scale="5", created="2026-05-01T00:00:00Z", **annotations)
    world.engine.changed([HELLO, ServiceName("shop", "newer")])
    world.engine.start(world.clock())
    world.put_ready(1)
    await world.tick(10)
    assert world.patches == []
    decided = next(each for each in world.effect.decided if each.reason == "two-owners")
    assert decided.detail == (
        "Service shop/hello has the same workload and is older, so its annotations decide: this "
        f"Service adds and removes no replicas, but its first {unit} starts the workload; remove "
        "activator.dev/enabled from one of them"
    )


@pytest.mark.parametrize("hold", [ScaleReason.STALE_STATE, ScaleReason.ACTIVATORS_UNREACHABLE])
async def test_a_frozen_engine_removes_no_pods_and_adds_some(hold: ScaleReason) -> None:
    world = World(2, idle_seconds="1", target_concurrency="1")
    world.is_stale = hold is ScaleReason.STALE_STATE
    if hold is ScaleReason.ACTIVATORS_UNREACHABLE:
        world.loads.disconnected(1, world.clock())
    world.engine.start(world.clock())
    world.put_ready(2)
    await world.tick(200)
    assert world.patches == []
    assert world.last.reason == hold
    if hold is ScaleReason.ACTIVATORS_UNREACHABLE:
        world.loads.connected(1)
    world.busy(30)
    await world.tick(4)
    assert world.patches
    assert world.patches[0] > 2


async def test_a_refused_change_is_not_repeated_each_tick() -> None:
    world = World(1, idle_seconds="1")
    world.engine.start(world.clock())
    world.put_ready(1)
    await world.tick(NEW_LEADER - 4)
    world.api.script.extend([status(403, "forbidden")] * 100)
    before = len(world.api.requests)
    await world.tick(AGAIN * 4)
    assert 3 <= len(world.api.requests) - before <= 6
    assert world.last.reason == "scale-forbidden"
    world.api.script.clear()
    await world.tick(AGAIN + TICK)
    assert world.patches == [0]
    assert world.last.reason == ""


@pytest.mark.parametrize(
    ("step", "reason", "after_a_read"),
    [
        (status(403, "no"), "scale-forbidden", "scale-forbidden"),
        (status(422, "no"), "scale-refused", "scale-refused"),
        (status(500, "no"), "api-server-unavailable", ""),
    ],
)
async def test_a_failed_cold_start_is_remembered_after_its_client_has_left(
    step: Any, reason: str, after_a_read: str
) -> None:
    world = World()
    world.engine.start(world.clock())
    world.api.script.extend([None, step] * 100)
    world.busy()
    await elapse(0.01)
    assert world.last.reason == reason
    world.busy(0.0)
    await world.tick(90.0)  # the mean of the load is above zero for a while
    world.api.script.clear()
    await world.tick(60.0)
    assert world.last.reason == after_a_read
    details = {each.detail for each in world.effect.decided if each.reason == reason}
    assert len(details - {""}) == 1, "each one is an Event"
    world.busy()
    await elapse(0.01)
    assert (world.patches[-1:], world.last.reason) == ([1], "")


async def test_a_read_does_not_prove_that_a_refused_cold_start_is_allowed() -> None:
    """Where no watch shows the workload, the engine reads it again and again."""
    world = World(target="replicaset/hello")
    path = "/apis/apps/v1/namespaces/shop/replicasets/hello/scale"
    world.api.replicas[path] = 0
    world.engine.start(world.clock())
    await elapse(0.01)
    world.api.script.extend([None, status(403, "no")])
    world.busy()
    await elapse(0.01)
    world.busy(0.0)
    world.busy(0.0)  # the client has left; the larger of two reports counts
    before = world.api.requests.count(("GET", path))
    await world.tick(2 * LOOK)
    assert world.api.requests.count(("GET", path)) > before
    assert world.last.reason == "scale-forbidden"


async def test_a_workload_without_a_watch_is_read_and_scaled() -> None:
    world = World(target="replicaset/hello")
    path = "/apis/apps/v1/namespaces/shop/replicasets/hello/scale"
    world.api.replicas[path] = 0
    world.engine.start(world.clock())
    assert world.last.reason == "replicas-unknown"
    await world.tick(LOOK + TICK)
    assert world.api.requests.count(("GET", path)) == 2
    world.busy()
    await elapse(0.01)
    assert world.patches == [1]
    assert world.last.facts.replicas == 1
    world.api.set(path, 0)  # another component
    world.busy()
    await elapse(0.01)
    world.busy()
    await world.tick(4)
    assert world.patches == [1, 1]


async def test_a_replica_that_another_component_made_is_noticed() -> None:
    world = World()
    world.engine.start(world.clock())
    world.api.set(SCALE, 3)
    world.busy()
    await elapse(0.01)
    assert world.patches == []
    assert world.last.facts.replicas == 3


@pytest.mark.parametrize("owner", ["self", "hpa", "keda", "none"])
async def test_a_cold_start_has_its_rule_for_each_owner_also_if_its_event_comes_first(
    owner: str,
) -> None:
    world = World(owner=owner)
    world.engine.start(world.clock())

    def event_comes_first() -> None:
        world.put_deployment(1)
        world.engine.changed([HELLO])

    world.api.script.extend([None, event_comes_first])
    world.busy()
    await elapse(0.01)
    record = world.engine.get(HELLO)
    assert record is not None
    change = record.workload.change
    assert change is not None
    assert (change.after, change.why) == (1, "cold-start")


async def test_loads_of_unknown_services_do_not_stay() -> None:
    world = World()
    world.engine.start(world.clock())
    for number in range(50):
        world.busy(name=ServiceName("shop", f"unknown-{number}"))
    await world.tick(200)
    assert all(
        world.loads.of(ServiceName("shop", f"unknown-{number}")) is None for number in range(50)
    )


async def test_a_change_is_logged_and_counted_with_its_rule(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    world = World()
    world.engine.start(world.clock())
    world.busy()
    await elapse(0.01)
    assert world.engine.counters.changes == {"cold-start": 1}
    record = next(each for each in caplog.records if "0 -> 1" in each.getMessage())
    assert (record.service_namespace, record.service_name) == ("shop", "hello")  # type: ignore[attr-defined] # extra


async def test_a_workload_of_two_services_starts_with_the_replicas_of_the_oldest() -> None:
    world = World(min_scale="2")
    young = ServiceName("shop", "young")
    world.put_service("young", target="deployment/hello", initial_scale="5")
    world.engine.start(world.clock())
    world.put_ready(0)
    world.engine.changed([young])
    world.busy(name=young)
    await elapse(0.01)
    assert world.patches == [2]


async def test_a_request_that_changed_nothing_explains_no_later_change() -> None:
    world = World(idle_seconds="10")
    young = ServiceName("shop", "young")
    world.put_service("young", target="deployment/hello", idle_seconds="10")
    world.engine.start(world.clock())
    world.api.replicas = dict.fromkeys(world.api.replicas, 1)  # by another hand
    world.busy(name=young)
    await elapse(0.01)
    assert world.patches == []
    world.put_ready(1)
    world.engine.changed([HELLO, young])
    world.busy(0, name=young)
    await world.tick(200)
    assert world.patches == [0]
    record = world.engine.get(young)
    assert record is not None
    change = record.workload.change
    assert change is not None
    assert (change.after, change.why) == (0, "idle")


# -- steps ----------------------------------------------------------------------------------------


def many(world: World, count: int) -> None:
    """Add Services of one workload."""
    for number in range(count):
        world.put_service(f"hello-{number}")


def all_busy(world: World) -> None:
    """Let each Service have a request, so that the next tick decides about it."""
    for name in world.engine.names(""):
        world.busy(name=name)
    world.effect.decided.clear()


@pytest.mark.untraced
async def test_no_step_of_a_start_or_a_tick_decides_about_many_services() -> None:
    world = World(replicas=1)
    many(world, 3 * STEP)
    for begin in (world.engine.starting, world.engine.ticking):
        sizes = []
        for _ in begin(world.clock()):
            sizes.append(len(world.effect.decided))
            world.effect.decided.clear()
        assert max(sizes) == STEP
        assert sum(sizes) >= 3 * STEP
        all_busy(world)


@pytest.mark.untraced
async def test_the_first_decision_follows_when_all_facts_are_known() -> None:
    world = World()
    many(world, 2 * STEP)
    starting = world.engine.starting(world.clock())
    next(starting)
    world.busy()
    world.engine.changed([HELLO])
    world.engine.tick(world.clock())
    assert world.effect.decided == []
    for _ in starting:
        pass
    assert len(world.effect.decided) >= 2 * STEP + 1
    assert world.effect.calls == ["start"]


@pytest.mark.untraced
async def test_a_change_between_two_steps_of_a_start_counts() -> None:
    world = World()
    many(world, 2 * STEP)
    starting = world.engine.starting(world.clock())
    next(starting)
    world.put_deployment(7)
    world.engine.changed([HELLO])
    for _ in starting:
        pass
    decided = world.effect.decided
    assert {each.facts.replicas for each in decided if each.facts.service.key.name == "hello"} == {
        7
    }


@pytest.mark.untraced
async def test_a_stop_ends_the_steps_of_a_start_and_of_a_tick() -> None:
    world = World(replicas=1)
    many(world, 2 * STEP)
    starting = world.engine.starting(world.clock())
    next(starting)
    world.engine.stop(world.clock())
    assert list(starting) == []
    world.engine.start(world.clock())
    all_busy(world)
    ticking = world.engine.ticking(world.clock())
    next(ticking)
    world.engine.stop(world.clock())
    world.effect.decided.clear()
    for _ in ticking:
        pass
    assert world.effect.decided == []
    assert world.effect.calls == ["stop", "start", "stop"]


ONE, TWO = ServiceName("shop", "one"), ServiceName("shop", "two")


async def test_services_join_a_workload_and_leave_it() -> None:
    world = World()
    world.put_service("other", target="deployment/hello")
    world.engine.start(world.clock())
    other = ServiceName("shop", "other")

    def sharing(name: ServiceName) -> list[str]:
        """Return the names of the Services that have the workload of a Service."""
        found = world.engine.get(name)
        assert found is not None
        return sorted(each.name.name for each in found.workload.records)

    assert sharing(HELLO) == sharing(other) == ["hello", "other"]
    world.put_service("other", target="statefulset/other")
    world.engine.changed([other])
    assert (sharing(HELLO), sharing(other)) == (["hello"], [])
    world.put_service("other", target="replicaset/other")
    world.engine.changed([other])
    assert (sharing(HELLO), sharing(other)) == (["hello"], ["other"])
    world.put_service("other", target="deployment/hello")
    world.engine.changed([other])
    assert sharing(HELLO) == sharing(other) == ["hello", "other"]
    world.services.remove(ObjectKey("Service", "shop", "other"))
    world.engine.changed([other])
    assert sharing(HELLO) == ["hello"]


class SlicePart(Part):
    """A part with a takeover slice for each Service."""

    def slice_since(self, name: ServiceName, now: float) -> float | None:
        return 5.0


def seen(records: dict[ServiceName, Record], name: ServiceName, **loads: float) -> Observed:
    known = Loads()
    known.connected(1)
    reports = [Report(ServiceName("shop", service), load, 1.0) for service, load in loads.items()]
    known.record(1, "activator-1", reports, 10.0)
    workload = Workload(records=tuple(records.values()))
    for each_name, each in records.items():
        each.name, each.workload = each_name, workload
    parts = [Part(), SlicePart()]
    return observe(records[name], known, parts, 11.0, ScaleReason.STALE_STATE)


def test_a_service_without_a_report_has_no_load() -> None:
    found = seen({ONE: record(replicas=3, ready=2, lease=7.0)}, ONE)
    assert (found.current, found.stable, found.panic, found.last_busy) == (0, 0, 0, float("-inf"))
    assert (found.replicas, found.ready, found.lease, found.frozen) == (
        3,
        2,
        7.0,
        ScaleReason.STALE_STATE,
    )
    assert (found.other_owner, found.decides, found.slice_since) == ("", True, None)


def test_services_with_one_workload_add_their_loads_and_the_oldest_decides() -> None:
    records = {TWO: record(), ONE: record()}
    first = seen(records, ONE, one=2.0, two=3.0)
    assert (first.current, first.last_busy, first.decides) == (5.0, 10.0, True)
    second = seen(records, TWO, one=2.0, two=3.0)
    assert (second.current, second.stable) == (5.0, first.stable)
    assert (second.decides, second.other_owner) == (False, "Service shop/one")


@pytest.mark.parametrize(("asks", "since"), [({}, None), ({"route": "takeover"}, 5.0)])
def test_a_slice_counts_with_the_route_takeover_alone(asks: Any, since: float | None) -> None:
    assert seen({ONE: record(asks=asks)}, ONE).slice_since == since


class Turns(EngineWorld, Part):
    """An engine of many Services, and the ones that it decides about."""

    def __init__(self, names: Iterable[ServiceName]) -> None:
        super().__init__(self)
        self.decided: list[ServiceName] = []
        for name in names:
            obj = named(service(), name.name)
            self.services.put(ObjectKey("Service", "shop", name.name), obj)

    def complete(self, name: ServiceName, facts: Facts) -> Facts:
        self.decided.append(name)
        return facts

    def start(self, now: float) -> None:
        self.decided.clear()


async def test_each_service_is_decided_once_at_the_end_of_the_turn() -> None:
    world = Turns([ONE, TWO])
    world.engine.start(world.clock())
    world.engine.later([TWO])
    world.engine.later([ONE, TWO])
    assert world.decided == []
    await asyncio.sleep(0)
    assert world.decided == [TWO, ONE]
    world.engine.later([ONE])
    await asyncio.sleep(0)
    assert world.decided == [TWO, ONE, ONE]


async def test_services_that_are_decided_now_are_not_decided_again() -> None:
    world = Turns([ONE])
    world.engine.later([ONE])
    world.engine.start(world.clock())
    await asyncio.sleep(0)
    assert world.decided == []


async def test_thousands_of_changes_are_decided_in_several_turns() -> None:
    names = [ServiceName("shop", f"hello-{number}") for number in range(2 * MOST + 1)]
    world = Turns([*names, ONE])
    world.engine.start(world.clock())
    world.engine.later(names)
    sizes = []
    for _ in range(3):
        world.decided.clear()
        await asyncio.sleep(0)
        sizes.append(len(world.decided))
        world.engine.later([ONE])
    assert sizes == [MOST, MOST, 2]
    await asyncio.sleep(0)
    assert world.decided[-1] == ONE
