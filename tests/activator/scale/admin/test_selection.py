"""Filter, order and pages of the list of Services, by the API."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from activator.scale.admin.selection import parse
from tests.activator.scale.world import Running, cluster, elapse, leader


@asynccontextmanager
async def shop(folder: Path) -> AsyncIterator[Running]:
    """Run a leader: `a` sleeps, `b` is awake, `c` has no workload, `d` starts."""
    async with cluster(folder) as kube:
        await kube.add("a")
        await kube.add("b", replicas=2, owner="keda")
        await kube.set_ready("b", 2)
        await kube.add("c", target="deployment/missing")
        await kube.add("d", replicas=1, owner="hpa", route="takeover")
        async with leader(kube) as running, running.activator() as activator:
            await activator.report(7, "b")
            await elapse(1)
            yield running


async def _names(running: Running, query: str) -> Any:
    response = await running.get(f"/api/v1/services?{query}")
    assert response.status_code == 200, response.text
    return [each["name"] for each in response.json()["services"]]


async def test_services_are_sorted_filtered_and_paged(tmp_path: Path) -> None:
    async with shop(tmp_path) as running:
        assert await _names(running, "") == ["a", "b", "c", "d"]
        assert await _names(running, "sort=load&limit=1") == ["b"]
        assert (await _names(running, "sort=replicas"))[:2] == ["b", "d"]
        assert await _names(running, "sort=attention") == ["b", "c", "d", "a"]
        assert await _names(running, "offset=1&limit=2") == ["b", "c"]
        assert await _names(running, "filter=NO-SCALABLE") == ["c"]
        assert await _names(running, "filter=takeover+shop/") == ["d"]
        assert await _names(running, "filter=deployment/b") == ["b"]
        assert await _names(running, "filter=scaled-object-missing") == ["b"]
        assert "a" not in await _names(running, "show=problems")


@pytest.mark.untraced
async def test_a_page_has_the_sums_of_all_services(tmp_path: Path) -> None:
    async with shop(tmp_path) as running:
        page = (await running.get("/api/v1/services?limit=1&filter=shop")).json()
    assert (len(page["services"]), page["matching"]) == (1, 4)
    summary = page["summary"]
    assert (summary["services"], summary["load"], summary["problems"]) == (4, 7.0, 3)
    assert summary["phases"] == {"asleep": 1, "awake": 1, "starting": 1, "": 1}


@pytest.mark.parametrize(
    ("query", "fault"),
    [
        ("sort=size", "sort must be one of name, attention, replicas, load, change."),
        ("show=all", "show must be problems, or absent."),
        ("limit=-1", "limit must be a number from 0, as in ?limit=100."),
        ("offset=x", "offset must be a number from 0, as in ?offset=100."),
    ],
)
async def test_a_wrong_query_gets_400(tmp_path: Path, query: str, fault: str) -> None:
    async with cluster(tmp_path) as kube, leader(kube) as running:
        refused = await running.get(f"/api/v1/services?{query}")
    assert (refused.status_code, refused.json()["detail"]) == (400, fault)


def test_a_huge_number_is_refused() -> None:
    with pytest.raises(ValueError, match="limit must be a number"):
        parse({"limit": "9" * 400})
