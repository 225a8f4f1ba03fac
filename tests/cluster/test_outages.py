"""Requests wait while the leader or the API server is away, and none is lost."""

from __future__ import annotations

import asyncio

from tests.cluster.cluster import SYSTEM, Cluster
from tests.cluster.objects import deployment, service


async def test_requests_wait_while_the_api_server_is_away(product: Cluster, namespace: str) -> None:
    for name, start_after in (("begun", 3), ("asked", 0)):
        await product.apply(
            deployment(namespace, name, replicas=0, start_after=start_after),
            service(namespace, name),
        )
        await product.shows(f"{namespace}/{name}", "asleep")

    async def is_alone() -> bool:
        return len(await product.find("pod", SYSTEM, "app=activator")) == 1

    # Without the API server, an activator of an earlier test that drains stays in the Service.
    await product.until(is_alone, "one pod of the activator is left")
    ip = await product.address("activator-service", SYSTEM)
    begun = await product.load(ip, f"begun.{namespace}", 5)
    asked = await product.load(ip, f"asked.{namespace}", 5)
    async with asyncio.TaskGroup() as tasks:
        begun.start(tasks)
        await product.shows(f"{namespace}/begun", "10.244.")
        product.control_plane.kill_api_server()
        asked.start(tasks)
        await begun.more(10)  # the pod that was created serves although the API server is away
        product.control_plane.start_api_server()
        product.control_plane.wait_until_ready()
        await asked.more(10)
        await begun.stop()
        await asked.stop()
    # The next tests need an activator that follows all objects again.
    await product.apply(deployment(namespace, "later", replicas=0), service(namespace, "later"))
    await product.shows(f"{namespace}/later", "asleep")
    for load in (begun, asked):
        assert load.statuses("GET").keys() | load.statuses("POST").keys() == {200}, load.summary()


async def test_another_scaler_leads_when_the_leader_is_killed(
    product: Cluster, namespace: str
) -> None:
    await product.apply(deployment(namespace, replicas=0), service(namespace))
    await product.shows(f"{namespace}/hello", "asleep")
    first = await product.another_leader()
    await product.kill(SYSTEM, first.rpartition("_")[0], "scale")
    assert (await product.ask(f"hello.{namespace}")).status == 200
    await product.another_leader(than=first)
