"""When the Service of a workload must have the asleep mark, around each request to sleep."""

from __future__ import annotations

import pytest

from activator.discovery.api_server import ApiResponse, no_response
from activator.objects.fields import ObjectKey
from activator.scale.reports.load import Report, ServiceName
from tests.activator.plain.objects import service
from tests.activator.scale.decisions.engines import EngineWorld
from tests.activator.scale.decisions.test_engine import Recording
from tests.activator.scale.fake_api import OneObject, status
from tests.activator.scale.world import elapse

HELLO = ServiceName("shop", "hello")
PATH = "/apis/apps/v1/namespaces/shop/deployments/hello"
WORDS = {
    "target": "deployment/hello",
    "waker": "patch",
    "sleep_patch": '{"spec": {"paused": true}}',
    "wake_patch": '{"spec": {"paused": false}}',
    "idle_seconds": "10",
}


class World(EngineWorld):
    """An engine of one Service that is patched; its pod is ready throughout, as if parked."""

    def __init__(self, *, paused: bool = False) -> None:
        self.effect = Recording()
        self.one = OneObject(PATH, spec={"paused": paused})
        super().__init__(self.effect, api=self.one)
        self.loads.connected(1)
        self.put_service(is_marked=paused)
        labels = {"app": "hello"}
        spec = {"template": {"metadata": {"labels": labels}}}
        key = ObjectKey("Deployment", "shop", "hello")
        self.services.workloads.put(key, {"metadata": {"name": "hello"}, "spec": spec})
        pods = {
            "metadata": {"labels": {"kubernetes.io/service-name": "hello"}},
            "addressType": "IPv4",
            "ports": [{"name": "", "port": 8080}],
            "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": True}}],
        }
        self.services.readiness.put(ObjectKey("EndpointSlice", "shop", "s"), pods)
        self.engine.start(self.clock())

    def put_service(self, *, is_marked: bool) -> None:
        """Set or remove the mark, as the part that writes it does."""
        obj = service(WORDS)
        if is_marked:
            found = self.services.get(HELLO)
            words = found.service.words if found else ""
            if not words:
                self.services.put(ObjectKey("Service", "shop", "hello"), obj)
                found = self.services.get(HELLO)
                assert found is not None
                words = found.service.words
            obj["metadata"]["annotations"]["activator.dev/asleep"] = words
        self.services.put(ObjectKey("Service", "shop", "hello"), obj)
        self.engine.changed([HELLO])

    def busy(self) -> None:
        names = self.loads.record(1, "activator-1", [Report(HELLO, 1.0, 1.0)], self.clock())
        self.engine.busy(names)

    async def tick(self, seconds: float = 2.0) -> None:
        end = self.clock() + seconds
        while self.clock() < end:
            await elapse(2.0)
            self.engine.tick(self.clock())
        await elapse(0.01)

    async def closed(self) -> None:
        """Let time pass until the mark is wanted, and set it."""
        await self.tick(80)
        assert (self.marked, self.paused) == (True, False)
        self.put_service(is_marked=True)

    @property
    def marked(self) -> bool | None:
        plan = self.effect.decided[-1].plan
        return plan.marked if plan is not None else None

    @property
    def paused(self) -> bool:
        found: bool = self.one.object["spec"]["paused"]
        return found


async def test_the_workload_sleeps_two_seconds_after_the_mark_is_seen() -> None:
    world = World()
    await world.tick(80)
    assert (world.marked, world.paused) == (True, False)
    await world.tick(60)
    assert world.paused is False
    world.put_service(is_marked=True)
    await elapse(1.9)
    world.engine.tick(world.clock())
    await elapse(0.05)
    assert world.paused is False
    await world.tick(2)
    assert (world.marked, world.paused) == (True, True)


async def test_a_request_while_the_workload_falls_asleep_keeps_the_mark() -> None:
    world = World()
    await world.closed()
    world.one.script.extend([None, world.busy])
    await world.tick(4)
    # It fell asleep, then the request started it again; meanwhile the mark stayed.
    assert [patch["spec"]["paused"] for patch in world.one.patches] == [True, False]
    plans = [each.plan for each in world.effect.decided if each.plan is not None]
    first = next(n for n, plan in enumerate(plans) if plan.marked)
    states = [(plan.marked, plan.phase.value) for plan in plans[first:]]
    assert (False, "awake") not in states[: states.index((True, "asleep"))]
    assert states[-1] == (False, "awake")


@pytest.mark.parametrize("has_slept", [True, False])
async def test_after_a_lost_response_only_a_read_decides(has_slept: bool) -> None:
    world = World()
    await world.closed()

    def lose() -> ApiResponse:
        world.busy()
        if has_slept:
            world.one.change({"spec": {"paused": True}})
        return no_response("lost")

    world.one.script.extend([None, lose])
    await world.tick(4)
    assert (world.paused, world.marked) == (False, False)
    plans = [each.plan for each in world.effect.decided]
    # It was never known as awake between the lost response and the read.
    lost = plans.index(None, 1)
    after = next(plan for plan in plans[lost:] if plan is not None)
    assert after.marked is has_slept


async def test_a_refused_sleep_is_repeated_and_a_request_ends_the_closing() -> None:
    world = World()
    await world.closed()
    world.one.script.extend([None, status(409, "modified")] * 5)
    await world.tick(4)
    assert world.effect.decided[-1].reason in ("conflict", "")
    await world.tick(4)
    assert world.paused is True
    world.busy()
    await elapse(0.01)
    assert (world.marked, world.paused) == (False, False)


async def test_a_report_during_the_closing_is_decided_at_once() -> None:
    world = World()
    await world.closed()
    await elapse(0.5)
    world.busy()
    assert world.marked is False


async def test_pods_that_are_listed_as_ready_do_not_hide_a_request() -> None:
    world = World(paused=True)
    await elapse(0.01)
    assert world.engine.get(HELLO).facts.ready == 0  # type: ignore[union-attr] # it exists
    world.busy()
    await elapse(0.01)
    assert (world.marked, world.paused) == (False, False)
    assert world.engine.get(HELLO).facts.ready == 1  # type: ignore[union-attr] # it exists


async def test_max_scale_counts_as_one() -> None:
    world = World()
    obj = service(WORDS | {"min_scale": "3", "max_scale": "5", "initial_scale": "2"})
    world.services.put(ObjectKey("Service", "shop", "hello"), obj)
    world.engine.changed([HELLO])
    await world.tick(80)
    assert world.one.patches == []
    assert (world.marked, world.paused) == (False, False)
