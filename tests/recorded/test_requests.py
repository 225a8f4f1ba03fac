"""The programs send no kind of request that the recording lacks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

import pytest

from activator.discovery import wire
from activator.discovery.backoff import Timings
from activator.discovery.dialect import Scope
from activator.discovery.inventory import DIALECTS, Inventory
from activator.discovery.kubernetes import KubernetesWatch
from activator.lab.control_plane.api import BUILT_IN, REVISIONS, SCALED_OBJECTS, SERVICES
from activator.lab.control_plane.plane import PlaneServer
from tests.activator.discovery.recording import RecordingSink
from tests.activator.scale.world import until
from tests.recorded.conversation import SYSTEM
from tests.recorded.requests import HTTP_ADD_ON, Recorder, problems


async def test_discovery_sends_only_recorded_kinds_of_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With two dialects, with each alone, and after a compaction; see also the test of RBAC."""
    monkeypatch.setattr(wire, "PAGE_SIZE", 1)
    plane = Recorder((*BUILT_IN, SCALED_OBJECTS, REVISIONS, *HTTP_ADD_ON))
    server = PlaneServer(plane)
    await server.start()
    kubeconfig = str(server.write_kubeconfig(tmp_path))
    try:
        for names in (("knative", "services"), ("knative",), ("services",), ("keda",)):
            await follow(plane, kubeconfig, names)
    finally:
        plane.close()
        await server.close()
    assert problems("discovery", plane.requests) == []


async def follow(plane: Recorder, kubeconfig: str, names: Iterable[str]) -> None:
    """Follow all kinds of some dialects, compare with new lists, and begin again."""
    sink = RecordingSink()
    scope = Scope(services="services" in names)
    inventory = Inventory(sink, sink, scope=scope, dialects=[DIALECTS[name] for name in names])
    watch = KubernetesWatch(inventory, SYSTEM, kubeconfig, Timings(), {}, minimum_version="1.30")
    await watch.start()
    running = asyncio.ensure_future(watch.run())
    await watch.wait_synced()
    await watch.follow_secret("s")
    await watch.self_check.check()
    for _ in range(2):  # for a second page
        body = {"metadata": {"generateName": "a"}, "spec": {"ports": [{"port": 80}]}}
        plane.act("create", SERVICES, "shop", "", body)
    watches = plane.watches
    plane.store.compact()
    plane.hang_up()
    await until(lambda: plane.watches == watches, "all watches are open again")
    running.cancel()
    await asyncio.wait([running])
