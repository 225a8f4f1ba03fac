"""Chains, trial runs and savings in a cluster, as people read them."""

from __future__ import annotations

import asyncio

from tests.cluster.cluster import Cluster
from tests.cluster.objects import annotations_patch, deployment, service


async def test_one_request_wakes_a_chain(product: Cluster, namespace: str) -> None:
    for name, asks in (("web", {"wake-with": "api,missing"}), ("api", {})):
        await product.apply(deployment(namespace, name, replicas=0), service(namespace, name, asks))
    note = f"Service {namespace}/missing does not exist, or has no activator.dev/enabled"
    assert note in await product.announced("web", "wake-with-unknown", namespace)
    assert (await product.ask(f"web.{namespace}")).status == 200
    shown = await product.shows(f"{namespace}/api", "names this one in wake-with")
    assert "Last change" in shown
    await product.sleeps("web", namespace)
    await product.sleeps("api", namespace)
    shown = await product.shows(f"{namespace}/api", "pod-hours")
    assert "Sleep has saved 0.0" in shown


async def test_a_trial_run_shows_what_sleep_would_save(product: Cluster, namespace: str) -> None:
    await product.apply(
        deployment(namespace, replicas=1), service(namespace, annotations={"dry-run": "true"})
    )
    shown = await product.shows(f"{namespace}/hello", "A trial run: sleep would have saved")
    assert "a trial run: the scaler changes no replicas" in shown
    assert await product.replicas("hello", namespace) == 1
    assert (await product.ask(f"hello.{namespace}")).status == 200
    await product.shows(f"{namespace}/hello", "would have waited for a first pod: 1")
    end = ("patch", "service", "hello", "--type=merge", "-p", annotations_patch({"dry-run": None}))
    await asyncio.wait_for(product.kubectl("-n", namespace, *end), 30)
    await product.sleeps("hello", namespace)
