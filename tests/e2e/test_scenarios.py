"""What was seen on real clusters, replayed with real processes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from time import monotonic

import pytest

from activator.lab.objects import PodAddress
from tests.e2e.world import Pod, Reply, World, at
from tests.process import until

pytestmark = pytest.mark.e2e

TIMED_OUT = "activator request timeout"


async def test_failing_exec_readiness_probe_holds_requests_whatever_queue_proxy_says(
    tmp_path: Path,
) -> None:
    async with World(tmp_path) as world:
        world.write_revision(exec_readiness=True, timeout=2)
        pod = await world.start_pod("exec-1")
        world.list_pods([pod.listed(ready=True)])
        await world.start_activator()
        assert (await world.fetch()).status == 200

        # The exec probe fails: Kubernetes moves the address, queue-proxy still says 200 `queue`.
        world.list_pods([pod.listed(ready=False)])
        await world.until_listed(exec_1="not-ready")
        before = (await pod.counters())["requests"]
        began = monotonic()
        reply = await world.fetch()
        assert (reply.status, reply.body) == (504, TIMED_OUT)
        assert monotonic() - began >= 1.9
        assert "pods-not-ready" in reply.headers["activator-reason"]
        assert (await pod.counters())["requests"] == before

        # It passes again: a request that waits is served at once.
        waiting = asyncio.ensure_future(world.fetch())
        await world.until_queued(1)
        world.list_pods([pod.listed(ready=True)])
        assert (await waiting).status == 200


async def test_pod_that_turns_not_ready_holds_requests_and_serves_them_in_order(
    tmp_path: Path,
) -> None:
    async with World(tmp_path) as world:
        world.write_revision(container_concurrency=1)
        pod = await world.start_pod("flap-1", container_concurrency=1)
        world.list_pods([pod.listed(ready=True)])
        await world.start_activator()
        assert (await world.fetch()).status == 200

        await pod.switch("/toggleReady")
        world.list_pods([pod.listed(ready=False)])
        await world.until_listed(flap_1="not-ready")
        statuses = [201, 202, 203, 206]
        waiting: list[asyncio.Future[Reply]] = []
        for number, status in enumerate(statuses, 1):
            waiting.append(asyncio.ensure_future(world.fetch(f"/status?code={status}")))
            await world.until_queued(number)
        assert not any(request.done() for request in waiting)

        # Ready again for queue-proxy; Kubernetes has not noticed yet, our probe has.
        await pod.switch("/toggleReady")
        replies = await asyncio.gather(*waiting)
        assert [reply.status for reply in replies] == statuses
        # What the pod tells comes by another way than its answers.
        await pod.wait_for("answered", 1 + len(statuses))
        answered = [told["status"] for told in pod.events if told["event"] == "answered"]
        assert answered == [200, *statuses]


async def test_killed_pod_that_is_still_listed_costs_no_request(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        world.write_revision(container_concurrency=10)
        pods = [await world.start_pod(f"three-{number}") for number in (1, 2, 3)]
        listed = [pod.listed(ready=True) for pod in pods]
        world.list_pods(listed)
        await world.start_activator()
        ended = asyncio.Event()
        load = asyncio.ensure_future(_ask_until(world, ended))
        await pods[0].wait_for("answered")

        # For a while Endpoints lists a container that is gone; then it is back, still listed;
        # only then is the address removed, and added again.
        await pods[0].end(kill=True)
        await pods[1].wait_for("answered", 30)
        again = await world.start_pod("three-1", pods[0].options.address)
        await again.wait_for("answered", 5)
        world.list_pods(listed[1:])
        await until(lambda: _knows(world, 2), "the address is removed")
        world.list_pods(listed)
        seen = (await again.counters())["requests"]
        await again.wait_for("answered", seen + 5)

        ended.set()
        replies = await load
        assert {reply.status for reply in replies} == {200}


async def _knows(world: World, count: int) -> bool:
    pods = (await world.status())["pods"]
    return bool(sum(pod["kubernetes"] != "gone" for pod in pods) == count)


async def _ask_until(world: World, ended: asyncio.Event) -> list[Reply]:
    """Fifty requests a second, each on its own connection, until told otherwise."""
    began = monotonic()
    asked: list[asyncio.Task[Reply]] = []
    async with asyncio.TaskGroup() as tasks:
        while not ended.is_set():
            asked.append(tasks.create_task(world.fetch()))
            await at(began + len(asked) / 50)
    return [task.result() for task in asked]


RATE, SECONDS = 200, 8.0


async def test_nothing_is_lost_while_pods_are_replaced(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        world.write_revision(container_concurrency=10)
        pods = [await world.start_pod(f"roll-{number}") for number in (1, 2)]
        world.list_pods([pod.listed(ready=True) for pod in pods])
        await world.start_activator()

        replacing = asyncio.ensure_future(_replace_pods(world, pods))
        replies = await _ask_steadily(world)
        every = await replacing

        for pod in every:
            await pod.end()  # so that all it had to tell is read

        assert len(every) >= 5
        assert {reply.status for reply in replies.values()} == {200}
        seen = [told["id"] for pod in every for told in pod.events if told["event"] == "answered"]
        assert set(seen) == set(replies)
        posts = [request_id for request_id in seen if request_id.startswith("POST")]
        assert len(posts) == len(set(posts))


async def _ask_steadily(world: World) -> dict[str, Reply]:
    """A load of new connections, one request in five a POST; answers by request id."""
    began = monotonic()
    asked: dict[str, asyncio.Task[Reply]] = {}
    async with asyncio.TaskGroup() as tasks:
        for number in range(int(RATE * SECONDS)):
            method = "GET" if number % 5 else "POST"
            request_id = f"{method}-{number}"
            headers = {"x-request-id": request_id}
            if method == "POST":
                headers["Content-Length"] = "0"
            asked[request_id] = tasks.create_task(world.fetch("/", method, headers))
            await at(began + number / RATE)
    return {request_id: task.result() for request_id, task in asked.items()}


async def _replace_pods(world: World, pods: list[Pod]) -> list[Pod]:
    """One pod after the other is replaced, as a rollout does; returns all that there were."""
    every, current = list(pods), list(pods)
    end = monotonic() + SECONDS - 1.5
    while monotonic() < end:
        fresh = await world.start_pod(f"roll-{len(every) + 1}")
        every.append(fresh)
        old = current.pop(0)
        world.list_pods(_listed(current, fresh))
        await fresh.wait_for("probe passed")
        current.append(fresh)
        world.list_pods(_listed(current))
        await old.end()
    for pod in current:
        await pod.wait_for("answered")
    return every


def _listed(ready: list[Pod], fresh: Pod | None = None) -> list[PodAddress]:
    listed = [pod.listed(ready=True) for pod in ready]
    return listed if fresh is None else [*listed, fresh.listed(ready=False)]
