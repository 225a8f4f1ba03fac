from __future__ import annotations

import asyncio
from typing import Any

from activator.lab.client import fetch
from activator.lab.kubelet import KubeletStep, PodProcess, ProbedContainer, Probes, ask
from activator.lab.pod import PodOptions
from tests.process import PATIENCE, addresses


class Story:
    """The events of a pod process, for tests to await."""

    def __init__(self) -> None:
        self.kinds: list[str] = []
        self._told = asyncio.Event()

    def tell(self, pod: PodProcess, kind: str, **details: Any) -> None:
        self.kinds.append(kind)
        self._told.set()

    async def until(self, kind: str, count: int = 1) -> None:
        async with asyncio.timeout(PATIENCE):
            while self.kinds.count(kind) < count:
                self._told.clear()
                await self._told.wait()


def pod_process(story: Story, **probes: Any) -> PodProcess:
    place = addresses().take()
    options = PodOptions("p", place.ip, place.port, place.admin_port, quiet_period=0.01)
    return PodProcess(options, story.tell, probes=Probes(0.02, **probes))


async def turn(pod: PodProcess, switch: str) -> None:
    await ask(pod.options.address, pod.options.admin_port, f"/toggle{switch}")


async def test_pod_becomes_ready_turns_unready_and_stops():
    story = Story()
    pod = pod_process(story)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(pod.run())
        await story.until("ready")
        assert pod.ready
        await turn(pod, "Ready")
        await story.until("not ready")
        pod.stop()
    assert [kind for kind in story.kinds if "probe" not in kind] == [
        *("listening", "ready", "switched", "not ready", "draining", "stopped")
    ]


async def test_exec_readiness_is_asked_for_where_the_container_has_it():
    story = Story()
    pod = pod_process(story, exec_readiness=True)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(pod.run())
        await story.until("ready")
        await turn(pod, "Exec")
        await story.until("not ready")
        assert await ask(pod.options.address, pod.options.port, "/", probe="queue") == 200
        pod.stop()


async def test_dead_application_is_restarted_behind_its_queue_proxy():
    story = Story()
    pod = pod_process(story, liveness=ProbedContainer.APPLICATION, restart_after=0.01)
    pod.pause(KubeletStep.RESTART)
    where = pod.options.address, pod.options.port
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(pod.run())
        await story.until("ready")
        await turn(pod, "Live")
        await story.until("switched", 2)  # by the test, then by kubelet
        assert (await fetch(*where, "/")).status == 502
        assert pod.ready  # it is listed during its grace period
        pod.resume(KubeletStep.RESTART)
        await story.until("ready", 2)
        assert (await fetch(*where, "/")).status == 200
        pod.stop()
    kinds = [kind for kind in story.kinds if kind in ("killing", "restarted", "not ready")]
    assert (kinds, pod.restarts) == (["killing", "restarted", "not ready"], 1)


async def test_sidecar_that_is_restarted_takes_readiness_and_no_request():
    story = Story()
    pod = pod_process(story, liveness=ProbedContainer.SIDECAR, restart_after=0.01)
    pod.pause(KubeletStep.RESTART)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(pod.run())
        await story.until("ready")
        await turn(pod, "SidecarLive")
        await story.until("not ready")
        assert (await fetch(pod.options.address, pod.options.port, "/")).status == 200
        pod.resume(KubeletStep.RESTART)
        await story.until("ready", 2)
        pod.stop()


async def test_only_container_is_started_again_at_its_address_and_listed_all_the_time():
    story = Story()
    pod = pod_process(
        story, liveness=ProbedContainer.WHOLE, failure_threshold=1, restart_after=0.01
    )
    pod.pause(KubeletStep.RESTART)
    where = pod.options.address, pod.options.port
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(pod.run())
        await story.until("ready")
        await turn(pod, "Live")
        await story.until("killing")
        while await ask(*where, "/"):
            pass
        assert pod.ready
        pod.resume(KubeletStep.RESTART)
        await story.until("ready", 2)
        assert (await fetch(*where, "/")).status == 200
        pod.stop()
    assert "ended by itself" not in story.kinds


async def test_pod_may_stop_while_its_only_container_is_restarted():
    story = Story()
    pod = pod_process(
        story, liveness=ProbedContainer.WHOLE, failure_threshold=1, restart_after=0.01
    )
    pod.pause(KubeletStep.RESTART)
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as tasks:
        tasks.create_task(pod.run())
        await story.until("ready")
        await turn(pod, "Live")
        await story.until("killing")
        pod.stop()
    assert "restarted" not in story.kinds


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
