"""Probes, processes and options of pods."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from activator.lab.addresses import PodPlace
from activator.lab.kubelet import (
    KubeletReadiness,
    KubeletStep,
    PodProcess,
    ProbedContainer,
    Probes,
    ask,
    options_of,
    probed_switches,
    probes_of,
)
from activator.lab.pod import Pod, PodOptions
from activator.lab.programs import fetch
from tests.process import PATIENCE, addresses
from tests.rows import naming


def silent(*event: object, **details: object) -> None:
    pass


@asynccontextmanager
async def pod(plain: bool = False) -> AsyncIterator[Pod]:
    place = addresses().take()
    listens = asyncio.Event()

    def emit(event: str, **details: Any) -> None:
        if event == "listening":
            listens.set()

    where = ("p", place.ip, place.port, place.admin_port)
    options = PodOptions(*where, quiet_period=0.01, plain=plain)
    found = Pod(options, emit)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(found.run())
        await listens.wait()
        yield found
        found.stop.set()


@pytest.mark.parametrize(
    ("switch", "probes", "ready"),
    [
        ("ready", Probes(), False),
        ("exec_ready", Probes(), True),
        ("exec_ready", Probes(exec_readiness=True), False),
        ("sidecar_ready", Probes(), True),
        ("sidecar_ready", Probes(sidecar_readiness=True), False),
    ],
)
async def test_readiness_is_what_the_pods_probes_find(switch, probes, ready):
    async with pod() as found:
        checks = PodProcess(found.options, silent, probes=probes)
        assert await checks.passes()
        found.switches.toggle(switch)
        assert await checks.passes() is ready


@pytest.mark.parametrize(
    ("readiness", "ready"),
    [(KubeletReadiness.HTTP, False), (KubeletReadiness.TCP, True), (KubeletReadiness.NONE, True)],
)
async def test_pod_without_queue_proxy_has_a_health_page(readiness, ready):
    async with pod(plain=True) as found:
        checks = PodProcess(found.options, silent, probes=Probes(readiness=readiness))
        assert await checks.passes()
        found.switches.toggle("ready")
        assert await checks.passes() is ready
        options = found.options
        assert await ask(options.address, options.port, "/", probe="queue") == 200, "the greeting"
        assert (found.counters.requests, found.counters.probes > 0) == (
            1,
            readiness is KubeletReadiness.HTTP,
        )


@pytest.mark.parametrize("readiness", [KubeletReadiness.HTTP, KubeletReadiness.TCP])
async def test_pod_that_does_not_listen_is_not_ready(readiness):
    place = addresses().take()
    checks = PodProcess(
        PodOptions("p", place.ip, place.port), silent, probes=Probes(readiness=readiness)
    )
    assert not await checks.passes()


@pytest.mark.parametrize(
    ("switch", "container"),
    [("live", ProbedContainer.APPLICATION), ("sidecar_live", ProbedContainer.SIDECAR)],
)
async def test_container_is_dead_after_failures_in_a_row(switch, container):
    async with pod() as found:
        checks = PodProcess(
            found.options, silent, probes=Probes(liveness=container, failure_threshold=2)
        )
        found.switches.toggle(switch)
        assert not await checks.is_dead()
        found.switches.toggle(switch)
        assert not await checks.is_dead()  # this resets the count of failures
        found.switches.toggle(switch)
        assert not await checks.is_dead()
        assert await checks.is_dead()


@pytest.mark.parametrize(
    ("probes", "blind", "asked"),
    [
        (Probes(), False, {"Ready"}),
        (Probes(exec_readiness=True), True, {"Exec"}),
        (Probes(sidecar_readiness=True), False, {"Ready", "SidecarReady"}),
        (Probes(liveness=ProbedContainer.SIDECAR), False, {"Ready", "SidecarLive"}),
        (Probes(liveness=ProbedContainer.APPLICATION), True, {"Live"}),
        (Probes(liveness=ProbedContainer.WHOLE), True, {"Live"}),
    ],
)
def test_a_switch_counts_where_a_probe_reads_it(probes, blind, asked):
    assert probed_switches(probes, blind=blind) == asked | {"Running"}


async def test_pod_without_a_liveness_probe_is_never_dead():
    async with pod() as found:
        found.switches.toggle("live")
        checks = PodProcess(found.options, silent, probes=Probes(failure_threshold=1))
        assert not await checks.is_dead()


async def test_a_closed_port_is_no_response():
    assert await ask("127.0.0.1", 1, "/") == 0


async def test_a_cancellation_is_not_lost_where_the_pod_is_killed_in_the_same_moment(monkeypatch):
    """Otherwise kubelet would check an ended pod without end, and would not replace it."""

    class Killed:
        def write(self, data: bytes) -> None:
            asked.set()

        def close(self) -> None: ...

        async def wait_closed(self) -> None:
            raise ConnectionResetError

    async def connected(*_: Any) -> tuple[asyncio.StreamReader, Killed]:
        return asyncio.StreamReader(), Killed()

    asked = asyncio.Event()
    monkeypatch.setattr(asyncio, "open_connection", connected)
    asking = asyncio.ensure_future(ask("127.0.0.1", 1, "/"))
    await asked.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking


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


def pod_object(**container):
    return {"metadata": {"name": "web-1"}, "spec": {"containers": [container]}}


def test_probe_of_the_object_becomes_a_probe_of_the_process():
    page = {"path": "/up", "port": "http", "scheme": "HTTP"}
    for probe, readiness in (
        ({"httpGet": page, "periodSeconds": 4}, KubeletReadiness.HTTP),
        ({"tcpSocket": {"port": 1}, "periodSeconds": 4}, KubeletReadiness.TCP),
        ({"exec": {"command": ["true"]}, "periodSeconds": 4}, KubeletReadiness.NONE),
    ):
        with naming(probe):
            found = probes_of(pod_object(readinessProbe=probe), 0.5)
            assert (found.readiness, found.period) == (readiness, 2.0)
            assert found.exec_readiness is ("exec" in probe)
            assert found.while_terminating
    assert probes_of(pod_object(readinessProbe={"httpGet": page}), 1.0).path == "/up"
    assert probes_of(pod_object(), 1.0).readiness is KubeletReadiness.NONE


def test_arguments_of_the_container_are_options_of_the_process():
    found = options_of(pod_object(args=["--start-after=0.5"]), PodPlace("127.0.0.9", 8012, 8022))
    assert (found.start_after, found.name, found.plain) == (0.5, "web-1", True)
    assert (found.address, found.port, found.admin_port) == ("127.0.0.9", 8012, 8022)
