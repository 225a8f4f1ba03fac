"""`activator scale` with thousands of Services: memory, ticks, and the time to the first PATCH.

The API server is the lab's stand-in, in this process; the scaler is a process of its own.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import Popen
from time import perf_counter
from typing import Any, Final, NamedTuple

import httpx
import uvloop
from websockets.asyncio.client import ClientConnection, connect

from activator.autoscaler.concurrency import Stat
from activator.autoscaler.wire import encode
from activator.lab.control_plane.plane import ControlPlane, PlaneServer
from activator.lab.control_plane.store import PlaneWatch
from activator.lab.http1 import HttpRequest, HttpResponse
from benchmarks.process import (
    START_TIMEOUT,
    CannotMeasure,
    cpu_seconds,
    free_port,
    resident_bytes,
    started,
)
from benchmarks.report import Row, middle, percentile
from throttler.model import RevisionID

GOAL_BYTES: Final = 80 << 20
GOAL_TICK: Final = 0.05
GOAL_PATCH: Final = 0.01
NAMESPACE: Final = "activator-system"
_PORTS: Final = ("stat_port", "grpc_port", "metrics_port", "admin_port")


class Plane(ControlPlane):
    """A control plane that records when a PATCH of a scale subresource arrives."""

    def __init__(self) -> None:
        super().__init__()
        self.patched: dict[str, float] = {}

    def handle(self, request: HttpRequest) -> HttpResponse | PlaneWatch:
        """See ControlPlane."""
        if request.method == "PATCH" and request.target.endswith("/scale"):
            self.patched.setdefault(request.target.split("/")[-2], perf_counter())
        return super().handle(request)


class Ticks(NamedTuple):
    """The ticks so far: their number, and the seconds of all."""

    number: float
    seconds: float


class Measured(NamedTuple):
    """The figures of one run; times in seconds."""

    at_rest: int
    in_traffic: int
    tick_at_rest: float
    tick_in_traffic: float
    cpu: float
    patches: list[float]


def measure(folder: Path, services: int, seconds: float, cold_starts: int) -> Iterator[Row]:
    """Yield the rows of one scaler.

    Arguments:
        services: how many Services opt in; half of them have a ready pod.
        seconds: how long to measure at rest, and how long in traffic.
        cold_starts: how many requests to sleeping Services to time, one after the other.

    Raises:
        CannotMeasure: the scaler does not start.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        found = runner.run(_run(folder, services, seconds, cold_starts))
    at_rest, in_traffic = (size / (1 << 20) for size in found[:2])
    yield Row(
        f"scaler, {services:,} Services: memory at rest / in traffic",
        f"{at_rest:.1f} / {in_traffic:.1f} MiB",
        goal=f"<= {GOAL_BYTES >> 20} MiB",
        met=max(found[:2]) <= GOAL_BYTES,
    )
    yield Row(
        f"scaler, {services:,} Services: one tick at rest / in traffic, CPU",
        f"{found.tick_at_rest * 1e3:.1f} / {found.tick_in_traffic * 1e3:.1f} ms",
        f"{found.cpu:.1%} of a core in traffic",
        goal=f"<= {GOAL_TICK * 1e3:.0f} ms",
        met=max(found.tick_at_rest, found.tick_in_traffic) <= GOAL_TICK,
    )
    half, most = middle(found.patches), percentile(found.patches, 90)
    yield Row(
        "report of the first request -> PATCH on the API server's socket",
        f"median {half * 1e3:.1f} ms, p90 {most * 1e3:.1f} ms",
        goal=f"median <= {GOAL_PATCH * 1e3:.0f} ms",
        met=half <= GOAL_PATCH,
        details={"seconds": found.patches},
    )


async def _run(folder: Path, services: int, seconds: float, cold_starts: int) -> Measured:
    plane = Plane()
    server = PlaneServer(plane)
    await server.start()
    try:
        for number in range(services):
            await _add(plane, number, awake=number % 2 == 0)
        ports = {name: str(free_port()) for name in _PORTS}
        async with _scaler(server.write_kubeconfig(folder), ports) as process:
            return await _measure(plane, process, ports, services, seconds, cold_starts)
    finally:
        plane.close()
        await server.close()


async def _measure(
    plane: Plane,
    process: Popen[str],
    ports: dict[str, str],
    services: int,
    seconds: float,
    cold_starts: int,
) -> Measured:
    await asyncio.sleep(seconds)
    at_rest, ticks = resident_bytes(process.pid), await _ticks(ports)
    awake = [_name(number) for number in range(0, services, 2)]
    async with connect(f"ws://127.0.0.1:{ports['stat_port']}") as activator:
        before = await _ticks(ports)
        cpu, began = cpu_seconds(process.pid), perf_counter()
        while perf_counter() - began < seconds:
            await _report(activator, awake)
            await asyncio.sleep(1.0)
        used = (cpu_seconds(process.pid) - cpu) / (perf_counter() - began)
        after, in_traffic = await _ticks(ports), resident_bytes(process.pid)
        patches = [
            await _cold_start(plane, activator, _name(2 * number + 1))
            for number in range(cold_starts)
        ]
    return Measured(
        at_rest,
        in_traffic,
        ticks.seconds / ticks.number,
        (after.seconds - before.seconds) / (after.number - before.number),
        used,
        patches,
    )


async def _cold_start(plane: Plane, activator: ClientConnection, name: str) -> float:
    """Return the seconds from a report of one request to the PATCH."""
    began = perf_counter()
    await _report(activator, [name])
    while name not in plane.patched:
        if perf_counter() - began > START_TIMEOUT:
            raise CannotMeasure(f"the scaler does not scale {name}")
        await asyncio.sleep(0.0002)
    took = plane.patched[name] - began
    await asyncio.sleep(0.1)
    return took


async def _report(activator: ClientConnection, names: list[str]) -> None:
    stats = [Stat(RevisionID("bench", name), 1.0, 1) for name in names]
    await activator.send(encode(stats, "activator-1"))


async def _ticks(ports: dict[str, str]) -> Ticks:
    """Return the ticks of the scaler so far."""
    async with httpx.AsyncClient() as client:
        text = (await client.get(f"http://127.0.0.1:{ports['metrics_port']}/metrics")).text
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    name = "activator_scale_tick_seconds"
    return Ticks(float(values[f"{name}_count{{}}"]), float(values[f"{name}_sum{{}}"]))


@asynccontextmanager
async def _scaler(kubeconfig: Path, ports: dict[str, str]) -> AsyncIterator[Popen[str]]:
    """Run a scaler, and wait until it leads."""
    flags = [f"--{name.replace('_', '-')}={port}" for name, port in ports.items()]
    command = [sys.executable, "-m", "activator", "scale", "--bind", "127.0.0.1"]
    command += ["--kubeconfig", str(kubeconfig), "--system-namespace", NAMESPACE, *flags]
    with started(command, "scaler") as process:
        began = perf_counter()
        async with httpx.AsyncClient() as client:
            while not await _leads(client, ports):
                if process.poll() is not None or perf_counter() - began > START_TIMEOUT:
                    raise CannotMeasure("the scaler does not start; see results/scaler.log")
                await asyncio.sleep(0.1)
        try:
            yield process
        finally:
            process.terminate()
            # It releases the Lease at the server of this loop.
            await asyncio.to_thread(process.wait)


async def _leads(client: httpx.AsyncClient, ports: dict[str, str]) -> bool:
    try:
        response = await client.get(f"http://127.0.0.1:{ports['admin_port']}/readyz")
    except httpx.TransportError:
        return False
    return response.status_code == 200


def _name(number: int) -> str:
    return f"service-{number}"


async def _add(plane: Plane, number: int, *, awake: bool) -> None:
    """Create a Service with its Deployment, and with a ready pod if it is awake."""
    name, labels = _name(number), {"app": _name(number)}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "app"}]}}
    spec = {"replicas": int(awake), "selector": {"matchLabels": labels}, "template": template}
    await _create(plane, "/apis/apps/v1/namespaces/bench/deployments", name, {"spec": spec})
    ports = [{"name": "http", "port": 80, "targetPort": 8080}]
    body = {"spec": {"selector": labels, "ports": ports}}
    enabled = {"activator.dev/enabled": "true"}
    await _create(plane, "/api/v1/namespaces/bench/services", name, body, annotations=enabled)
    address = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
    endpoints = [{"addresses": [address], "conditions": {"ready": True}}] if awake else []
    slice_ = {
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080}],
        "endpoints": endpoints,
    }
    of = {"kubernetes.io/service-name": name}
    path = "/apis/discovery.k8s.io/v1/namespaces/bench/endpointslices"
    await _create(plane, path, f"{name}-1", slice_, labels=of)


async def _create(plane: Plane, path: str, name: str, body: Any, **metadata: Any) -> None:
    named = {"name": name, "namespace": "bench", **metadata}
    response = await plane.send(
        HttpRequest("POST", path, body=json.dumps({"metadata": named, **body}).encode())
    )
    assert isinstance(response, HttpResponse)
    if response.status >= 300:
        raise CannotMeasure(f"the stand-in refuses {path}: {response.body.decode()[:200]}")
