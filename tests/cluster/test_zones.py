"""Requests stay in the zone of their activator, in a cluster with two zones."""

from __future__ import annotations

from collections.abc import AsyncIterator
from copy import deepcopy
from typing import Any, Final

import pytest

from activator.lab.programs import fetch
from tests.cluster.cluster import SYSTEM, Cluster
from tests.cluster.objects import deployment, service

Object = dict[str, Any]
#: Requests to each activator.
REQUESTS: Final = 200
ZONE: Final = "topology.kubernetes.io/zone"


@pytest.fixture
async def two_zones(product: Cluster) -> AsyncIterator[list[str]]:
    """Add a node in zone-2 with an activator; provide the addresses of both activators."""
    node = {"apiVersion": "v1", "kind": "Node"}
    await product.apply({**node, "metadata": {"name": "node-2", "labels": {ZONE: "zone-2"}}})
    known = await product.get("deployment", "activator", SYSTEM)
    assert known is not None
    found = deepcopy(known)
    found["metadata"] = {"name": "activator-2", "namespace": SYSTEM}
    found |= {"apiVersion": "apps/v1", "kind": "Deployment", "status": None}
    labels = {"app": "activator", "twin": "2"}
    found["spec"]["selector"]["matchLabels"] = labels
    template = found["spec"]["template"]
    template["metadata"]["labels"] |= labels
    template["spec"]["nodeName"] = "node-2"
    for each in template["spec"]["containers"][0]["env"]:
        if each["name"] == "ACTIVATOR_ZONE":  # only a scheduler lets the API server set the label
            each.pop("valueFrom")
            each["value"] = "zone-2"
    try:
        await product.apply(found)
        await product.rolled_out("activator-2")
        pods = await product.pods("activator", SYSTEM)
        pods.sort(key=lambda pod: pod["spec"]["nodeName"])
        yield [pod["status"]["podIP"] for pod in pods]
    finally:
        await product.kubectl("-n", SYSTEM, "delete", "deployment", "activator-2")
        await product.kubectl("delete", "node", "node-2")


async def outside(product: Cluster, namespace: str, activators: list[str]) -> list[float]:
    """Return the parts of the requests that each activator sends to the other zone."""
    found = []
    for ip, own in zip(activators, ("near", "far"), strict=True):
        headers, left = {"Host": f"hello.{namespace}"}, 0
        for _ in range(REQUESTS):
            response = await fetch(ip, 8012, "/", headers=headers)
            assert response.status == 200
            left += not response.body.startswith(f"Hello from {own}-")
        found.append(left / REQUESTS)
    return found


async def test_requests_leave_the_zone_only_if_it_has_too_few_pods(
    product: Cluster, namespace: str, two_zones: list[str]
) -> None:
    workloads = [deployment(namespace, name, replicas=2) for name in ("near", "far")]
    for each in workloads:
        labels = {"app": "hello", "at": each["metadata"]["name"]}
        each["spec"]["selector"]["matchLabels"] = labels
        each["spec"]["template"]["metadata"]["labels"] = labels
    workloads[1]["spec"]["template"]["spec"]["nodeName"] = "node-2"
    asks: dict[str, str | int] = {"owner": "none", "target": "deployment/near"}
    await product.apply(*workloads, service(namespace, annotations=asks))

    async def listed(near: int, far: int) -> None:
        async def are_usable() -> bool:
            for pod in await product.pods("activator", SYSTEM):
                words = ("exec", pod["metadata"]["name"], "--", "activator", "explain")
                shown = await product.kubectl("-n", SYSTEM, *words, f"{namespace}/hello")
                used = [line for line in shown.splitlines() if " use " in line]
                zones = [sum(f"(zone zone-{one}" in line for line in used) for one in (1, 2)]
                if zones != [near, far]:
                    return False
            return True

        await product.until(are_usable, f"{near} pods are in zone-1, {far} in zone-2")

    await listed(2, 2)
    even = await outside(product, namespace, two_zones)
    for name, replicas in (("near", 1), ("far", 3)):
        scale = ("scale", f"deployment/{name}", f"--replicas={replicas}")
        await product.kubectl("-n", namespace, *scale)
    await listed(1, 3)
    uneven = await outside(product, namespace, two_zones)
    print(f"requests that leave zone-1 and zone-2: even {even}, uneven {uneven}")
    assert even == [0.0, 0.0]
    # One of four pods takes half of the requests of one of two activators.
    assert uneven == [pytest.approx(0.5, abs=0.02), 0.0]
