"""Parked pods in a cluster: a real API server checks each resize, and the node limits the CPU."""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import Any

from activator.lab.programs import fetch
from tests.cluster.cluster import SYSTEM, Cluster
from tests.cluster.cpu import thousandths
from tests.cluster.objects import deployment, service

ROLE = "manifests/components/waker-resize/rbac.yaml"
RUNS = 20
#: Milliseconds from the arrival of a request at a parked pod to the first byte.
GOAL = 150.0


def with_cpu(namespace: str, resources: Any, **options: Any) -> Any:
    found = deployment(namespace, replicas=1, **options)
    found["spec"]["template"]["spec"]["containers"][0]["resources"] = resources
    return found


BURSTABLE = {"requests": {"cpu": "500m", "memory": "64Mi"}, "limits": {"cpu": "1"}}


async def cpu(cluster: Cluster, namespace: str) -> tuple[int, int]:
    """Return the CPU that the pods of hello ask for now: requests and limits."""
    found = [0, 0]
    for pod in await cluster.pods("hello", namespace):
        for container in pod["spec"]["containers"]:
            for index, kind in enumerate(("requests", "limits")):
                found[index] += thousandths(container.get("resources") or {}, kind)
    return found[0], found[1]


async def test_a_parked_pod_frees_its_cpu_and_wakes_for_a_request(
    product: Cluster, namespace: str
) -> None:
    await product.apply(
        with_cpu(namespace, BURSTABLE), service(namespace, annotations={"waker": "resize"})
    )
    rule = '{apiGroups: ["apps"], resources: ["deployments"], verbs: ["get"]}'
    assert "scale-forbidden" in await product.announced("hello", rule, namespace)
    await product.kubectl("apply", "-f", ROLE)
    [pod] = await product.pods("hello", namespace)

    async def parked() -> bool:
        return await cpu(product, namespace) == (1, 10)

    took, ip = [], await product.address("activator-service", SYSTEM)
    for _ in range(RUNS):
        await product.until(parked, "the pod is parked")
        began = time.perf_counter()
        response = await fetch(ip, 80, "/", headers={"Host": f"hello.{namespace}"})
        took.append((time.perf_counter() - began) * 1000)
        assert response.status == 200
        assert await cpu(product, namespace) == (500, 1000)
    [same] = await product.pods("hello", namespace)
    assert same["metadata"]["uid"] == pod["metadata"]["uid"]
    assert same["status"]["containerStatuses"][0]["restartCount"] == 0
    middle = statistics.median(took)
    print(f"parked to first byte: p50 {middle:.0f} ms, most {max(took):.0f} ms, of {RUNS}")
    assert middle <= GOAL, took


async def test_a_guaranteed_pod_stays_guaranteed(product: Cluster, namespace: str) -> None:
    both = {"cpu": "500m", "memory": "64Mi"}
    resources = {"requests": both, "limits": both}
    await product.kubectl("apply", "-f", ROLE)
    await product.apply(
        with_cpu(namespace, resources), service(namespace, annotations={"waker": "resize"})
    )

    async def parked() -> bool:
        return await cpu(product, namespace) == (10, 10)

    await product.until(parked, "the pod is parked")
    assert (await product.ask(f"hello.{namespace}")).status == 200
    assert await cpu(product, namespace) == (500, 500)


async def test_a_pod_without_cpu_values_ends_with_a_reason(
    product: Cluster, namespace: str
) -> None:
    await product.kubectl("apply", "-f", ROLE)
    await product.apply(
        with_cpu(namespace, {}), service(namespace, annotations={"waker": "resize"})
    )
    await product.sleeps("hello", namespace)
    text = await product.announced("hello", "cannot-resize", namespace)
    assert "has no container with more CPU than it would keep" in text
    assert (await product.ask(f"hello.{namespace}")).status == 200


async def test_a_pod_has_more_cpu_until_it_is_ready(product: Cluster, namespace: str) -> None:
    resources = {"requests": {"cpu": "100m"}, "limits": {"cpu": "500m"}}
    await product.kubectl("apply", "-f", ROLE)
    # Each pod must be seen with the CPU of its template before it ends.
    first, later = (
        service(namespace, annotations={"startup-cpu": "2", "idle-seconds": seconds})
        for seconds in (60, 5)
    )
    await product.apply(with_cpu(namespace, resources, start_after=3.0), first)

    async def raised() -> bool:
        return await cpu(product, namespace) == (100, 2000)

    async def as_written() -> bool:
        return await cpu(product, namespace) == (100, 500)

    await product.until(raised, "the first pod has the CPU of its start")
    await product.until(as_written, "it has the CPU of its template")
    await product.apply(later)
    await product.sleeps("hello", namespace)
    asking = asyncio.ensure_future(product.ask(f"hello.{namespace}"))
    await product.until(raised, "a pod of a cold start has the CPU of its start")
    assert (await asking).status == 200
    await product.until(as_written, "that one has the CPU of its template")
