"""The manifests permit exactly the requests that the scaler sends to the API server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from activator.lab.control_plane.faults import Right
from activator.lab.control_plane.plane import Call as PlaneCall
from tests.activator.discovery.fake_api_server import Call
from tests.activator.scale.world import Cluster, elapse, leader, until
from tests.manifests.kustomize import MANIFESTS, build
from tests.manifests.test_rbac import Grant, grants

SERVICES = MANIFESTS / "overlays" / "services"

#: Rights that no request of the scaler needs by itself, and the component that checks them.
CHECKED_ELSEWHERE = {
    ("endpointslices/restricted", "create"): "OpenShift's admission, with each write of a slice"
}
#: Rights of parts that the program does not have yet.
NOT_YET = {
    ("endpointslices", "create"),
    ("endpointslices", "patch"),
    ("endpointslices", "delete"),
    ("events", "create"),
    ("events", "patch"),
    ("horizontalpodautoscalers", "list"),
    ("horizontalpodautoscalers", "watch"),
    ("scaledobjects", "list"),
    ("scaledobjects", "watch"),
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
    assert {(grant.resource, grant.verb) for grant in unused} - NOT_YET == set(CHECKED_ELSEWHERE)


async def play(kube: Cluster) -> None:
    """Let a scaler do everything once: lead, start workloads, take over, warn, step down."""
    await kube.add()
    await kube.add("db", target="statefulset/db")
    await stateful_set(kube, "db")
    async with leader(kube) as running, running.activator() as activator:
        await activator.report(1)
        await activator.report(1, "db")
        await until(lambda: kube.replicas() == 1, "a replica")
        await until(lambda: kube.calls("patch", "statefulsets", "scale"), "a replica of db")
        await elapse(30)


async def stateful_set(kube: Cluster, name: str) -> None:
    """Create a StatefulSet without pods."""
    labels = {"app": f"stateful-{name}"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c"}]}}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    body = {"metadata": {"name": name, "namespace": "shop"}, "spec": {**spec, "serviceName": name}}
    await kube.send("POST", "/apis/apps/v1/namespaces/shop/statefulsets", body)
