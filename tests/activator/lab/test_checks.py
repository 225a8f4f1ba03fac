"""The results of kubelet's checks, for a pod in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from activator.lab.kubelet import (
    Checks,
    KubeletReadiness,
    ProbedContainer,
    Probes,
    ask,
    probed_switches,
)
from activator.lab.pod import Pod, PodOptions
from tests.process import addresses


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
        checks = Checks(found.options, probes)
        assert await checks.is_ready()
        found.switches.toggle(switch)
        assert await checks.is_ready() is ready


@pytest.mark.parametrize(
    ("readiness", "ready"),
    [(KubeletReadiness.HTTP, False), (KubeletReadiness.TCP, True), (KubeletReadiness.NONE, True)],
)
async def test_pod_without_queue_proxy_has_a_health_page(readiness, ready):
    async with pod(plain=True) as found:
        checks = Checks(found.options, Probes(readiness=readiness))
        assert await checks.is_ready()
        found.switches.toggle("ready")
        assert await checks.is_ready() is ready
        options = found.options
        assert await ask(options.address, options.port, "/", probe="queue") == 200, "the greeting"
        assert (found.counters.requests, found.counters.probes > 0) == (
            1,
            readiness is KubeletReadiness.HTTP,
        )


@pytest.mark.parametrize("readiness", [KubeletReadiness.HTTP, KubeletReadiness.TCP])
async def test_pod_that_does_not_listen_is_not_ready(readiness):
    place = addresses().take()
    checks = Checks(PodOptions("p", place.ip, place.port), Probes(readiness=readiness))
    assert not await checks.is_ready()


@pytest.mark.parametrize(
    ("switch", "container"),
    [("live", ProbedContainer.APPLICATION), ("sidecar_live", ProbedContainer.SIDECAR)],
)
async def test_container_is_dead_after_failures_in_a_row(switch, container):
    async with pod() as found:
        checks = Checks(found.options, Probes(liveness=container, failure_threshold=2))
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
        checks = Checks(found.options, Probes(failure_threshold=1))
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
