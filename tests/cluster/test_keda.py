"""KEDA's operator and metrics adapter scale what the first request started: docs/how-to/keda.md."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Final

import pytest
import yaml

from tests.cluster import keda as keda_itself
from tests.cluster.cluster import SYSTEM, Cluster
from tests.cluster.conftest import KUSTOMIZE
from tests.cluster.objects import Object, deployment, plain_service
from tests.cluster.traffic import traffic
from tests.process import ROOT

pytestmark = keda_itself.needs(*keda_itself.IMAGES.values())

#: Annotations of a ScaledObject that keep a sleeping workload asleep: the value, and the note.
PAUSES: Final = {
    "paused": ("yes", "KEDA adds and removes no replica, and the scaler starts no pod"),
    "paused-replicas": ("0", "KEDA keeps this number of replicas, and the scaler starts no pod"),
    "paused-scale-out": ("true", "KEDA adds no replica, and the scaler starts no pod"),
}
KEPT: Final = "paused-scale-in"
PREFIX: Final = "autoscaling.keda.sh/"


@pytest.fixture(scope="module")
async def keda(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Cluster]:
    """Provide the cluster with the product, and with KEDA, which is newer than the scaler."""
    await cluster.uninstall()  # an older scaler may look for KEDA at any time
    await cluster.install(*KUSTOMIZE)
    await cluster.until(lambda: has_looked(cluster), "each scaler has looked for KEDA in vain")
    await keda_itself.install(cluster, tmp_path_factory.mktemp("keda"))
    yield cluster
    await keda_itself.remove(cluster)


async def has_looked(cluster: Cluster) -> bool:
    """Return whether each scaler knows that there is no KEDA: it looks again in five minutes."""
    logs = [
        await cluster.kubectl("-n", SYSTEM, "logs", pod["metadata"]["name"])
        for pod in await cluster.pods("activator-scale", SYSTEM)
    ]
    return all("scaledobjects are not read, which is no fault" in log for log in logs)


def scaled_object(namespace: str, name: str, **annotations: str) -> Object:
    """Return the example for a Service, with short times and few pods."""
    text = (ROOT / "manifests/examples/keda.yaml").read_text()
    found: Object = yaml.safe_load(text.replace("hello", name))
    found["metadata"] |= {"namespace": namespace, "annotations": annotations}
    found["spec"] |= {"pollingInterval": 1, "cooldownPeriod": 1, "maxReplicaCount": 3}
    return found


async def annotate(
    cluster: Cluster, namespace: str, kind: str, name: str, *annotations: str
) -> None:
    await cluster.kubectl("-n", namespace, "annotate", "--overwrite", kind, name, *annotations)


async def opt_in(cluster: Cluster, namespace: str, name: str, *more: str) -> None:
    """Make a Service with a workload, and do the first step of the page."""
    workload = deployment(namespace, name, replicas=0, start_after=4, pre_stop=3)
    await cluster.apply(workload, plain_service(namespace, name))
    given = ("enabled=true", "owner=keda", "target-concurrency=10", *more)
    await annotate(
        cluster, namespace, "service", name, *(f"activator.dev/{each}" for each in given)
    )


async def row(cluster: Cluster, namespace: str, kind: str, name: str) -> dict[str, str]:
    """Return what ``kubectl get`` prints of an object, by column."""
    head, line = (await cluster.kubectl("-n", namespace, "get", kind, name)).splitlines()
    return dict(zip(re.split(r"\s{2,}", head), re.split(r"\s{2,}", line), strict=True))


async def states(cluster: Cluster, namespace: str, name: str, ready: str, active: str) -> None:
    """Wait until ``kubectl get`` prints these states of a ScaledObject."""

    async def found() -> bool:
        shown = await row(cluster, namespace, "scaledobject", name)
        return (shown["READY"], shown["ACTIVE"]) == (ready, active)

    await cluster.until(found, f"READY is {ready}, and ACTIVE is {active}")


async def has(cluster: Cluster, namespace: str, name: str, replicas: int) -> None:
    async def found() -> bool:
        return await cluster.replicas(name, namespace) == replicas

    await cluster.until(found, f"{namespace}/{name} has {replicas} replicas")


async def pauses(cluster: Cluster, namespace: str, name: str) -> None:
    """Show that a sleeping workload stays asleep while its ScaledObject is paused."""
    value, note = PAUSES[name]
    await opt_in(cluster, namespace, name)
    await cluster.apply(scaled_object(namespace, name, **{PREFIX + name: value}))
    expected = f"ScaledObject {name} has the annotation {PREFIX}{name}: {note} for a request"
    event = await cluster.announced(name, expected, namespace)
    assert event.startswith("scaled-object-paused: ")
    async with asyncio.TaskGroup() as tasks:
        asking = tasks.create_task(cluster.ask(f"{name}.{namespace}"))
        text = await cluster.shows(f"{namespace}/{name}", "1 request waits, scaled-object-paused")
        assert expected in text
        assert "KEDA's ScaledObject is paused, so no pod starts for a request" in text
        assert await cluster.replicas(name, namespace) == 0
        ends = f"{PREFIX}{name}=1" if name == "paused-replicas" else f"{PREFIX}{name}-"
        await annotate(cluster, namespace, "scaledobject", name, ends)
    assert asking.result().status == 200


async def refused(cluster: Cluster, namespace: str, name: str) -> None:
    """Show what a user reads of a ScaledObject for a Service that does not opt in."""
    await cluster.apply(
        deployment(namespace, name, replicas=0),
        plain_service(namespace, name),
        scaled_object(namespace, name),
    )
    await states(cluster, namespace, name, "False", "Unknown")
    log = await cluster.kubectl("-n", "keda", "logs", "deployment/keda-operator")
    assert f"Service {namespace}/{name} does not exist, or lacks the annotation" in log


async def test_keda_scales_what_the_first_request_started(keda: Cluster, namespace: str) -> None:
    hello = f"{namespace}/hello"
    await opt_in(keda, namespace, "hello")
    nothing = "owner is keda, and no ScaledObject targets Deployment hello"
    await keda.announced("hello", f"scaled-object-missing: {nothing}", namespace)
    await keda.apply(scaled_object(namespace, "hello", **{f"{PREFIX}paused": "False"}))
    await keda.announced("hello", "the scaler has not read ScaledObject hello: KEDA is", namespace)
    await keda.kubectl("-n", SYSTEM, "rollout", "restart", "deployment/activator-scale")
    await keda.rolled_out("activator-scale")
    text = await keda.shows(hello, "asleep: 0 replicas, 0 wanted, 0 ready; Deployment/hello")
    assert "scaled-object-missing" not in text
    await states(keda, namespace, "hello", "True", "False")
    await opt_in(keda, namespace, KEPT, "initial-scale=2")
    kept = scaled_object(namespace, KEPT, **{PREFIX + KEPT: "true"})
    kept["spec"]["pollingInterval"] = 30  # a poll must not start the pod before the scaler does
    await keda.apply(kept)
    ip = await keda.address("activator-service", SYSTEM)
    few = await keda.load(ip, f"hello.{namespace}", 1)
    many = await keda.load(ip, f"hello.{namespace}", 12, "/sleep?ms=2500")
    async with traffic(few):
        # KEDA is away while the first requests wait.
        await keda.shows(hello, "starting: 1 replica,")
        (operator,) = await keda.pods("keda-operator", "keda")
        await keda.kill("keda", operator["metadata"]["name"], "keda-operator")
        assert (await keda.ask(f"{KEPT}.{namespace}")).status == 200
        text = await keda.explain(f"{namespace}/{KEPT}")
        assert "0 → 2 replicas; a request waits while there is no pod" in text
        await states(keda, namespace, "hello", "True", "True")
        assert await keda.replicas("hello", namespace) == 1
        # The leader is killed. KEDA reads the greater load from the next one.
        first = await keda.another_leader()
        await keda.kill(SYSTEM, first.rpartition("_")[0], "scale")
        await keda.another_leader(than=first)
        async with traffic(many):
            await has(keda, namespace, "hello", 3)
            await states(keda, namespace, "hello", "True", "True")
            shown = await row(keda, namespace, "hpa", "keda-hpa-hello")
    assert re.fullmatch(r"[\d.]+m?/10 \(avg\)", shown["TARGETS"]), shown
    assert shown["REFERENCE"] == "Deployment/hello"
    metric = f"external metric s0-activator-{namespace}-hello"
    await keda.announced("keda-hpa-hello", f"New size: 3; reason: {metric}", namespace)
    async with asyncio.TaskGroup() as tasks:
        for name in PAUSES:
            tasks.create_task(pauses(keda, namespace, name))
        tasks.create_task(refused(keda, namespace, "other"))
        await has(keda, namespace, "hello", 0)
    await keda.announced("hello", "KEDAScaleTargetDeactivated: Deactivated apps/v1", namespace)
    assert "asleep: 0 replicas" in await keda.explain(hello)
    # The last request of this Service was earlier.
    text = await keda.explain(f"{namespace}/{KEPT}")
    note = "KEDA removes no replica, so the workload does not sleep"
    for found in (text, await keda.announced(KEPT, "scale-in-paused", namespace)):
        assert (
            f"scale-in-paused: ScaledObject {KEPT} has the annotation {PREFIX}{KEPT}: {note}"
            in found
        )
    assert await keda.replicas(KEPT, namespace) == 2
    await keda.apply(scaled_object(namespace, KEPT))
    await has(keda, namespace, KEPT, 0)
