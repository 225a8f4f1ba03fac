from __future__ import annotations

import json

import pytest

from activator.lab import local_activator
from activator.lab.client import fetch
from activator.lab.cluster import DemoEvent, DemoService
from activator.lab.plain.showcase import Showcase
from tests.conftest import on_uvloop
from tests.process import addresses, until

pytestmark = on_uvloop


async def test_scaler_knows_the_service_and_the_folder_has_it(tmp_path):
    events: list[DemoEvent] = []
    shown = Showcase(tmp_path, DemoService("web", idle=7.0), events.append, addresses())
    url = await shown.start()
    assert url.startswith("ws://127.0.0.1:")
    host, _, port = shown.admin.partition(":")

    async def knows() -> bool:
        response = await fetch(host, int(port), "/api/v1/services")
        found = json.loads(response.body)["services"]
        return [(each["name"], each["replicas"]["present"]) for each in found] == [("web", 0)]

    await until(knows, "the scaler knows the Service")
    service = json.loads((tmp_path / "default.web.service.json").read_text())
    assert service["metadata"]["annotations"]["activator.dev/idle-seconds"] == "7"
    shown.on_queue("no-endpoints")
    assert [event.kind for event in events if event.kind == "queued"] == ["queued"]
    await shown.close()
    with pytest.raises(OSError, match="refused"):
        await fetch(host, int(port), "/healthz")


async def test_scaler_that_does_not_start_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(local_activator, "SCALER_OPTIONS", ("--stat-port", "many"))
    shown = Showcase(tmp_path, DemoService("web"), lambda event: None, addresses())
    with pytest.raises(OSError, match=r"the scaler ended: .*many"):
        await shown.start()
