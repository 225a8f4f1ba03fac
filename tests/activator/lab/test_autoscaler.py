"""The toy autoscaler, with processes as pods."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from activator.lab.cluster import ToyCluster
from activator.lab.demo import MAX_PODS, DemoEvent, DemoService, ToyAutoscaler, ToyScaler
from tests.process import PATIENCE, addresses

FAST = {"start_after": 0.0, "idle": 3.0}


class Town:
    """A cluster of one service, app, and its events."""

    def __init__(self, tasks: asyncio.TaskGroup, folder: Path, **settings: Any) -> None:
        self.folder = folder
        self.events: list[DemoEvent] = []
        pool = addresses()
        place = pool.take()
        pool.release(place)
        self.first = place.ip
        self._told = asyncio.Event()
        self._service = DemoService("app", **{**FAST, **settings})
        self.cluster = ToyCluster(pool, tasks, self._happened, folder=folder)
        self.autoscaler = ToyAutoscaler(self.cluster, self._service, self._tell, period=0.02)

    def _happened(self, kind: str, pod: str = "", **details: Any) -> None:
        self._tell(DemoEvent(0.0, self._service, kind, pod, details))

    def _tell(self, event: DemoEvent) -> None:
        self.events.append(event)
        self._told.set()

    def count(self, kind: str) -> int:
        return sum(event.kind == kind for event in self.events)

    def asked(self) -> None:
        self.autoscaler.observe(0.5, 1)

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


@asynccontextmanager
async def town(folder: Path, **settings: Any) -> AsyncIterator[Town]:
    async with asyncio.TaskGroup() as tasks:
        found = Town(tasks, folder, **settings)
        try:
            yield found
        finally:
            found.autoscaler.close()
            await found.cluster.close()


async def test_service_goes_from_zero_to_ready_and_back_to_zero(tmp_path):
    async with town(tmp_path) as here:
        assert here.listed() == {}
        assert (tmp_path / "default.app.revision.json").exists()
        here.autoscaler.observe(1, 1)
        await here.until("started")
        await here.until("listening", busy=True)
        assert here.listed() in ({"notReadyAddresses": [here.first]}, {"addresses": [here.first]})
        # Statistics of the first second report no queued request, because there is a pod now.
        here.autoscaler.observe(0.5, 0)
        await here.until("ready", busy=True)
        await here.until("listed", 3)
        assert here.listed() == {"addresses": [here.first]}
        assert here.count("queued") == 1
        for reason in ("at-capacity", "pods-not-ready"):
            here.autoscaler.waits(reason)
        await here.until("draining")
        assert here.listed() == {}
        await here.until("stopped")
    assert [event.details for event in here.events if event.kind == "queued"][1:] == [
        {"reason": "pods-not-ready"}
    ]


async def test_load_brings_more_pods_and_the_end_takes_all(tmp_path):
    async with town(tmp_path, container_concurrency=2, idle=60.0) as here:
        here.autoscaler.observe(50, 50)
        await here.until("listening", 3)
        processes = list(here.cluster.pods.values())
    assert len(processes) == 3
    assert here.cluster.pods == {}


async def test_pod_that_ended_by_itself_is_replaced(tmp_path):
    async with town(tmp_path, idle=60.0) as here:
        here.asked()
        await here.until("listening")
        (listening,) = [event for event in here.events if event.kind == "listening"]
        os.kill(int(str(listening.details["pid"])), signal.SIGKILL)
        await here.until("ended by itself")
        await here.until("listening", 2)


# -- the number of pods -------------------------------------------------------------------------


def test_first_request_asks_for_one_pod_at_once():
    scaler = ToyScaler(target=10, window=15)
    assert scaler.desired(0) == 0
    scaler.observe(0, 1, 1)
    assert scaler.desired(0) == 1


@pytest.mark.parametrize(
    ("concurrency", "count", "pods"),
    [
        (0.01, 3, 1),
        (0, 3, 1),
        (0, 0, 0),
        (10, 0, 1),
        (10.5, 0, 2),
        (20.0000000001, 0, 2),
        (900, 9, MAX_PODS),
    ],
)
def test_pods_follow_concurrency_up_to_the_limit(concurrency, count, pods):
    scaler = ToyScaler(target=10, window=15)
    scaler.observe(0, concurrency, count)
    assert scaler.desired(0) == pods


def test_pods_leave_only_after_a_window_that_was_quieter():
    scaler = ToyScaler(target=1, window=15)
    scaler.observe(0, 3, 3)
    scaler.observe(1, 2, 2)
    scaler.observe(2, 0, 0)
    assert [scaler.desired(now) for now in (3, 14.9, 15, 15.9, 16, 17)] == [3, 3, 2, 2, 0, 0]


def test_silence_alone_scales_to_zero_and_its_time_is_known():
    scaler = ToyScaler(target=1, window=15)
    scaler.observe(3, 2, 2)
    assert scaler.next_change() == 18
    assert scaler.desired(17.9) == 2
    assert scaler.desired(18) == 0
    assert scaler.next_change() is None


def test_long_run_remembers_no_more_than_its_window():
    scaler = ToyScaler(target=1, window=15)
    for now in range(1000):
        scaler.observe(now, 1000 - now, 1)
        scaler.desired(now)
    assert len(scaler.needs) <= 16
