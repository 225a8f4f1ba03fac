"""The asleep mark by the whole program: it comes before sleep, goes after it, and heals."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from activator.lab.control_plane.api import ApiKind
from tests.activator.scale.world import (
    Activator,
    Cluster,
    Running,
    cluster,
    elapse,
    leader,
    scaler,
    until,
)

SANDBOXES: Final = ApiKind("agents.x-k8s.io", "v1beta1", "sandboxes", "Sandbox", is_custom=True)
BOXES: Final = "/apis/agents.x-k8s.io/v1beta1/namespaces/shop/sandboxes"
TARGET: Final = "agents.x-k8s.io/v1beta1/Sandbox/box"
SERVICE: Final = "/api/v1/namespaces/shop/services/hello"


class World:
    """A Sandbox behind the Service shop/hello, with one pod while it runs."""

    def __init__(self, kube: Cluster) -> None:
        self.kube = kube
        self.plane = kube.plane

    async def add(self, mode: str = "Running", **annotations: str) -> None:
        body = {"metadata": {"name": "box", "namespace": "shop"}, "spec": {"operatingMode": mode}}
        await self.kube.send("POST", BOXES, body)
        given: dict[str, Any] = {"target": TARGET, "idle_seconds": "10", **annotations}
        await self.kube.add("hello", **given)
        await self.kube.set_ready("hello", int(mode == "Running"))

    async def set_mode(self, mode: str, **status: Any) -> None:
        await self.kube.send("PATCH", f"{BOXES}/box", {"spec": {"operatingMode": mode}, **status})

    def mode(self) -> str:
        return str(self._get(BOXES, "box")["spec"]["operatingMode"])

    def mark(self) -> str | None:
        found: str | None = self._get(SERVICE.rpartition("/")[0], "hello")["metadata"][
            "annotations"
        ].get("activator.dev/asleep")
        return found

    def _get(self, path: str, name: str) -> Any:
        place = self.plane.resources.find(path)
        assert place is not None
        found = self.plane.store.get(place.resource, "shop", name)
        assert found is not None
        return found

    async def asleep(self) -> None:
        await until(lambda: self.mode() == "Suspended", "the object sleeps", within=200)
        await self.kube.set_ready("hello", 0)


@asynccontextmanager
async def world(folder: Path) -> AsyncIterator[World]:
    async with cluster(folder, kinds=[SANDBOXES]) as kube:
        yield World(kube)


@asynccontextmanager
async def deciding(of: World, pod: str = "scale-1") -> AsyncIterator[Running]:
    """Run a scaler to which an activator reports: without reports nothing sleeps."""
    async with leader(of.kube, pod) as running, running.activator() as activator:
        await activator.report(1)
        yield running


def now() -> float:
    return asyncio.get_running_loop().time()


async def wakes_in_vain(of: World, activator: Activator) -> float:
    """Let the object sleep, and wake it; return the seconds until it sleeps again, unconfirmed."""
    await activator.report(1)
    await of.asleep()
    await activator.report(1)
    await until(lambda: of.mode() == "Running", "it runs", within=1)
    began = now()
    await until(lambda: of.mode() == "Suspended", "it sleeps again", within=100)
    return now() - began


async def test_the_mark_comes_before_sleep_and_goes_after_the_object_is_awake(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with world(tmp_path) as of:
        await of.add()
        async with leader(of.kube) as running, running.activator() as activator:
            await activator.report(1)
            await until(of.mark, "a mark", within=200)
            marked = now()
            assert of.mode() == "Running"
            view = await running.service()
            assert (view["phase"], view["reason"]) == ("closing", "taking-over")
            await of.asleep()
            assert 1.9 < now() - marked < 3
            assert json.loads(of.mark() or "") == {"target": TARGET}
            await elapse(5)
            assert (await running.service())["phase"] == "asleep"
            await activator.report(1)
            await until(lambda: of.mode() == "Running", "the object runs", within=0.3)
            await until(lambda: not of.mark(), "no mark", within=0.5)
            view = await running.service()
            assert (view["target"], view["replicas"]["present"]) == ("Sandbox/box", 1)
    assert "Sandbox box: 1 -> 0 replicas: no request for idle-seconds" in caplog.text
    assert "Sandbox box: 0 -> 1 replicas: a request waits while there is no pod" in caplog.text


async def test_a_request_ends_the_closing_at_once(tmp_path: Path) -> None:
    async with world(tmp_path) as of:
        await of.add()
        async with leader(of.kube) as running, running.activator() as activator:
            await activator.report(1)
            await until(of.mark, "a mark", within=200)
            await elapse(1)
            await activator.report(1)
            await until(lambda: not of.mark(), "no mark", within=0.3)
            await elapse(5)
            assert (of.mode(), of.mark()) == ("Running", None)


async def test_an_object_that_another_component_suspends_gets_a_mark(tmp_path: Path) -> None:
    async with world(tmp_path) as of:
        await of.add(min_scale="0", idle_seconds="1000")
        async with leader(of.kube) as running:
            await elapse(5)
            await of.set_mode("Suspended")
            await until(of.mark, "a mark", within=15)
            await of.kube.annotate(asleep=None)
            await until(of.mark, "the mark again", within=2)
            await of.set_mode("Running")
            await until(lambda: not of.mark(), "no mark", within=15)
            assert (await running.service())["phase"] == "awake"


@pytest.mark.parametrize(
    "change",
    [
        {"enabled": None},
        {"enabled": "false"},
        {"waker": "scale"},
        {"target": "deployment/hello"},
        {"sleep_patch": "no JSON"},
        {"owner": "keda"},
        {"port": "missing"},
    ],
    ids=str,
)
async def test_a_change_of_the_annotations_wakes_what_the_mark_names(
    tmp_path: Path, change: dict[str, str | None]
) -> None:
    async with world(tmp_path) as of:
        await of.add()
        async with deciding(of):
            await of.asleep()
            await of.kube.annotate("hello", **change)
            await until(lambda: of.mode() == "Running", "it runs", within=5)
            await until(lambda: not of.mark(), "no mark", within=5)
            await of.kube.set_ready("hello", 1)
            await elapse(100)
            assert of.mode() == "Running"


async def test_the_reason_of_such_a_change_is_an_event(tmp_path: Path) -> None:
    async with world(tmp_path) as of:
        await of.add()
        async with deciding(of) as running:
            await of.asleep()
            of.plane.faults.forbid("patch", "sandboxes", "agents.x-k8s.io")
            await of.kube.annotate(enabled=None)
            await elapse(5)
            view = await running.service()
    found = [each["note"] for each in view["findings"]]
    assert found == [
        "the workload sleeps by other annotations, which are in activator.dev/asleep: it wakes by "
        "them first"
    ]


async def test_a_scaler_that_starts_finds_what_others_have_put_to_sleep(tmp_path: Path) -> None:
    async with world(tmp_path) as of:
        await of.add()
        async with deciding(of):
            await of.asleep()
        await of.kube.annotate(enabled=None)
        async with leader(of.kube, "scale-2"):
            await until(lambda: of.mode() == "Running", "it runs", within=5)
            await until(lambda: not of.mark(), "no mark", within=5)


async def test_a_scaler_that_starts_leaves_a_sleeping_object_asleep(tmp_path: Path) -> None:
    async with world(tmp_path) as of:
        await of.add()
        async with deciding(of):
            await of.asleep()
        async with leader(of.kube, "scale-2") as running, running.activator() as activator:
            await elapse(30)
            assert (of.mode(), bool(of.mark())) == ("Suspended", True)
            await activator.report(1)
            await until(lambda: of.mode() == "Running", "it runs", within=0.5)


async def test_a_mark_that_no_waker_can_read_goes(tmp_path: Path) -> None:
    async with world(tmp_path) as of:
        await of.add(asleep="yes")
        async with leader(of.kube):
            await until(lambda: not of.mark(), "no mark", within=5)
            assert of.mode() == "Running"


async def test_a_mark_goes_with_its_object(tmp_path: Path) -> None:
    async with world(tmp_path) as of:
        await of.add()
        async with deciding(of):
            await of.asleep()
            await of.kube.annotate(enabled=None)
            of.plane.faults.forbid("patch", "sandboxes", "agents.x-k8s.io")
            await elapse(3)
            await of.kube.send("DELETE", f"{BOXES}/box")
            await until(lambda: not of.mark(), "no mark", within=30)


async def test_a_mark_that_cannot_be_written_keeps_the_object_awake(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with world(tmp_path) as of:
        await of.add()
        of.plane.faults.forbid("patch", "services", "")
        async with leader(of.kube) as running, running.activator() as activator:
            await activator.report(1)
            await elapse(100)
            view = await running.service()
            assert of.mode() == "Running"
            rule = '{apiGroups: [""], resources: ["services"], verbs: ["patch"]}'
            assert view["reason"] == "scale-forbidden"
            assert view["detail"] == (
                f"the scaler may not mark services in namespace shop; its role lacks {rule}"
            )
            [finding] = view["findings"]
            assert finding["reason"] == "mark-failed"
            assert finding["note"].startswith("the annotation activator.dev/asleep is not written")
            assert finding["note"].endswith(f"the ClusterRole lacks {rule}")
            assert caplog.text.count("activator.dev/asleep: 403") == 1
            of.plane.faults.allow("patch", "services", "")
            await until(of.mark, "a mark", within=5)
            await of.asleep()
            await elapse(31)
            assert (await running.service())["findings"] == []


async def test_a_mark_that_cannot_be_written_is_not_written_once_no_waker_needs_it(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as of:
        await of.add()
        of.plane.faults.forbid("patch", "services", "")
        async with deciding(of) as running:
            await elapse(100)
            assert (await running.service())["findings"]
            of.plane.faults.allow("patch", "services", "")
            await of.kube.annotate(target="Deployment/hello")
            calls = len(of.kube.calls("patch", "services"))
            await elapse(5)
            assert (await running.service())["findings"] == []
            assert len(of.kube.calls("patch", "services")) == calls


async def test_the_condition_keeps_the_mark_until_it_holds(tmp_path: Path) -> None:
    async with world(tmp_path) as of:
        await of.add(awake_condition="Ready=True")
        async with leader(of.kube) as running, running.activator() as activator:
            await activator.report(1)
            await of.asleep()
            activator.hold(1)
            await until(lambda: of.mode() == "Running", "it runs", within=1)
            await of.kube.set_ready("hello", 1)
            await elapse(15)
            view = await running.service()
            assert of.mark()
            assert (view["phase"], view["reason"]) == ("asleep", "not-awake-yet")
            assert view["detail"] == "condition Ready is missing, not True"
            conditions = [{"type": "Ready", "status": "True"}]
            await of.set_mode("Running", status={"conditions": conditions})
            await until(lambda: not of.mark(), "no mark", within=5)
            # A condition that fails later is no sleep.
            await of.set_mode("Running", status={"conditions": []})
            await elapse(30)
            view = await running.service()
            assert (of.mark(), view["phase"], view["reason"]) == (None, "awake", None)


async def test_words_that_do_not_wake_the_object_can_be_corrected(tmp_path: Path) -> None:
    async with world(tmp_path) as of:
        await of.add(awake_condition="Redy=True")
        async with leader(of.kube) as running, running.activator() as activator:
            await activator.report(1)
            await of.asleep()
            activator.hold(1)
            await until(lambda: of.mode() == "Running", "it runs", within=1)
            conditions = [{"type": "Ready", "status": "True"}]
            await of.set_mode("Running", status={"conditions": conditions})
            await elapse(15)
            assert of.mark()
            assert (await running.service())["detail"] == "condition Redy is missing, not True"
            await of.kube.annotate(awake_condition="Ready=True")
            await until(lambda: not of.mark(), "no mark", within=15)


def wakes_to(mode: str) -> str:
    return json.dumps({"spec": {"operatingMode": mode}})


async def test_the_mark_follows_the_words_that_wake_the_object(tmp_path: Path) -> None:
    async with world(tmp_path) as of:
        await of.add(wake_patch=wakes_to("Runing"))
        async with deciding(of):
            await of.asleep()
            await of.kube.annotate(wake_patch=wakes_to("Running"))
            await until(lambda: "Running" in (of.mark() or ""), "the mark has it", within=5)
            assert of.mode() == "Suspended"
            await of.kube.annotate(enabled=None)
            await until(lambda: of.mode() == "Running", "it runs", within=5)


async def test_words_that_cannot_wake_the_object_count_less_than_the_mark(tmp_path: Path) -> None:
    async with world(tmp_path) as of:
        await of.add()
        async with deciding(of) as running:
            await of.asleep()
            await of.kube.annotate(wake_patch=wakes_to("Suspended"))
            await until(lambda: of.mode() == "Running", "it runs", within=5)
            await until(lambda: not of.mark(), "no mark", within=5)
            assert (await running.service())["reason"] == "waker-refused"


async def test_an_object_wakes_once_the_scaler_may_wake_it_again(tmp_path: Path) -> None:
    async with world(tmp_path) as of:
        await of.add()
        async with leader(of.kube) as running, running.activator() as activator:
            await activator.report(1)
            await of.asleep()
            of.plane.faults.forbid("patch", "sandboxes", "agents.x-k8s.io")
            activator.hold(1)
            await elapse(5)
            view = await running.service()
            assert (of.mode(), view["reason"]) == ("Suspended", "scale-forbidden")
            rule = 'apiGroups: ["agents.x-k8s.io"], resources: ["sandboxes"], verbs: ["patch"]'
            assert rule in view["detail"]
            of.plane.faults.allow("patch", "sandboxes", "agents.x-k8s.io")
            await until(lambda: of.mode() == "Running", "it runs", within=31)


async def test_an_object_that_never_confirms_sleeps_again_without_requests(tmp_path: Path) -> None:
    async with world(tmp_path) as of:
        await of.add(awake_condition="Ready=True")
        async with leader(of.kube) as running, running.activator() as activator:
            assert await wakes_in_vain(of, activator) > 10
            await elapse(30)
            assert (of.mode(), bool(of.mark())) == ("Suspended", True)
            assert (await running.service())["phase"] == "asleep"


async def test_an_object_that_sleeps_again_shows_why_it_sleeps_not_why_it_woke(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with world(tmp_path) as of:
        await of.add(awake_condition="Ready=True")
        async with leader(of.kube) as running, running.activator() as activator:
            await wakes_in_vain(of, activator)
            await elapse(1)
            change = (await running.service())["lastChange"]
            assert (change["before"], change["after"], change["why"]) == (1, 0, "idle")
            metrics = (await running.get("/metrics")).text
            assert 'activator_scale_changes_total{rule="idle"} 2' in metrics
            assert 'rule="cold-start"' not in metrics  # it was never confirmed
    assert caplog.text.count("Sandbox box: 1 -> 0 replicas: no request for idle-seconds") == 2


async def test_two_services_of_one_object_are_both_marked_before_it_sleeps(tmp_path: Path) -> None:
    async with world(tmp_path) as of:
        await of.add()
        await of.kube.add("other", target=TARGET, idle_seconds="10")
        async with deciding(of):
            await of.asleep()
            place = of.plane.resources.find(SERVICE.rpartition("/")[0])
            assert place is not None
            other = of.plane.store.get(place.resource, "shop", "other")
            assert other is not None
            assert other["metadata"]["annotations"]["activator.dev/asleep"] == of.mark()


async def test_a_follower_writes_no_mark(tmp_path: Path) -> None:
    async with world(tmp_path) as of:
        await of.add()
        async with deciding(of), scaler(of.kube, "scale-2"):
            await of.asleep()
            assert (
                len([c for c in of.plane.calls if (c.verb, c.resource) == ("patch", "services")])
                == 1
            )
