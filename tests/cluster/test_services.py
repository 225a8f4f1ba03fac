"""Annotated Services in a cluster: sleep, cold start, routes, limits, rollouts, GitOps."""

from __future__ import annotations

import json

from tests.cluster.cluster import SYSTEM, Cluster
from tests.cluster.objects import annotations_patch, deployment, plain_service, service
from tests.cluster.traffic import traffic


async def test_a_deployment_sleeps_and_starts_with_the_first_request(
    product: Cluster, namespace: str
) -> None:
    await product.apply(deployment(namespace), service(namespace))
    await product.sleeps("hello", namespace)
    assert "asleep" in await product.explain(f"{namespace}/hello")
    for host in (f"hello.{namespace}", f"hello.{namespace}.svc.cluster.local"):
        response = await product.ask(host)
        assert (response.status, response.body.startswith("Hello from hello-")) == (200, True)
        await product.sleeps("hello", namespace)
    unknown = await product.ask("unknown.example.com")
    assert unknown.status == 404


async def test_takeover_loses_no_request_on_the_way_to_zero_and_back(
    product: Cluster, namespace: str, two_activators: None
) -> None:
    await product.apply(
        deployment(namespace, replicas=0, pre_stop=3),
        service(namespace, annotations={"route": "takeover"}),
    )
    ip = await product.address("hello", namespace)
    activators = sorted(pod["status"]["podIP"] for pod in await product.pods("activator", SYSTEM))

    async def asleep() -> bool:
        endpoints = await product.endpoints("hello", namespace)
        return endpoints == activators and not await product.pods("hello", namespace)

    async def awake() -> bool:
        pods = [pod["status"].get("podIP") for pod in await product.pods("hello", namespace)]
        return bool(pods) and await product.endpoints("hello", namespace) == pods

    for _ in range(2):
        await product.until(asleep, "the activators are the endpoints of the sleeping Service")
        async with traffic(await product.load(ip, "hello", 20)) as load:
            await load.more(40)
            await product.until(awake, "the pod is the only endpoint")
            await load.more(40)


async def test_a_limit_of_a_front_holds_with_two_activators(
    product: Cluster, namespace: str, two_activators: None
) -> None:
    given: dict[str, str | int] = {
        "route": "front",
        "pods-service": "hello",
        "container-concurrency": 1,
        "max-scale": 2,
    }
    front = service(namespace, "front", given)
    del front["spec"]["selector"]
    pods = plain_service(namespace, "hello")
    await product.apply(deployment(namespace, replicas=0), pods, front)
    activators = sorted(pod["status"]["podIP"] for pod in await product.pods("activator", SYSTEM))

    async def routed() -> bool:
        return await product.endpoints("front", namespace) == activators

    await product.until(routed, "the activators are the endpoints of the front")
    ip = await product.address("front", namespace)
    async with traffic(await product.load(ip, "front", 10, "/sleep?ms=50")) as load:
        await load.more(100)
    for pod in await product.pods("hello", namespace):
        lines = await product.kubectl("-n", namespace, "logs", pod["metadata"]["name"])
        served = [json.loads(line) for line in lines.splitlines() if '"responded"' in line]
        events = [(event["at"] - event["took"], 1) for event in served]
        events += [(event["at"], -1) for event in served]
        most = now = 0
        for _, change in sorted(events):
            now += change
            most = max(most, now)
        assert most <= 1, f"{most} requests at a time in {pod['metadata']['name']}"


async def test_a_service_moves_to_a_front_and_back_without_a_lost_request(
    product: Cluster, namespace: str
) -> None:
    pods = plain_service(namespace, "hello-pods", selects="hello")
    hello = plain_service(namespace, "hello")
    await product.apply(deployment(namespace, replicas=1, pre_stop=3), pods, hello)
    ip = await product.address("hello", namespace)

    async def lists_pod() -> bool:
        """Return whether Kubernetes lists the pod: the scaler's slice has it, too."""
        for found in await product.find("slice", namespace, "kubernetes.io/service-name=hello"):
            if found["metadata"]["name"] != "hello-activator" and found.get("endpoints"):
                return found["endpoints"][0]["conditions"]["ready"] is True
        return False

    async def own_slice() -> bool:
        found = await product.get("slice", "hello-activator", namespace)
        return found is not None and bool(found["endpoints"])

    async def only_own_slice() -> bool:
        label = "kubernetes.io/service-name=hello"
        found = await product.find("slice", namespace, label)
        return [each["metadata"]["name"] for each in found] == ["hello-activator"]

    async def no_own_slice() -> bool:
        return await product.get("slice", "hello-activator", namespace) is None

    await product.until(lists_pod, "the pod is ready")
    async with traffic(await product.load(ip, "hello", 20)) as load:
        given = {"enabled": "true", "route": "front", "pods-service": "hello-pods"}
        given |= {"min-scale": "1"}
        await _patch(product, namespace, annotations_patch(given))
        await product.announced("hello", "front-has-selector", namespace)
        await product.until(own_slice, "the scaler has written its slice")
        await _patch(product, namespace, '{"spec":{"selector":null}}')
        await product.until(only_own_slice, "the old slices are deleted")
        await load.more(20)
        await _patch(product, namespace, '{"spec":{"selector":{"app":"hello"}}}')
        await product.until(lists_pod, "Kubernetes lists the pod")
        removed = annotations_patch({"route": None, "pods-service": None})
        await _patch(product, namespace, removed)
        await product.until(no_own_slice, "the scaler has deleted its slice")
        await load.more(20)


async def test_rollout_and_scale_down_lose_no_request(product: Cluster, namespace: str) -> None:
    await product.apply(
        deployment(namespace, replicas=2, pre_stop=3),
        service(namespace, annotations={"min-scale": 2}),
    )
    ip = await product.address("activator-service", SYSTEM)
    async with traffic(await product.load(ip, f"hello.{namespace}", 20)) as load:
        await load.more(20)
        restart = ("rollout", "restart", "deployment/hello")
        await product.kubectl("-n", namespace, *restart)
        await product.kubectl("-n", namespace, "rollout", "status", "deployment/hello")
        await _patch(product, namespace, annotations_patch({"min-scale": "1", "max-scale": "1"}))

        async def one_pod() -> bool:
            return len(await product.find("pod", namespace, "app=hello")) == 1

        await product.until(one_pod, "one pod is left")
        await load.more(20)


async def test_gitops_that_resets_replicas_is_named_and_loses_no_request(
    product: Cluster, namespace: str
) -> None:
    await product.apply(
        deployment(namespace, replicas=0, pre_stop=3),
        service(namespace, annotations={"idle-seconds": 30}),
    )
    ip = await product.address("activator-service", SYSTEM)
    async with traffic(await product.load(ip, f"hello.{namespace}", 10)) as load:
        await load.more(10)
        reset = ("--server-side", "--force-conflicts", "--field-manager=gitops", "-f", "-")
        manifest = json.dumps(deployment(namespace, replicas=0, pre_stop=3))
        await product.kubectl("apply", *reset, stdin=manifest)
        event = await product.announced("hello", "replicas-reset", namespace)
        assert "gitops" in event
        await load.more(20)


async def _patch(cluster: Cluster, namespace: str, body: str) -> None:
    await cluster.kubectl(
        *("-n", namespace, "patch", "service", "hello", "--type=merge", "-p", body)
    )
