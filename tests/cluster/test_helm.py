"""The chart in a cluster, and a HorizontalPodAutoscaler that reads the scaler's metric."""

from __future__ import annotations

import asyncio
import json

import httpx

from tests.cluster.cluster import SYSTEM, Cluster
from tests.cluster.objects import Object, deployment, service

HELM = (
    *("helm", "install", "activator", "manifests/chart", "--namespace", SYSTEM),
    *("--create-namespace", "--set", "image.repository=registry.example.com/activator"),
    *("--set", "externalMetrics.enabled=true"),
)


def autoscaler(namespace: str) -> Object:
    """Return an HPA with two requests per pod, which does not wait before it scales down."""
    metric = {"name": "activator_requests", "selector": {"matchLabels": {"service": "hello"}}}
    target = {"type": "AverageValue", "averageValue": "2"}
    at_once = {"stabilizationWindowSeconds": 0}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "hello", "namespace": namespace},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "hello"},
            "minReplicas": 0,
            "maxReplicas": 3,
            "metrics": [{"type": "External", "external": {"metric": metric, "target": target}}],
            "behavior": {"scaleDown": at_once, "scaleUp": at_once},
        },
    }


async def test_an_hpa_scales_what_the_first_request_started(
    cluster: Cluster, namespace: str
) -> None:
    await cluster.install(*HELM)
    await cluster.apply(
        deployment(namespace, replicas=0),
        service(namespace, annotations={"owner": "hpa"}),
        autoscaler(namespace),
    )
    group = "/apis/external.metrics.k8s.io/v1beta1"
    metric = f"{group}/namespaces/{namespace}/activator_requests?labelSelector=service=hello"

    async def value() -> str:
        done = await cluster.run("kubectl", "get", "--raw", metric)
        return json.loads(done.output)["items"][0]["value"] if done.status == 0 else ""

    async def has(replicas: int) -> bool:
        return await cluster.replicas("hello", namespace) == replicas

    assert await cluster.until(value, "the API server passes the metric on") == "0"
    ip = await cluster.address("activator-service", SYSTEM)
    load = await cluster.load(ip, f"hello.{namespace}", 10, "/sleep?ms=600")
    async with asyncio.TaskGroup() as tasks:
        load.start(tasks)
        await load.more(1)
        await cluster.until(lambda: has(3), "the HPA has made three pods")
        text = await cluster.explain(f"{namespace}/hello")
        assert "owner hpa" in text
        await load.stop()
    assert load.statuses("GET").keys() | load.statuses("POST").keys() == {200}, load.summary()
    await cluster.until(lambda: has(0), "the HPA has put it to sleep")


async def test_the_pages_of_scaler_and_activator_show_each_service(
    cluster: Cluster, namespace: str
) -> None:
    await cluster.install(*HELM)
    await cluster.apply(
        deployment(namespace, replicas=0),
        service(namespace),
        service(namespace, "lost"),
    )
    await cluster.shows(f"{namespace}/hello", "asleep")

    async def get(app: str, port: int, path: str) -> httpx.Response:
        (pod, *_) = await cluster.pods(app, SYSTEM)
        async with httpx.AsyncClient() as client:
            return await client.get(f"http://{pod['status']['podIP']}:{port}{path}")

    lease = await cluster.get("lease", "activator-scale", SYSTEM)
    assert lease is not None
    leader = lease["spec"]["holderIdentity"].rpartition("_")[0]
    pod = await cluster.get("pod", leader, SYSTEM)
    assert pod is not None
    async with httpx.AsyncClient(base_url=f"http://{pod['status']['podIP']}:8081") as scaler:
        page = await scaler.get("/")
        services = (await scaler.get(f"/api/v1/services?filter={namespace}")).json()["services"]
        reason = await scaler.get("/reasons/no-endpoints")
    assert page.status_code == 200
    assert reason.status_code == 200
    found = {each["name"]: each for each in services}
    assert found["hello"]["phase"] == "asleep"
    assert found["lost"]["reason"] == "no-scalable-target"
    # The admin port of an activator listens on loopback only, until an operator opens it.
    command = ("curl", "-s", "http://127.0.0.1:8080/api/v1/revisions")
    shown = json.loads(
        await cluster.kubectl("-n", SYSTEM, "exec", "deployment/activator", "--", *command)
    )
    names = {each["name"] for each in shown["revisions"] if each["namespace"] == namespace}
    assert names == {"hello", "lost"}
    metrics = await get("activator", 9090, "/metrics")
    assert "activator_failed_cold_starts" in metrics.text
