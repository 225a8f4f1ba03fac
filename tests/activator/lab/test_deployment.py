from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from activator.lab.addresses import PodPlace
from activator.lab.deployment import Deployment
from activator.lab.kubelet import Probes
from activator.lab.objects import revision
from activator.lab.pod import PodOptions
from tests.process import PATIENCE, addresses


class Town:
    """A deployment of the revision app, and the history of pods in its Endpoints."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.listed: list[tuple[list[str], list[str]]] = []
        self._told = asyncio.Event()
        self.deployment = Deployment(folder, revision("app"), self._tell, addresses())

    def _tell(self, kind: str, pod: str = "", **details: Any) -> None:
        if kind == "listed":
            self.listed.append((details["ready"], details["not_ready"]))
            self._told.set()

    async def until(self, listed: tuple[list[str], list[str]]) -> None:
        async with asyncio.timeout(PATIENCE):
            while self.listed[-1] != listed:
                self._told.clear()
                await self._told.wait()

    def subsets(self) -> Any:
        found = json.loads((self.folder / "default.app-private.endpoints.json").read_text())
        return found.get("subsets")


def options(name: str, place: PodPlace) -> PodOptions:
    return PodOptions(name, place.ip, place.port, place.admin_port, quiet_period=0.01)


async def test_endpoints_say_what_kubelet_says(tmp_path):
    town = Town(tmp_path)
    assert town.subsets() is None
    async with asyncio.TaskGroup() as tasks:
        pod = town.deployment.start_pod(tasks, Probes(0.02), options)
        town.deployment.publish()
        assert town.listed[-1] == ([], ["app-1"])
        await town.until((["app-1"], []))
        assert town.subsets()[0]["addresses"][0]["ip"] == pod.options.address
        pod.stop()
        town.deployment.publish()
        assert town.listed[-1] == ([], [])
    assert town.deployment.pods == {}


async def test_an_unchanged_state_is_not_reported_twice(tmp_path):
    town = Town(tmp_path)
    town.deployment.publish()
    assert town.listed == [([], [])]


async def test_the_starter_of_a_pod_learns_of_its_end_and_may_cause_it(tmp_path):
    town = Town(tmp_path)
    ended: list[Any] = []
    async with asyncio.TaskGroup() as tasks:
        pod = town.deployment.start_pod(tasks, Probes(0.02), options, ended.append)
        town.deployment.publish()
        await town.until((["app-1"], []))
        town.deployment.tasks[pod].cancel()
    assert ended == [pod]
    assert town.listed[-1] == ([], [])
