"""The chart in a cluster, and a HorizontalPodAutoscaler that reads the scaler's metric."""

from __future__ import annotations

import asyncio
import json

from playwright.async_api import expect

from tests.browser.chromium import chromium
from tests.cluster.cluster import SYSTEM, Cluster
from tests.cluster.objects import Object, deployment, service
from tests.programs import need

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


async def test_browsers_show_why_a_service_is_not_scaled_and_why_a_request_waits(
    cluster: Cluster, namespace: str
) -> None:
    need("chromium", "chromium")
    await cluster.install(*HELM)
    short = {"timeout-seconds": 60}
    await cluster.apply(
        deployment(namespace, replicas=0, start_after=3),
        service(namespace),
        service(namespace, "lost", short),
    )
    await cluster.shows(f"{namespace}/hello", "asleep")
    leader = (await cluster.leader()).rpartition("_")[0]
    async with (
        cluster.forward(f"pod/{leader}", 8081),
        cluster.forward("deployment/activator", 8080),
        chromium() as browser,
        asyncio.TaskGroup() as tasks,
    ):
        page = await browser.new_page()
        await page.goto(f"http://127.0.0.1:8081/#/?filter={namespace}")
        row = page.locator(f'tr[data-service="{namespace}/lost"]')
        await expect(row.locator(".reason")).to_have_text("no-scalable-target")
        row = page.locator(f'tr[data-service="{namespace}/hello"]')
        await expect(row.locator(".phase")).to_have_text("asleep")
        asking = tasks.create_task(cluster.ask(f"hello.{namespace}"))
        await expect(row.locator(".phase")).to_have_text("starting")
        assert (await asking).status == 200
        await expect(row.locator(".phase")).to_have_text("awake")
        lost = tasks.create_task(cluster.ask(f"lost.{namespace}"))
        await page.goto(f"http://127.0.0.1:8080/#/services/{namespace}/lost")
        why = page.get_by_role("region", name="Why")
        await expect(why).to_contain_text(f"Correct Service {namespace}/lost: no Deployment")
        await expect(why).not_to_contain_text("Nothing yet")
        lost.cancel()
