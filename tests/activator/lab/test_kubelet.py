from __future__ import annotations

import asyncio
from typing import Any

from activator.lab.addresses import AddressPool
from activator.lab.kubelet import PodProcess, ask
from activator.lab.pod import PodOptions


class Story:
    """What a pod process told, to be waited for."""

    def __init__(self) -> None:
        self.kinds: list[str] = []
        self._told = asyncio.Event()

    def tell(self, pod: PodProcess, kind: str, **details: Any) -> None:
        self.kinds.append(kind)
        self._told.set()

    async def until(self, kind: str) -> None:
        async with asyncio.timeout(10):
            while kind not in self.kinds:
                self._told.clear()
                await self._told.wait()


def pod_process(story: Story, **settings: Any) -> PodProcess:
    place = AddressPool("127.0.0.171").take()
    options = PodOptions("p", place.ip, place.port, place.admin_port, quiet_period=0.01)
    return PodProcess(options, story.tell, period=0.02, **settings)


async def test_pod_becomes_ready_turns_unready_and_stops():
    story = Story()
    pod = pod_process(story)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(pod.run())
        await story.until("ready")
        assert pod.ready
        await ask(pod.options.address, pod.options.admin_port, "/toggleReady")
        await story.until("not ready")
        pod.stop()
    assert [kind for kind in story.kinds if "probe" not in kind] == [
        *("listening", "ready", "not ready", "draining", "stopped")
    ]


async def test_exec_readiness_is_asked_for_where_the_container_has_it():
    story = Story()
    pod = pod_process(story, exec_readiness=True)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(pod.run())
        await story.until("ready")
        await ask(pod.options.address, pod.options.admin_port, "/toggleExec")
        await story.until("not ready")
        assert await ask(pod.options.address, pod.options.port, "/", probe="queue") == 200
        pod.stop()


async def test_cancelled_pod_leaves_no_process_behind():
    story = Story()
    pod = pod_process(story)
    running = asyncio.ensure_future(pod.run())
    await story.until("listening")
    running.cancel()
    await asyncio.wait([running])
    assert running.cancelled()
    assert await ask(pod.options.address, pod.options.port, "/", probe="queue") == 0


async def test_pod_that_cannot_listen_ends_by_itself():
    first, second = Story(), Story()
    pod = pod_process(first)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(pod.run())
        await first.until("listening")
        await PodProcess(pod.options, second.tell).run()
        pod.stop()
    assert second.kinds == ["ended by itself"]
