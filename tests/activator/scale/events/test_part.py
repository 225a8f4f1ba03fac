"""Events on Services, as the whole program writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.activator.scale.world import Cluster, cluster, elapse, leader, scaler

EVENTS = "/apis/events.k8s.io/v1/namespaces/shop/events"


async def events(kube: Cluster) -> dict[str, Any]:
    """Return the Events by reason; each reason may be there once."""
    found = (await kube.send("GET", EVENTS))["items"]
    by_reason = {each["reason"]: each for each in found}
    assert len(by_reason) == len(found)
    return by_reason


async def test_a_missing_right_is_an_event_on_the_service(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        kube.plane.faults.forbid("patch", "deployments/scale", "apps")
        await kube.add()
        async with leader(kube), scaler(kube, "scale-2"):
            await elapse(60)
            event = (await events(kube))["scale-forbidden"]
            assert event["regarding"]["name"] == "hello"
            assert event["regarding"]["uid"]
            assert "deployments/scale" in event["note"]


async def test_wrong_annotations_are_events_whether_there_was_a_good_state_or_not(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add("hello")
        await kube.add("never", port="No!")
        async with leader(kube) as running:
            await elapse(1)
            assert "port" in (await events(kube))["service-refused"]["note"]
            await kube.annotate("hello", min_scale="few")
            await elapse(1)
            note = (await events(kube))["service-warning"]["note"]
            assert "min-scale" in note
            assert note.endswith("; its last good state stays in force")
            view = await running.service("never")
            assert view["reason"] == "service-refused"


async def test_a_wrong_policy_at_the_start_is_an_event_and_the_service_is_scaled(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add(while_waiting="banner", route="next-version")
        async with leader(kube) as running, running.activator() as activator:
            await activator.report(1)
            await elapse(3)
            note = (await events(kube))["service-warning"]["note"]
            assert "[activator.dev/while-waiting]: expected" in note
            assert "[activator.dev/route]: expected" in note
            assert note.endswith(
                "; it has no last good state, so each wrong annotation has a safe default"
            )
            assert kube.replicas() == 1


async def test_a_healthy_service_has_no_events(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add()
        async with leader(kube) as running, running.activator() as activator:
            await activator.report(1)
            await elapse(30)
            assert await events(kube) == {}


async def test_a_second_service_of_a_workload_has_an_event_that_names_the_first(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add("hello", replicas=1, idle_seconds="5")
        await kube.add("other", idle_seconds="5", target="Deployment/hello")
        async with leader(kube) as running, running.activator() as activator:
            await activator.report(1)
            await elapse(90)
            found = (await events(kube))["two-owners"]
            assert found["regarding"]["name"] == "other"
            assert "Service shop/hello" in found["note"]
