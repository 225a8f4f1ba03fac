"""A TCP Service in a cluster: it sleeps, its port names it, and activators stay in its path."""

from __future__ import annotations

from tests.cluster.cluster import SYSTEM, Cluster
from tests.cluster.objects import deployment, plain_service, service
from tests.cluster.traffic import traffic


async def test_a_tcp_service_sleeps_and_starts_behind_its_front(
    product: Cluster, namespace: str
) -> None:
    given: dict[str, str | int] = {"route": "front", "pods-service": "hello", "protocol": "tcp"}
    front = service(namespace, "front", given)
    del front["spec"]["selector"]
    pods = plain_service(namespace, "hello")
    await product.apply(deployment(namespace, replicas=0), pods, front)
    activators = sorted(pod["status"]["podIP"] for pod in await product.pods("activator", SYSTEM))

    async def routed() -> bool:
        return await product.endpoints("front", namespace) == activators

    await product.until(routed, "the activators are the endpoints of the front")
    ip = await product.address("front", namespace)
    explained = await product.explain(f"{namespace}/front")
    assert f"Service {namespace}/front: no connection waits" in explained
    assert "TCP: bytes pass as they come; limits and load count connections" in explained
    assert "\nPort " in explained, "the port names the Service"
    async with traffic(await product.load(ip, "front", 5)) as load:  # HTTP is bytes too
        await load.more(20)
        assert await product.pods("hello", namespace)
        assert await routed(), "connections stay in the path of the activators"
    await product.sleeps("hello", namespace)
    unknown = await product.ask(f"front.{namespace}")
    assert unknown.status == 404, "no host leads to a TCP Service"


async def test_a_tcp_service_on_the_shared_port_is_refused(
    product: Cluster, namespace: str
) -> None:
    await product.apply(
        deployment(namespace, replicas=0), service(namespace, "hello", {"protocol": "tcp"})
    )
    await product.announced("hello", "refused", namespace)
