from __future__ import annotations

import asyncio
import json
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

from activator.lab.cluster import Cluster, DemoEvent, DemoService
from tests.process import PATIENCE, addresses

FAST = {"start_after": 0.0, "idle": 1.0}


class Town:
    """A cluster of one service, app, and its events."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder
        self.events: list[DemoEvent] = []
        self.addresses = addresses()
        place = self.addresses.take()
        self.addresses.release(place)
        self.first = place.ip
        self._told = asyncio.Event()
        service = DemoService("app", **{**FAST, **settings})
        self.cluster = Cluster(
            folder,
            [service],
            tell=self._tell,
            addresses=self.addresses,
            readiness_period=0.02,
        )

    def _tell(self, event: DemoEvent) -> None:
        self.events.append(event)
        self._told.set()

    def count(self, kind: str) -> int:
        return sum(event.kind == kind for event in self.events)

    def asked(self) -> None:
        self.cluster.on_stats([(("default", "app"), 0.5, 1)])

    async def until(self, kind: str, count: int = 1, *, busy: bool = False) -> None:
        """Wait for an event.

        Arguments:
            busy: requests go on; without them a pod that starts slowly is idle before it listens.
        """
        try:
            async with asyncio.timeout(PATIENCE):
                while self.count(kind) < count:
                    self._told.clear()
                    if busy:
                        self.asked()
                    with suppress(TimeoutError):
                        async with asyncio.timeout(0.2):
                            await self._told.wait()
        except TimeoutError:
            seen = [event.kind for event in self.events]
            raise AssertionError(f"{kind} did not happen {count} times: {seen}") from None

    def listed(self) -> dict[str, list[str]]:
        """Return the addresses in the Endpoints file, by the list that has them."""
        found = json.loads((self.folder / "default.app-private.endpoints.json").read_text())
        (subset,) = found.get("subsets") or [{}]
        keys = ("addresses", "notReadyAddresses")
        return {key: [entry["ip"] for entry in subset[key]] for key in keys if key in subset}


async def test_service_goes_from_zero_to_ready_and_back_to_zero(tmp_path):
    town = Town(tmp_path)
    assert town.listed() == {}
    assert (tmp_path / "default.app.revision.json").exists()
    running = asyncio.ensure_future(town.cluster.run())
    town.cluster.on_stats([(("default", "other"), 9, 9), (("default", "app"), 1, 1)])
    await town.until("started")
    await town.until("listening", busy=True)
    assert town.listed() in ({"notReadyAddresses": [town.first]}, {"addresses": [town.first]})
    # Statistics of the first second report no queued request, because there is a pod now.
    town.cluster.on_stats([(("default", "app"), 0.5, 0)])
    await town.until("ready", busy=True)
    assert town.listed() == {"addresses": [town.first]}
    assert town.count("queued") == 1
    for reason in ("at-capacity", "pods-not-ready"):
        town.cluster.on_queue(("default", "app"), reason)
    await town.until("draining")
    assert town.listed() == {}
    await town.until("stopped")
    running.cancel()
    await asyncio.wait([running])
    assert [event.details for event in town.events if event.kind == "queued"][1:] == [
        {"reason": "pods-not-ready"}
    ]


async def test_load_brings_more_pods_and_the_end_takes_all(tmp_path):
    town = Town(tmp_path, container_concurrency=2, max_pods=3, idle=60.0)
    running = asyncio.ensure_future(town.cluster.run())
    town.cluster.on_stats([(("default", "app"), 50, 50)])
    await town.until("listening", 3)
    running.cancel()
    await asyncio.wait([running])
    assert running.cancelled()
    assert town.listed() == {}


async def test_cancellation_that_comes_with_a_statistic_is_not_lost(tmp_path):
    town = Town(tmp_path)
    running = asyncio.ensure_future(town.cluster.run())
    town.asked()
    await town.until("started")
    await town.until("listening", busy=True)
    town.cluster.on_stats([(("default", "app"), 1, 1)])
    running.cancel()
    async with asyncio.timeout(PATIENCE):
        await asyncio.wait([running])
    assert running.cancelled()


async def test_pod_that_ended_by_itself_is_replaced(tmp_path):
    town = Town(tmp_path, min_pods=1)
    running = asyncio.ensure_future(town.cluster.run())
    await town.until("listening")
    (listening,) = [event for event in town.events if event.kind == "listening"]
    os.kill(int(str(listening.details["pid"])), signal.SIGKILL)
    await town.until("ended by itself")
    await town.until("listening", 2)
    running.cancel()
    await asyncio.wait([running])
