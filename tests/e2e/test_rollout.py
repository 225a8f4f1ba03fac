"""A rollout under load: all pods are replaced, one after the other, while clients send requests."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from time import monotonic

import pytest

from activator.lab.objects import PodAddress
from activator.lab.programs import ClientResponse
from tests.e2e.world import Pod, World, at

pytestmark = pytest.mark.e2e

#: Requests per second, and the maximum in flight, which protects a slow machine from overload.
RATE, AT_A_TIME = 200, 100
REPLACED = 4


async def test_nothing_is_lost_while_pods_are_replaced(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        world.write_revision(container_concurrency=10)
        pods = [await world.start_pod(f"roll-{number}") for number in (1, 2)]
        world.list_pods([pod.listed(ready=True) for pod in pods])
        await world.start_activator()

        replacing = asyncio.ensure_future(_replace_pods(world, pods))
        replies = await _ask_steadily(world, replacing)
        every = await replacing

        for pod in every:
            await pod.end()  # the test then reads all its events

        assert {reply.status for reply in replies.values()} == {200}
        seen = [told["id"] for pod in every for told in pod.events if told["event"] == "responded"]
        assert set(seen) == set(replies)
        posts = [request_id for request_id in seen if request_id.startswith("POST")]
        assert len(posts) == len(set(posts))


async def _ask_steadily(
    world: World, until: asyncio.Future[list[Pod]]
) -> dict[str, ClientResponse]:
    """Send a load on new connections, every fifth request a POST; return responses by id."""
    began = monotonic()
    asked: dict[str, asyncio.Task[ClientResponse]] = {}
    places = asyncio.Semaphore(AT_A_TIME)
    async with asyncio.TaskGroup() as tasks:
        for number in itertools.count():
            if until.done():
                break
            await places.acquire()
            method = "GET" if number % 5 else "POST"
            request_id = f"{method}-{number}"
            headers = {"x-request-id": request_id}
            if method == "POST":
                headers["Content-Length"] = "0"
            asked[request_id] = task = tasks.create_task(world.fetch("/", method, headers))
            task.add_done_callback(lambda _: places.release())
            await at(began + number / RATE)
    return {request_id: task.result() for request_id, task in asked.items()}


async def _replace_pods(world: World, pods: list[Pod]) -> list[Pod]:
    """Replace one pod after the other, as a rollout does; return all pods, old and new."""
    every, current = list(pods), list(pods)
    for _ in range(REPLACED):
        fresh = await world.start_pod(f"roll-{len(every) + 1}")
        every.append(fresh)
        old = current.pop(0)
        world.list_pods(_listed(current, fresh))
        await fresh.wait_for("probe passed")
        current.append(fresh)
        world.list_pods(_listed(current))
        await old.end()
    for pod in current:
        await pod.wait_for("responded")
    return every


def _listed(ready: list[Pod], fresh: Pod | None = None) -> list[PodAddress]:
    listed = [pod.listed(ready=True) for pod in ready]
    return listed if fresh is None else [*listed, fresh.listed(ready=False)]
