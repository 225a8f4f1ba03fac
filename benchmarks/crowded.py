"""Ten thousand healthy pods: CPU at rest, and pauses of a warm request while endpoints change.

The API server is the lab's stand-in, in this process. The activator and the client are processes
of their own. All pods are one process that listens on all of 127.0.0.0/8. The activator has a core
of its own, and all others share the rest: a tail shall not show which of them the kernel prefers.
Requests straight to the pod run at the same time, so that both see the same machine.
"""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any, Final, NamedTuple

import uvloop

from activator.lab.control_plane.api import SERVICES, SLICES
from activator.lab.control_plane.plane import ControlPlane, PlaneServer
from benchmarks.activator import Activator
from benchmarks.helpers import Helper, helper
from benchmarks.process import (
    RESULTS,
    START_TIMEOUT,
    CannotMeasure,
    cpu_seconds,
    free_port,
    resident_bytes,
    started,
)
from benchmarks.report import Row
from throttler.pod import DELAY_HEALTHY_IDLE

#: Pods of each Service.
PODS_EACH: Final = 11
POD_PORT: Final = 8013
NAMESPACE: Final = "bench"
#: The first address of a pod; the others follow.
FIRST: Final = ipaddress.IPv4Address("127.2.0.1")
#: Changes of EndpointSlices, and requests, per second.
CHANGES, RATE = 1000.0, 500.0
#: One change in so many changes the condition of a pod.
FLIP_EVERY: Final = 7
TRIGGERED: Final = "endpoints.kubernetes.io/last-change-trigger-time"
#: Seconds for first probes.
SETTLE: Final = 5.0
GOAL_SHARE: Final = 0.02
GOAL_TAIL: Final = 0.008


class Measured(NamedTuple):
    """The figures of one run; times in seconds, memory in bytes."""

    at_rest: float
    straight: list[float]
    through: list[float]
    pauses: float
    long_pauses: float
    before: int
    after: int


def measure(folder: Path, services: int, seconds: float) -> Iterator[Row]:
    """Yield the rows of one activator.

    Arguments:
        services: how many Services, with `PODS_EACH` pods each.
        seconds: how long to measure in traffic; at rest until each pod was probed once.

    Raises:
        CannotMeasure: the activator does not start.
    """
    with _apart() as core, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        found = runner.run(_run(folder, services, seconds, core))
    pods = services * PODS_EACH
    yield Row(
        f"{pods:,} healthy pods at rest",
        f"{found.at_rest:.1%} of a core",
        f"{found.before / 2**20:.0f} MiB resident",
        goal=f"<= {GOAL_SHARE:.0%}",
        met=found.at_rest <= GOAL_SHARE,
    )
    tail, beside = (_worst(each, 1000) for each in (found.through, found.straight))
    yield Row(
        f"{pods:,} pods, {CHANGES:,.0f} changes/s: p99.9 of {len(found.through):,} warm GETs",
        f"{tail * 1e3:.1f} ms",
        f"straight to the pod {beside * 1e3:.1f} ms",
        tail / beside,
        goal=f"<= {GOAL_TAIL * 1e3:.0f} ms",
        met=tail <= GOAL_TAIL,
        details={"p99": _worst(found.through, 100), "longest": max(found.through)},
    )
    yield Row(
        f"{pods:,} pods, {CHANGES:,.0f} changes/s: pauses of the collector over 10 ms",
        f"{found.long_pauses:.0f} of {found.pauses:.0f}",
        f"{found.after / 2**20:.0f} MiB resident",
        goal="0",
        met=not found.long_pauses,
    )


def _worst(values: list[float], one_in: int) -> float:
    """Return the value that one in so many values exceeds."""
    return sorted(values)[-1 - len(values) // one_in]


@contextmanager
def _apart() -> Iterator[int]:
    """Keep this process off one core, whose number is provided, and without garbage checks.

    Checks of the stand-in's objects would delay client and pod.
    """
    cores = os.sched_getaffinity(0)
    own, *others = sorted(cores)
    os.sched_setaffinity(0, others or cores)
    gc.disable()
    try:
        yield own
    finally:
        gc.enable()
        os.sched_setaffinity(0, cores)


async def _run(folder: Path, services: int, seconds: float, core: int) -> Measured:
    plane = ControlPlane()
    server = PlaneServer(plane)
    await server.start()
    with helper("pod") as pod:
        pod.send(f"0.0.0.0 {POD_PORT}")
        await asyncio.to_thread(pod.receive)
        try:
            slices = [_add(plane, number) for number in range(services)]
            async with _activator(server.write_kubeconfig(folder), core) as found:
                await _until_healthy(found, services * PODS_EACH)
                return await _measure(plane, found, slices, seconds)
        finally:
            plane.close()
            await server.close()


async def _measure(
    plane: ControlPlane, found: Activator, slices: list[dict[str, Any]], seconds: float
) -> Measured:
    await asyncio.sleep(SETTLE)
    cpu, before = cpu_seconds(found.pid), resident_bytes(found.pid)
    await asyncio.sleep(DELAY_HEALTHY_IDLE)
    at_rest = (cpu_seconds(found.pid) - cpu) / DELAY_HEALTHY_IDLE
    checks, short = await _pauses(found)
    changing = asyncio.ensure_future(_change(plane, slices))
    try:
        host = f"service-0.{NAMESPACE}"
        with (
            helper("paced", f"{FIRST}:{POD_PORT}", host, str(RATE)) as beside,
            helper("paced", f"127.0.0.1:{found.port}", host, str(RATE)) as client,
        ):
            straight, through = await asyncio.gather(_took(beside, seconds), _took(client, seconds))
    finally:
        changing.cancel()
    all_checks, all_short = await _pauses(found)
    number = all_checks - checks
    long = number - (all_short - short)
    return Measured(at_rest, straight, through, number, long, before, resident_bytes(found.pid))


async def _pauses(found: Activator) -> tuple[float, float]:
    """Return how many checks for garbage there were, and how many took at most 10 ms."""
    _, text = await asyncio.to_thread(found.admin_get, "/metrics")
    values = dict(line.rsplit(" ", 1) for line in text.decode().splitlines())
    name = "activator_gc_pause_seconds"
    return float(values[f"{name}_count{{}}"]), float(values[f'{name}_bucket{{le="0.01"}}'])


async def _took(client: Helper, seconds: float) -> list[float]:
    """Return what each response took in so many seconds; the first ones are left out."""
    client.send("go")
    await asyncio.sleep(seconds)
    client.send("end")
    took: list[float] = await asyncio.to_thread(client.receive)
    return took[int(RATE) :]


async def _change(plane: ControlPlane, slices: list[dict[str, Any]]) -> None:
    """Change one slice after the other, as often as pods do that start and end.

    One change in `FLIP_EVERY` makes a pod ready, or not ready; the others change an annotation.
    The first slice, whose Service gets the requests, never changes.
    """
    began, done = perf_counter(), 0
    while True:
        due = int((perf_counter() - began) * CHANGES)
        for number in range(done, due):
            turn, at = divmod(number, len(slices) - 1)
            changed = slices[at + 1]
            changed["metadata"]["annotations"] = {TRIGGERED: str(number)}
            if number % FLIP_EVERY == 0:
                which, is_ready = turn // 2 % PODS_EACH, turn % 2 == 1
                changed["endpoints"][which]["conditions"] = _conditions(ready=is_ready)
            plane.store.put(SLICES, changed)
        done = due
        await asyncio.sleep(0.002)


def _add(plane: ControlPlane, number: int) -> dict[str, Any]:
    """Create a Service, and its EndpointSlice, which is returned."""
    name = f"service-{number}"
    ports = [{"name": "http", "port": 80, "targetPort": POD_PORT}]
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "uid": name,
            "annotations": {"activator.dev/enabled": "true"},
        },
        "spec": {"selector": {"app": name}, "ports": ports},
    }
    plane.store.put(SERVICES, service)
    slice_ = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": f"{name}-1",
            "namespace": NAMESPACE,
            "uid": f"{name}-1",
            "labels": {"kubernetes.io/service-name": name},
        },
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": POD_PORT}],
        "endpoints": [
            {
                "addresses": [str(FIRST + number * PODS_EACH + each)],
                "conditions": _conditions(ready=True),
                "targetRef": {"kind": "Pod", "name": f"{name}-{each}", "uid": f"{name}-{each}"},
            }
            for each in range(PODS_EACH)
        ],
    }
    plane.store.put(SLICES, slice_)
    return slice_


def _conditions(*, ready: bool) -> dict[str, bool]:
    """Return the conditions of an endpoint as Kubernetes writes them."""
    return {"ready": ready, "serving": ready, "terminating": False}


async def _until_healthy(found: Activator, pods: int) -> None:
    began = perf_counter()
    while True:
        _, body = await asyncio.to_thread(found.admin_get, "/api/v1/revisions")
        if body.count(b'"state":"healthy"') == pods:
            return
        if perf_counter() - began > START_TIMEOUT:
            raise CannotMeasure(f"not all of {pods} pods are healthy: {found.log}")
        await asyncio.sleep(0.5)


@asynccontextmanager
async def _activator(kubeconfig: Path, core: int) -> AsyncIterator[Activator]:
    """Run an activator on one core that watches the stand-in, and wait until it is ready."""
    port, admin_port = free_port(), free_port()
    flags = {"http-port": port, "admin-port": admin_port, "metrics-port": 0, "h2c-port": 0}
    command = [sys.executable, "-m", "activator", "run", "--dialect", "services", "--bind"]
    command += ["127.0.0.1", "--scaler-url", "", "--kubeconfig", str(kubeconfig)]
    command += ["--pod-name=a", "--pod-ip=127.0.0.1", f"--system-namespace={NAMESPACE}"]
    command += [f"--{name}={value}" for name, value in flags.items()]
    with started(command, "crowded") as process:
        os.sched_setaffinity(process.pid, {core})  # before it has threads
        log = RESULTS / "crowded.log"
        found = Activator(process, port, admin_port, kubeconfig.parent, log)
        await asyncio.to_thread(found.wait_ready)
        yield found
