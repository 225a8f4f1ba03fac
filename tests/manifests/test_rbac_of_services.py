"""The manifests permit exactly the requests of activator and scaler to the API server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from activator.lab.control_plane.api import REVISIONS, Right
from activator.lab.control_plane.plane import PlaneCall
from activator.plain import service as services
from activator.scale.wakers.table import waker_of
from activator.scale.wakers.waker import MARK_RULE
from activator.scale.workloads.replicas import ScalableKind, ScaleTarget
from tests.activator.discovery.fake_api_server import Call
from tests.activator.plain.objects import service
from tests.activator.scale.world import Cluster, leader, until
from tests.conftest import on_uvloop
from tests.manifests import knative
from tests.manifests.kustomize import MANIFESTS, build
from tests.manifests.test_rbac import Grant, grants
from tests.manifests.test_services import NAMESPACE, environment
from tests.process import ANY_PORTS, activator
from tests.process import until as until_real
from tests.recorded import requests

SERVICES = MANIFESTS / "overlays" / "services"

#: Rights that no request of the scaler needs by itself, and the component that checks them.
CHECKED_ELSEWHERE = {
    ("endpointslices/restricted", "create"): "OpenShift's admission, with each write of a slice"
}


def as_call(call: PlaneCall) -> Call:
    """Return a request in the form that ``Grant`` judges."""
    return Call(call.group, call.right.resource, call.namespace, call.verb, call.name)


class Restricted(Cluster):
    """A cluster in which the scaler has the rights of the manifests, and tests have all rights."""

    def __init__(self, folder: Path, permitted: Iterable[Grant]) -> None:
        super().__init__(folder)
        # The stand-in knows neither namespaces nor names of rights; the test compares them.
        self._rights = {Right(grant.verb, grant.group, grant.resource) for grant in permitted}
        self.plane.faults.grant_only(self._rights)

    async def send(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request as an administrator; it is not recorded."""
        # It waits for nothing, so no request of the scaler comes between.
        count = len(self.plane.calls)
        self.plane.faults.grant_only(None)
        try:
            return await super().send(method, path, body)
        finally:
            self.plane.faults.grant_only(self._rights)
            del self.plane.calls[count:]


@asynccontextmanager
async def restricted(folder: Path, permitted: Iterable[Grant]) -> AsyncIterator[Restricted]:
    kube = Restricted(folder, permitted)
    await kube.server.start()
    kube.kubeconfig = str(kube.server.write_kubeconfig(folder))
    try:
        yield kube
    finally:
        kube.plane.close()
        await kube.server.close()


async def test_each_request_of_the_scaler_is_permitted_and_each_permission_is_used(
    tmp_path: Path,
) -> None:
    permitted = grants(build(SERVICES), "activator-scale")
    async with restricted(tmp_path, permitted) as kube:
        await play(kube)
        made = {as_call(call) for call in kube.plane.calls}
    assert {call for call in made if not any(grant.covers(call) for grant in permitted)} == set()
    unused = {grant for grant in permitted if not any(grant.covers(call) for call in made)}
    assert {(grant.resource, grant.verb) for grant in unused} == set(CHECKED_ELSEWHERE)
    assert requests.problems("scaler", kube.plane.requests) == []


async def play(kube: Cluster) -> None:
    """Let a scaler do everything once: lead, start workloads, take over, warn, step down."""
    await kube.add()
    await kube.add("db", target="statefulset/db")
    await stateful_set(kube, "db")
    await kube.add("web", replicas=1, route="takeover")
    await activators(kube, "10.0.1.1")
    await kube.add("orphan", target="deployment/missing")
    await kube.add("custom", target="keda.sh/v1alpha1/scaledobject/s")
    async with leader(kube) as running, running.activator() as activator:
        await activator.report(1)
        await activator.report(1, "db")
        await until(lambda: kube.replicas() == 1, "a replica")
        await until(lambda: kube.calls("patch", "statefulsets", "scale"), "a replica of db")
        await until(lambda: kube.calls("create", "endpointslices"), "a takeover slice")
        await kube.set_ready("web", 1)
        await until(lambda: kube.calls("patch", "endpointslices"), "a slice without endpoints")
        await kube.annotate("web", route="front", pods_service="hello")
        web = "/api/v1/namespaces/shop/services/web"
        await kube.send("PATCH", web, {"spec": {"selector": None}})
        await leave_behind(kube, "web")
        await until(lambda: kube.calls("delete", "endpoints"), "no Endpoints")
        await kube.annotate("web", enabled=None)
        await until(lambda: kube.calls("delete", "endpointslices"), "no takeover slice")
        await until(lambda: kube.calls("patch", "events"), "an Event that is repeated")


async def leave_behind(kube: Cluster, name: str) -> None:
    """Leave what Kubernetes keeps of a Service without a selector."""
    labels = {
        "kubernetes.io/service-name": name,
        "endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io",
    }
    metadata = {"name": f"{name}-m", "namespace": "shop", "labels": labels}
    body = {"metadata": metadata, "addressType": "IPv4", "ports": [], "endpoints": []}
    await kube.send("POST", "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices", body)


async def activators(kube: Cluster, address: str) -> None:
    """List an activator in the slice of the manifests' Service."""
    metadata = {
        "name": "activator-service-x",
        "namespace": NAMESPACE,
        "labels": {"kubernetes.io/service-name": "activator-service"},
    }
    body = {
        "metadata": metadata,
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8012}],
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
    }
    path = f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices"
    await kube.send("POST", path, body)


async def stateful_set(kube: Cluster, name: str) -> None:
    """Create a StatefulSet without pods."""
    labels = {"app": f"stateful-{name}"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c"}]}}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    body = {"metadata": {"name": name, "namespace": "shop"}, "spec": {**spec, "serviceName": name}}
    await kube.send("POST", "/apis/apps/v1/namespaces/shop/statefulsets", body)


@on_uvloop  # a process runs in real time
@pytest.mark.parametrize("overlay", ["services", "knative"])
async def test_each_request_of_the_activator_is_permitted_and_each_permission_is_used(
    overlay: str, tmp_path: Path
) -> None:
    """With the environment of its Deployment; ``knative`` is Knative's with both dialects."""
    components = ["services"] if overlay == "knative" else []
    namespace = knative.NAMESPACE if overlay == "knative" else NAMESPACE
    objects = build(MANIFESTS / "overlays" / overlay, components)
    permitted = grants(objects)
    async with restricted(tmp_path, permitted) as kube:
        if overlay == "knative":
            kube.plane.resources.add(REVISIONS)
            path = f"/api/v1/namespaces/{namespace}/configmaps"
            await kube.send("POST", path, knative.config_map("config-network", {}))
        given = environment(objects, "activator") | {
            "POD_NAME": "activator-1",
            "POD_IP": "127.0.0.1",
            "SYSTEM_NAMESPACE": namespace,
            "KUBECONFIG": kube.kubeconfig,
            "ACTIVATOR_AUTOSCALER_URL": "",
            "ACTIVATOR_SCALER_URL": "",
            "ACTIVATOR_LAME_DUCK": "0s",
        }
        async with activator("run", *ANY_PORTS, environment=given) as running:
            await running.address("http")
            needed = {grant for grant in permitted if grant.verb == "watch"}

            async def all_watched() -> bool:
                made = [as_call(call) for call in kube.plane.calls]
                return all(any(map(grant.covers, made)) for grant in needed)

            await until_real(all_watched, f"each kind is watched: {running.log}")
        made = {as_call(call) for call in kube.plane.calls}
    assert {call for call in made if not any(grant.covers(call) for grant in permitted)} == set()
    assert {grant for grant in permitted if not any(map(grant.covers, made))} == set()


@pytest.mark.parametrize(
    ("component", "kind"),
    [
        ("waker-sandboxes", "agents.x-k8s.io/v1beta1/Sandbox/sandboxes"),
        ("waker-clusters", "postgresql.cnpg.io/v1/Cluster/clusters"),
        ("waker-virtual-machines", "kubevirt.io/v1/VirtualMachine/virtualmachines"),
        ("waker-rollouts", "argoproj.io/v1alpha1/Rollout/rollouts"),
    ],
)
def test_the_component_of_a_kind_adds_the_rules_of_its_waker_alone(
    component: str, kind: str
) -> None:
    group, version, name, plural = kind.split("/")
    resource = ScalableKind(group, version, name, plural)
    found = services.parse(service())
    assert found is not None
    target = ScaleTarget(resource, "shop", "hello")
    waker = waker_of(found, target)
    assert not isinstance(waker, str)
    rules = [*waker.rules(target.resource), *([MARK_RULE] if waker.marks else [])]
    needed = {
        Grant(rule.group, rule.resource, "", verb, "") for rule in rules for verb in rule.verbs
    }
    shipped = grants(build(SERVICES), "activator-scale")
    assert grants(build(SERVICES, [component]), "activator-scale") - shipped == needed
    assert needed.isdisjoint(shipped)


@pytest.mark.parametrize(
    ("component", "annotations"),
    [("waker-resize", {"waker": "resize"}), ("waker-http", {"profile": "vllm-sleep"})],
)
def test_the_component_of_a_waker_adds_its_rules_alone(
    component: str, annotations: dict[str, str]
) -> None:
    found = services.parse(service(annotations))
    assert found is not None
    needed = set()
    for plural in ("deployments", "statefulsets"):
        target = ScaleTarget(ScalableKind("apps", "v1", plural, plural), "shop", "hello")
        waker = waker_of(found, target)
        assert not isinstance(waker, str)
        for rule in (*waker.rules(target.resource), MARK_RULE):
            needed |= {Grant(rule.group, rule.resource, "", verb, "") for verb in rule.verbs}
    shipped = grants(build(SERVICES), "activator-scale")
    assert grants(build(SERVICES, [component]), "activator-scale") - shipped == needed - shipped
