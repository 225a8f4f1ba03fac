"""The response about the scaler itself: leader, activators, and unusable objects."""

from __future__ import annotations

from pathlib import Path

from activator.objects.fields import ObjectKey
from activator.scale.admin import state_views
from tests.activator.scale.world import cluster, elapse, leader, scaler, until


async def test_the_state_shows_which_activators_report_and_since_when(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube, leader(kube) as running:
        async with running.activator("activator-1") as activator, running.activator():
            await elapse(5)
            await activator.report(1)
            await elapse(3)
            silent, known = (await running.get("/api/v1/scaler")).json()["activators"]
        await until(lambda: not running.scaler._loads.activators, "closed connections")
        await elapse(2)
        (lost,) = (await running.get("/api/v1/scaler")).json()["activators"]
    assert (silent["name"], silent["address"], silent["lastReportSeconds"]) == (
        "",
        "127.0.0.1",
        None,
    )
    assert (known["name"], known["connected"]) == ("activator-1", True)
    assert 8 <= known["connectedSeconds"] < 9
    assert 3 <= known["lastReportSeconds"] < 4
    assert (lost["name"], lost["connected"], lost["connectedSeconds"]) == (
        "activator-1",
        False,
        None,
    )
    assert 2 <= lost["lostSeconds"] < 4


async def test_the_state_shows_the_leader_and_broken_objects(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add("broken", min_scale="many")
        async with (
            leader(kube, dashboard_url="https://dash.example/a") as first,
            scaler(kube, "scale-2") as second,
        ):
            await elapse(5)
            state = (await first.get("/api/v1/scaler")).json()
            other = (await second.get("/api/v1/scaler")).json()
    assert (state["leader"]["leads"], state["notReadyReason"]) == (True, None)
    assert (state["namespace"], state["dashboard"]) == (
        "activator-system",
        "https://dash.example/a",
    )
    assert [(each["kind"], each["name"]) for each in state["objects"]] == [("Service", "broken")]
    assert "min-scale" in state["objects"][0]["problem"]
    assert state["objectsTotal"] == 1
    assert state["watches"]["Service"]["error"] == ""
    assert other["leader"] == {"pod": "scale-2", "leads": False, "holder": "scale-1", "error": ""}
    assert "the leader is scale-1" in other["notReadyReason"]
    assert other["dashboard"] is None


def test_a_long_list_of_objects_is_cut() -> None:
    known = {ObjectKey("Service", "shop", f"s{number:03}"): "no" for number in range(300)}
    found = state_views.objects(known)
    assert [each.name for each in found] == [f"s{number:03}" for number in range(100)]
