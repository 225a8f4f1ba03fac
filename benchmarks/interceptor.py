"""The activator beside the interceptor of the KEDA HTTP add-on, in one cluster and one run.

``python -m benchmarks --only interceptor`` needs root and the programs that `tests.cluster` runs,
with the add-on's and KEDA's. Each figure is of both, in turns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

import uvloop

from benchmarks import nginx
from benchmarks.helpers import helper
from benchmarks.process import CannotMeasure, pause, resident_bytes
from benchmarks.proxying import Proxy, compare, turn
from benchmarks.report import Row, middle, percentile
from tests.cluster import keda
from tests.cluster.cluster import Cluster
from tests.cluster.http_add_on import (
    INTERCEPTOR,
    NAMESPACE,
    ORIGINAL,
    PRODUCT,
    PROGRAMS,
    PROXY_PORT,
    SCALER,
    HttpAddOn,
    application,
)
from tests.cluster.http_add_on_objects import http_scaled_object
from tests.cluster.programs import Unavailable

#: The namespace of the applications, and the longest wait of a request.
PLACE: Final = "bench"
WAIT: Final = {"conditionWait": "120s", "responseHeader": "30s"}
CONNECTIONS: Final = 16
#: Seconds after the last request has arrived, for bytes in socket buffers.
SETTLE: Final = 0.5


class Sizes(NamedTuple):
    """How much to measure: turns of each program, their seconds, waiting requests, cold starts."""

    rounds: int
    seconds: float
    waiters: int
    cold_starts: int


class Beside(NamedTuple):
    """Both interceptors of the cluster: the activator, and the one beside it."""

    activator: Proxy
    beside: Proxy


def measure(folder: Path, sizes: Sizes, itself: bool) -> Iterator[Row]:
    """Yield the rows: CPU of a warm GET, memory of a waiting GET, and cold starts.

    Arguments:
        itself: the add-on's programs stand in for the activator, which shows the machine's noise.

    Raises:
        CannotMeasure: a program is missing, or requests failed.
    """
    if missing := keda.missing(*PROGRAMS):
        raise CannotMeasure(missing)
    # The thread that starts the cluster enters a network of its own.
    with ThreadPoolExecutor(1) as thread:
        yield from thread.submit(_run, folder, sizes, itself).result()


def _run(folder: Path, sizes: Sizes, itself: bool) -> list[Row]:
    try:
        cluster = Cluster(folder)
    except Unavailable as error:
        raise CannotMeasure(str(error)) from None
    try:
        cluster.start()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_measure(cluster, folder, sizes, itself))
    except AssertionError as error:
        raise CannotMeasure(str(error)) from None
    finally:
        cluster.stop()


async def _measure(cluster: Cluster, folder: Path, sizes: Sizes, itself: bool) -> list[Row]:
    certificates = folder / "keda"
    certificates.mkdir()
    await keda.install(cluster, certificates)
    add_on = HttpAddOn(cluster)
    await add_on.install()
    name = {"metadata": {"name": PLACE}}
    await cluster.apply({"apiVersion": "v1", "kind": "Namespace", **name})
    own = dict.fromkeys(ORIGINAL, PRODUCT)
    if itself:
        own = {name: image.replace("ghcr.io", "example.com") for name, image in ORIGINAL.items()}
    both = await _side_by_side(cluster, add_on, own[INTERCEPTOR])
    rows = [
        await asyncio.to_thread(_cpu, folder, both, sizes),
        await _memory(cluster, add_on, both, sizes),
    ]
    await add_on.remove_second()
    return rows + await _cold_starts(add_on, own, sizes.cold_starts)


async def _side_by_side(cluster: Cluster, add_on: HttpAddOn, image: str) -> Beside:
    """Run one more interceptor, and make an application that is awake and one that sleeps."""
    await add_on.add_interceptor(image)
    second = await add_on.second_interceptor()
    await cluster.apply(*application(PLACE, "awake", replicas=1), *application(PLACE, "asleep"))
    for name in ("awake", "asleep"):
        await cluster.apply(http_scaled_object(PLACE, name, timeouts=WAIT))
        await add_on.known(PLACE, name)
    host = f"awake.{PLACE}.example"
    for ip in await add_on.interceptors():
        assert (await add_on.ask(host, ip=ip)).status == 200
    found = {}
    for pod in await cluster.find("pod", NAMESPACE, "app.kubernetes.io/instance=interceptor"):
        pid = cluster.pid(NAMESPACE, pod["metadata"]["name"], "interceptor")
        found[pod["status"]["podIP"]] = Proxy(
            PROXY_PORT, pid, CONNECTIONS, pod["status"]["podIP"], host
        )
    return Beside(found.pop(second), *found.values())


def _cpu(folder: Path, both: Beside, sizes: Sizes) -> Row:
    wrk = nginx.need("wrk", "wrk")
    script = folder / "load.lua"
    script.touch()
    return compare(
        "warm GET through an interceptor",
        None,
        *both,
        sizes.rounds,
        lambda proxy: turn(wrk, proxy, script, sizes.seconds),
        name="original",
    )


async def _memory(cluster: Cluster, add_on: HttpAddOn, both: Beside, sizes: Sizes) -> Row:
    # One turn of each: a second one would use memory that the first one has returned.
    each, beside = [await _wait(cluster, add_on, proxy, sizes.waiters) for proxy in both]
    return Row(
        f"{sizes.waiters:,} waiting GETs: memory of each",
        f"{each / 1024:.2f} KiB",
        f"original {beside / 1024:.2f} KiB",
        each / beside,
        details={"bytes": each, "bytesBeside": beside},
    )


async def _wait(cluster: Cluster, add_on: HttpAddOn, proxy: Proxy, count: int) -> float:
    """Let so many requests wait for a first pod, and return the bytes that each needs."""
    name = f"{PLACE}/asleep"
    before = resident_bytes(proxy.pid)
    with helper(
        "crowd", f"{proxy.ip}:{proxy.port}", f"asleep.{PLACE}.example", str(count)
    ) as crowd:
        await asyncio.to_thread(crowd.receive)
        crowd.send("go")
        await asyncio.to_thread(crowd.receive)

        async def waits() -> bool:
            return (await add_on.queue(proxy.ip))[name]["Concurrency"] == count

        await cluster.until(waits, f"{count} requests wait")
        await asyncio.to_thread(pause, SETTLE)
        growth = resident_bytes(proxy.pid) - before
        scale = ("-n", PLACE, "scale", "deployment/asleep")
        await cluster.kubectl(*scale, "--replicas=1")
        statuses = (await asyncio.to_thread(crowd.receive))["statuses"]
        await cluster.kubectl(*scale, "--replicas=0")
        await cluster.sleeps("asleep", PLACE)
    if statuses != {"200": count}:
        raise CannotMeasure(f"expected {count} responses of 200, got {statuses}")
    return growth / count


async def _cold_starts(add_on: HttpAddOn, own: dict[str, str], count: int) -> list[Row]:
    """Return the rows of cold starts: as installed, after each exchange, and with one more role.

    The pods of the last row have a readiness probe, which the activator may ask by that role. All
    other pods have a startup probe: by that, the stand-in for kubelet looks most often.
    """
    images = {
        "as installed": ORIGINAL,
        "with the interceptor exchanged": {**ORIGINAL, INTERCEPTOR: own[INTERCEPTOR]},
        "with both programs exchanged": own,
        "with both programs exchanged, and workloads readable": own,
    }
    rows: list[Row] = []
    beside = 0.0
    for number, (what, pair) in enumerate(images.items()):
        await add_on.run(pair[INTERCEPTOR], pair[SCALER])
        if is_last := len(rows) == len(images) - 1:
            await add_on.let_read_workloads()
        await _alone(add_on)
        took = [
            await _cold_start(add_on, f"cold{number}-{each}", only_kubelet=not is_last)
            for each in range(count)
        ]
        half = middle(took)
        beside = beside or half
        rows.append(
            Row(
                f"zero to response, {what}",
                f"median {half:.3f} s, p90 {percentile(took, 90):.3f} s",
                f"original {beside:.3f} s" if number else "",
                half / beside if number else None,
                details={"seconds": took},
            )
        )
    return rows


async def _alone(add_on: HttpAddOn) -> None:
    """Wait until no pod of another image is left: a terminating one may still get a connection."""

    async def found() -> bool:
        pods = await add_on.cluster.find("pod", NAMESPACE)
        # KEDA's own pods have no such name.
        names = [str(pod["metadata"]["name"]) for pod in pods]
        return sum(name.startswith((INTERCEPTOR, SCALER)) for name in names) == 2

    await add_on.cluster.until(found, "one interceptor and one scaler run")


async def _cold_start(add_on: HttpAddOn, name: str, *, only_kubelet: bool) -> float:
    route = http_scaled_object(PLACE, name, timeouts=WAIT)
    await add_on.deploy(route, only_kubelet=only_kubelet)
    response = await add_on.ask(f"{name}.{PLACE}.example")
    if response.status != 200:
        raise CannotMeasure(f"status {response.status}: {response.body}")
    await add_on.cluster.kubectl("-n", PLACE, "delete", "scaledobject,deployment", name)
    return response.took
