"""Objects without replicas that sleep and wake: their kinds are real, their controllers stand-ins.

Each stand-in is a Deployment that this test scales as the controller of the kind would.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

import pytest

from tests.cluster.cluster import SYSTEM, Cluster
from tests.cluster.objects import annotations_patch, definition, deployment, service

Object = dict[str, Any]
MERGE: Final = {"Content-Type": "application/merge-patch+json"}


class Kind(NamedTuple):
    """A kind that can sleep: its API, the component of the manifests, and how it runs."""

    group: str
    version: str
    kind: str
    plural: str
    component: str
    running: Object
    sleeping: Object

    def path(self, namespace: str, name: str = "") -> str:
        found = f"/apis/{self.group}/{self.version}/namespaces/{namespace}/{self.plural}"
        return f"{found}/{name}" if name else found

    @property
    def target(self) -> str:
        return f"{self.group}/{self.version}/{self.kind}/box"

    def sleeps(self, obj: Object) -> bool:
        return all(_within(self.sleeping, obj))


def _within(part: Mapping[str, Any], whole: Mapping[str, Any]) -> list[bool]:
    return [
        found
        for name, each in part.items()
        for found in (
            _within(each, whole.get(name) or {})
            if isinstance(each, dict)
            else [whole.get(name) == each]
        )
    ]


SANDBOX = Kind(
    *("agents.x-k8s.io", "v1beta1", "Sandbox", "sandboxes", "waker-sandboxes"),
    {"spec": {"operatingMode": "Running"}},
    {"spec": {"operatingMode": "Suspended"}},
)
CLUSTER = Kind(
    *("postgresql.cnpg.io", "v1", "Cluster", "clusters", "waker-clusters"),
    {"metadata": {"annotations": {"cnpg.io/hibernation": "off"}}},
    {"metadata": {"annotations": {"cnpg.io/hibernation": "on"}}},
)
MACHINE = Kind(
    *("kubevirt.io", "v1", "VirtualMachine", "virtualmachines", "waker-virtual-machines"),
    {"spec": {"runStrategy": "Always"}},
    {"spec": {"runStrategy": "Halted"}},
)
ROLLOUT = Kind(
    *("argoproj.io", "v1alpha1", "Rollout", "rollouts", "waker-rollouts"),
    {"spec": {"replicas": 1}},
    {"spec": {"replicas": 0}},
)
KINDS = (SANDBOX, CLUSTER, MACHINE, ROLLOUT)


class Boxes:
    """Objects of one namespace, and the stand-ins of their controllers.

    Attributes:
        keeps_pods: whether the pods of a sleeping object stay, and are ready.
    """

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.keeps_pods = False

    async def add(self, kind: Kind, **annotations: str | int) -> None:
        """Create an object that runs, and the Service of its pods."""
        metadata = {"name": "box", "namespace": self.namespace}
        api_version = f"{kind.group}/{kind.version}"
        body: Object = {"apiVersion": api_version, "kind": kind.kind, "metadata": metadata}
        body |= {"spec": kind.running.get("spec", {"instances": 1})}
        if "metadata" in kind.running:
            body["metadata"] |= kind.running["metadata"]
        given = {"target": kind.target, **annotations}
        await self.cluster.apply(
            deployment(self.namespace, replicas=1), body, service(self.namespace, annotations=given)
        )

    async def get(self, kind: Kind) -> Object:
        async with self.cluster.api() as api:
            response = await api.get(kind.path(self.namespace, "box"))
        found: Object = response.raise_for_status().json()
        return found

    async def patch(self, path: str, body: Object) -> None:
        async with self.cluster.api() as api:
            response = await api.patch(path, content=json.dumps(body), headers=MERGE)
        response.raise_for_status()

    async def annotate(self, **annotations: str | None) -> None:
        """Change annotations of the Service, as a person does."""
        body = annotations_patch(
            {name.replace("_", "-"): each for name, each in annotations.items()}
        )
        words = ("patch", "service", "hello", "--type=merge", "-p", body)
        await self.cluster.kubectl("-n", self.namespace, *words)

    async def mark(self) -> str:
        """Return the asleep mark of the Service; empty for none."""
        found = await self.cluster.get("service", "hello", self.namespace)
        assert found is not None
        mark: str = found["metadata"]["annotations"].get("activator.dev/asleep", "")
        return mark

    async def asleep(self, kind: Kind) -> None:
        """Wait until the object sleeps, and has no pods unless they stay."""

        async def sleeps() -> bool:
            return kind.sleeps(await self.get(kind))

        await self.cluster.until(sleeps, f"{kind.kind} sleeps")
        if not self.keeps_pods:
            await self.cluster.sleeps("hello", self.namespace)

    async def awake(self, kind: Kind) -> None:
        """Wait until the object runs, and its Service has no mark."""

        async def runs() -> bool:
            return not kind.sleeps(await self.get(kind)) and not await self.mark()

        await self.cluster.until(runs, f"{kind.kind} runs")

    @asynccontextmanager
    async def controlled(self, kind: Kind) -> AsyncIterator[None]:
        """Play the controller of a kind."""
        task = asyncio.ensure_future(self._control(kind))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _control(self, kind: Kind) -> None:
        path = f"/apis/apps/v1/namespaces/{self.namespace}/deployments/hello"
        while True:
            wanted = 0 if kind.sleeps(await self.get(kind)) and not self.keeps_pods else 1
            if await self.cluster.replicas("hello", self.namespace) != wanted:
                await self.patch(path, {"spec": {"replicas": wanted}})
            passed = asyncio.Event()
            asyncio.get_running_loop().call_later(0.1, passed.set)
            await passed.wait()


@pytest.fixture
async def kinds(product: Cluster) -> AsyncIterator[None]:
    """Install the kinds, without any right of the scaler."""
    found = [definition(*each[:3], plural=each.plural) for each in KINDS]
    subresources = found[-1]["spec"]["versions"][0]["subresources"]
    subresources["scale"] = {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
    }
    await product.apply(*found)
    for each in found:
        name = f"crd/{each['metadata']['name']}"
        await product.kubectl("wait", "--for=condition=Established", name)
    yield
    for kind in KINDS:
        role = f"manifests/components/{kind.component}/rbac.yaml"
        await product.kubectl("delete", "--ignore-not-found", "-f", role)


async def allow(product: Cluster, kind: Kind) -> None:
    """Give the scaler the rights of a component."""
    await product.kubectl("apply", "-f", f"manifests/components/{kind.component}/rbac.yaml")


@asynccontextmanager
async def asleep(product: Cluster, namespace: str, kind: Kind) -> AsyncIterator[Boxes]:
    """Yield a sleeping object, with its controller; the scaler has the rights of the component."""
    await allow(product, kind)
    boxes = Boxes(product, namespace)
    await boxes.add(kind)
    async with boxes.controlled(kind):
        await boxes.asleep(kind)
        yield boxes


@asynccontextmanager
async def without_scaler(product: Cluster) -> AsyncIterator[None]:
    """Remove the pods of the scaler inside the context."""
    scale = ("-n", SYSTEM, "scale", "deployment/activator-scale")
    await product.kubectl(*scale, "--replicas=0")
    try:
        yield
    finally:
        await product.kubectl(*scale, "--replicas=2")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
async def test_a_request_wakes_an_object(
    product: Cluster, kinds: None, namespace: str, kind: Kind
) -> None:
    await allow(product, kind)
    boxes = Boxes(product, namespace)
    await boxes.add(kind)
    async with boxes.controlled(kind):
        for _ in range(2):
            await boxes.asleep(kind)
            assert bool(await boxes.mark()) is (kind is not ROLLOUT)
            response = await product.ask(f"hello.{namespace}")
            assert (response.status, response.body.startswith("Hello from hello-")) == (200, True)
            await boxes.awake(kind)


async def test_the_missing_rule_is_named(product: Cluster, kinds: None, namespace: str) -> None:
    boxes = Boxes(product, namespace)
    await boxes.add(SANDBOX)
    event = await product.announced("hello", "scale-forbidden", namespace)
    rule = '{apiGroups: ["agents.x-k8s.io"], resources: ["sandboxes"], verbs: ["get", "patch"]}'
    assert rule in event
    async with boxes.controlled(SANDBOX):
        await allow(product, SANDBOX)
        await boxes.asleep(SANDBOX)


async def test_an_object_wakes_if_its_service_opts_out_while_it_sleeps(
    product: Cluster, kinds: None, namespace: str
) -> None:
    async with asleep(product, namespace, MACHINE) as boxes:
        await boxes.annotate(enabled=None)
        await boxes.awake(MACHINE)


async def test_a_scaler_that_starts_wakes_what_another_has_put_to_sleep(
    product: Cluster, kinds: None, namespace: str
) -> None:
    async with asleep(product, namespace, CLUSTER) as boxes:
        await product.kubectl("-n", SYSTEM, "rollout", "restart", "deployment/activator-scale")
        await product.rolled_out("activator-scale")
        assert await boxes.mark()
        assert (await product.ask(f"hello.{namespace}")).status == 200
        await boxes.asleep(CLUSTER)
        async with without_scaler(product):
            await boxes.annotate(enabled=None)
        await boxes.awake(CLUSTER)


async def test_a_job_wakes_what_sleeps_before_the_scaler_is_removed(
    product: Cluster, kinds: None, namespace: str
) -> None:
    example = ("-f", "manifests/examples/wake-all.yaml")
    async with asleep(product, namespace, SANDBOX) as boxes, without_scaler(product):
        await product.kubectl("apply", *example)
        try:
            await boxes.awake(SANDBOX)
            # Services of earlier tests may be about to go, so the Job may fail.
            job = ("-n", SYSTEM, "logs", "job/activator-wake-all")

            async def says_so() -> bool:
                return f"{namespace}/hello: awake\n" in await product.kubectl(*job)

            await product.until(says_so, "the Job names the workload")
        finally:
            await product.kubectl("delete", *example)


async def test_no_activator_sends_a_request_to_pods_of_a_marked_service(
    product: Cluster, kinds: None, namespace: str, two_activators: None
) -> None:
    await allow(product, MACHINE)
    boxes = Boxes(product, namespace)
    boxes.keeps_pods = True
    given: dict[str, Any] = {"awake-condition": "Ready=True", "timeout-seconds": 5}
    await boxes.add(MACHINE, **given)

    async def ask() -> list[tuple[int, str]]:
        """Send requests on as many connections, so that both activators get some."""
        found = await asyncio.gather(
            *(product.ask(f"hello.{namespace}", "/sleep?ms=1") for _ in range(8))
        )
        reasons = (each.headers.get("activator-reason", "") for each in found)
        return [(each.status, why) for each, why in zip(found, reasons, strict=True)]

    async with boxes.controlled(MACHINE):
        await boxes.asleep(MACHINE)
        assert await product.endpoints("hello", namespace), "the pods are listed as ready"
        # The object never confirms that it is awake.
        assert await ask() == [(504, "pods-asleep")] * 8
        [first, *_] = await product.pods("activator", SYSTEM)
        force = ("--force", "--grace-period=0")
        await product.kubectl("-n", SYSTEM, "delete", "pod", first["metadata"]["name"], *force)
        await product.rolled_out("activator")
        assert await ask() == [(504, "pods-asleep")] * 8
        assert await _served(product, namespace) == 0
        ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
        await boxes.patch(f"{MACHINE.path(namespace, 'box')}/status", ready)
        assert await ask() == [(200, "")] * 8
        assert await _served(product, namespace) == 8


async def _served(product: Cluster, namespace: str) -> int:
    """Return how many of the test's requests the pods have got."""
    found = 0
    for pod in await product.pods("hello", namespace):
        lines = await product.kubectl("-n", namespace, "logs", pod["metadata"]["name"])
        found += sum("/sleep" in line and '"responded"' in line for line in lines.splitlines())
    return found
