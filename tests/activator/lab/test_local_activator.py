from __future__ import annotations

import asyncio
from typing import Any

import pytest

from activator.lab import programs
from activator.lab.objects import PodAddress, private_endpoints, revision, write_object
from activator.lab.programs import DidNotStart, LocalActivator, fetch
from tests.process import PATIENCE


@pytest.mark.usefixtures("real_start")
async def test_activator_starts_on_free_ports_reports_them_responds_and_ends(tmp_path):
    lines: list[dict[str, Any]] = []
    pod_came = asyncio.Event()

    def event(kind: str, data: dict[str, Any]) -> None:
        if kind == "pod-changed":
            pod_came.set()

    write_object(tmp_path, revision("app"))
    activator = LocalActivator(("local", "--manifests", str(tmp_path)), lines.append, event)
    await activator.start()
    try:
        found = await activator.get("/api/v1/revisions/default/app")
        assert found["name"] == "app"
        assert await activator.get("/api/v1/revisions/default/other") is None
        write_object(tmp_path, private_endpoints("app", [PodAddress("127.0.0.1", 1)]))
        async with asyncio.timeout(PATIENCE):
            await pod_came.wait()
        assert (await fetch(*activator.traffic, "/", headers={"Host": "nobody"})).status == 404
    finally:
        await activator.close()
    assert any("listening: " in line["message"] for line in lines)
    with pytest.raises(OSError, match="refused"):
        await fetch(*activator.traffic, "/")


async def test_activator_that_cannot_start_says_why(tmp_path):
    activator = LocalActivator(
        ("local", "--manifests", str(tmp_path / "nowhere")), lambda line: None
    )
    try:
        with pytest.raises(DidNotStart, match="nowhere"):
            await activator.start()
    finally:
        await activator.close()


async def test_activator_that_is_not_ready_in_time_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(programs, "START_PATIENCE", 0.0)
    activator = LocalActivator(("local", "--manifests", str(tmp_path)), lambda line: None)
    try:
        with pytest.raises(DidNotStart, match="not ready"):
            await activator.start()
    finally:
        await activator.close()
