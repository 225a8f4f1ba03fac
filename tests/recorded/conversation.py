"""The requests of the programs, each kind once, and what the responses depend on.

Requests of the scaler and of discovery come from their own code where that is a function.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, cast
from unittest.mock import patch

from activator.discovery import wire
from activator.discovery.api_server import MERGE_PATCH, ApiRequest, ApiServer
from activator.discovery.backoff import Timings
from activator.discovery.wire import ServerResponseError, WatchedResource, pages
from activator.scale import election
from activator.scale.election import Election
from activator.scale.events import EventBook, Subject
from activator.scale.reasons import Finding, ScaleReason
from activator.scale.takeover import slices
from activator.scale.takeover.slices import stored
from activator.scale.wakers.scale import Scale
from tests.recorded.talk import Speaker, Talk

Object = dict[str, Any]

SYSTEM: Final = "activator-system"
NOW: Final = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)

SERVICES: Final = "/api/v1/services"
SHOP: Final = "/api/v1/namespaces/shop"
APPS: Final = "/apis/apps/v1/namespaces/shop"
SLICES: Final = "/apis/discovery.k8s.io/v1/endpointslices"
SCALED: Final = "/apis/keda.sh/v1alpha1"
LEASES: Final = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases"
EVENTS: Final = "/apis/events.k8s.io/v1/namespaces/shop/events"
PODS: Final = f"/api/v1/namespaces/{SYSTEM}/pods"
REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_OF_KNATIVE: Final = {"labelSelector": "networking.internal.knative.dev/serviceType"}


async def converse(talk: Talk) -> None:
    """Hold the whole conversation."""
    for part in (_discover, _scale, _lead, _label, _take_over, _report, _list, _watch, _expire):
        await part(talk)


async def _discover(talk: Talk) -> None:
    await talk.activator.read("/version")
    for path in ("/apis/apps/v1", SCALED, "/apis/example.com/v1"):
        await talk.scaler.read(path)
    for resource in ("deployments", "replicasets"):
        for namespace in ("", "shop"):
            attributes = {"namespace": namespace, "verb": "patch", "group": "apps"}
            attributes |= {"resource": resource, "subresource": "scale"}
            review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
            await talk.scaler.post(REVIEWS, {**review, "spec": {"resourceAttributes": attributes}})


def workload(name: str, replicas: object = 0, **spec: Any) -> Object:
    """Return a Deployment."""
    labels = {"app": name}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "app"}]},
    }
    known = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": name}, "spec": {**known, **spec}}


async def _scale(talk: Talk) -> None:
    admin, scaler = talk.admin, talk.scaler
    path, scale = f"{APPS}/deployments", f"{APPS}/deployments/web/scale"
    for wrong in (
        workload("web", -1),
        workload("web", "1"),
        workload("web", selector={"matchLabels": {"app": "other"}}),
        workload("web", selector={}),
    ):
        await admin.post(path, wrong)
    await admin.post(path, workload("web"))
    await admin.post(path, workload("web"))
    await admin.post(f"{APPS}/statefulsets", workload("db", serviceName="db"))
    first = Scale.of(await scaler.read(scale))
    up, down = first.patch(1), first.patch(0)
    await scaler.send("PATCH", scale, up, MERGE_PATCH)
    await scaler.send("PATCH", scale, down, MERGE_PATCH)  # its version is old
    await scaler.merge(scale, {"metadata": {"uid": "other"}, "spec": {"replicas": 0}})
    await scaler.send("PATCH", scale, Scale(0, "", "").patch(2), MERGE_PATCH)
    for replicas in (-1, "1", True, 1.5):
        await scaler.merge(scale, {"spec": {"replicas": replicas}})
    await scaler.merge(scale, {"metadata": {"resourceVersion": 1}, "spec": {"replicas": 0}})
    for version in ("abc", "1000000000"):
        await scaler.merge(scale, {"metadata": {"resourceVersion": version}})
        await admin.merge(f"{path}/web", {"metadata": {"resourceVersion": version}})
    await admin.put(f"{path}/missing", workload("missing"))
    await admin.post(path, {**workload("web"), "kind": "Pod", "apiVersion": "v1"})
    await admin.post(path, {**workload("x"), "metadata": {"name": "x", "resourceVersion": "5"}})
    await scaler.send("PATCH", scale, up, "application/json")
    await scaler.merge(scale, [])
    missing = f"{APPS}/deployments/missing/scale"
    await scaler.read(missing)
    await scaler.send("PATCH", missing, up, MERGE_PATCH)
    await scaler.read(f"{APPS}/replicasets/web/scale")
    other = f"{APPS}/statefulsets/db/scale"
    known = Scale.of(await scaler.read(other))
    await scaler.send("PATCH", other, known.patch(1), MERGE_PATCH)
    await scaler.put(scale, {})
    found = await admin.read(scale)
    await admin.put(scale, {**found, "spec": {}})
    await admin.read(f"{SHOP}/services/web/scale")
    await admin.read(f"{APPS}/deployments/web/other")
    await admin.read(f"{path}/web")
    await admin.merge(f"{path}/web?fieldManager=argocd", {"spec": {"replicas": 3}})
    await admin.merge(f"{path}/web?fieldManager=other", {"metadata": {"labels": {"a": "b"}}})
    await scaler.send("PATCH", scale, b'{"spec":{"replicas":2}}', MERGE_PATCH)
    await admin.read(f"{path}/web")
    await admin.merge(f"{path}/web", {"spec": {"selector": {"matchLabels": {"app": "x"}}}})
    # A custom resource whose replicas are not set.
    scaled = f"{SCALED}/namespaces/shop/scaledobjects"
    made = {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": "s"}}
    await admin.post(scaled, {**made, "spec": {}})
    await admin.read(f"{scaled}/s/scale")
    await admin.merge(f"{scaled}/s/scale", {"spec": {"replicas": 1}})
    await admin.read(f"{scaled}/s/scale")


async def _lead(talk: Talk) -> None:
    scaler, path = talk.scaler, f"{LEASES}/activator-scale"
    mine, other = Election("scale-1"), Election("scale-2")
    await scaler.read(path)
    body = mine.body(SYSTEM, "activator-scale", NOW)
    found = await scaler.post(LEASES, body)
    await scaler.post(LEASES, body)
    mine.written(election.parse_lease(found), 0.0)
    other.observe(election.parse_lease(await scaler.read(path)), 0.0)
    renewed = await scaler.put(path, mine.body(SYSTEM, "activator-scale", NOW))
    mine.written(election.parse_lease(renewed), 1)
    found = await scaler.put(path, mine.body(SYSTEM, "activator-scale", NOW, releases=True))
    stale = other.body(SYSTEM, "activator-scale", NOW)
    await scaler.put(path, stale)
    await scaler.put(path, {**found, "metadata": {"name": "activator-scale"}})
    await scaler.put(path, {**found, "metadata": {**found["metadata"], "name": "other"}})
    await scaler.put(f"{LEASES}/other", stale)
    for name, value in {
        "leaseDurationSeconds": 0,
        "leaseTransitions": -1,
        "renewTime": "2026-03-01T12:00:00Z",
        "acquireTime": "2026-03-01T12:00:00.000Z",
    }.items():
        await scaler.put(path, {**found, "spec": {**found["spec"], name: value}})
    await talk.admin.delete(path)
    await scaler.put(path, stale)
    await talk.admin.delete(path)


async def _label(talk: Talk) -> None:
    spec: Object = {"serviceAccountName": "activator-scale", "automountServiceAccountToken": False}
    pod = {
        "metadata": {"name": "scale-1"},
        "spec": {**spec, **workload("c")["spec"]["template"]["spec"]},
    }
    await talk.admin.post(PODS, pod)
    for path, value in (
        (f"{PODS}/scale-1", "true"),
        (f"{PODS}/scale-1", None),
        (f"{PODS}/missing", "true"),
        (f"{SHOP}/pods/scale-1", "true"),
    ):
        labels = {"metadata": {"labels": {"activator.dev/leader": value}}}
        await talk.scaler.merge(path, labels)


def slice_(name: str, *addresses: str, kind: str = "IPv4", **fields: Any) -> Object:
    """Return an EndpointSlice as the scaler creates it."""
    metadata = {
        "name": name,
        "namespace": "shop",
        "labels": {"kubernetes.io/service-name": "web"},
        "annotations": {"activator.dev/a": "b"},
        "ownerReferences": [],
    }
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": metadata,
        "addressType": kind,
        "ports": [{"name": "http", "port": 8012, "protocol": "TCP"}],
        "endpoints": [{"addresses": [each], "conditions": {"ready": True}} for each in addresses],
        **fields,
    }


async def _take_over(talk: Talk) -> None:
    scaler = talk.scaler

    async def ask(request: ApiRequest) -> Any:
        return await scaler.send(*request)

    path = slices.collection("shop")
    found = await ask(slices.create(slice_("web-a", "10.0.0.1")))
    await ask(slices.create(slice_("web-a", "10.0.0.1")))
    before = stored(found)
    found = await ask(slices.change(slice_("web-a", "10.0.0.1", "10.0.0.2"), before))
    await ask(slices.change(slice_("web-a"), before))
    await ask(slices.change(slice_("web-a"), stored(found)))
    await ask(slices.change(slice_("missing"), before))
    await talk.admin.merge(f"{path}/web-a", {"addressType": "IPv6"})
    await ask(slices.delete("shop", "web-a", "other"))
    await ask(slices.delete("shop", "web-a", before.uid))
    await ask(slices.delete("shop", "web-a", before.uid))
    many = [f"10.1.{n // 250}.{n % 250 + 1}" for n in range(1001)]
    for made in (
        *(slice_("x", address) for address in ("127.0.0.1", "169.254.1.1", "0.0.0.0")),
        *(slice_("x", address) for address in ("224.0.0.1", "::2", "web", "10.00.0.1")),
        *(slice_("x", address, kind="IPv6") for address in ("10.0.0.1", "::1", "fe80::1")),
        slice_("x", *many),
        slice_("x", kind="IPv5"),
        slice_("x", endpoints=[{"addresses": []}]),
        slice_("X_1"),
        {**slice_("x"), "metadata": {"name": "x", "namespace": "other"}},
        slice_("x", ports=[{"name": "no-such-port", "port": 0}, {"name": "b", "port": 70_000}]),
        slice_("odd", "10.0.0.1", "10.0.0.1", ports=[]),
    ):
        await ask(
            slices.create(made)
            if "labels" in made["metadata"]
            else ApiRequest("POST", path, json.dumps(made).encode())
        )
    await talk.admin.post(f"{SHOP}/endpoints", {"metadata": {"name": "web"}})
    for _ in range(2):
        await ask(slices.delete_endpoints("shop", "web"))
    await talk.activator.send(*slices.delete_endpoints("shop", "web"))


async def _report(talk: Talk) -> None:
    book, scaler = EventBook("scale-1"), talk.scaler
    subject, notices = Subject("shop", "web", "uid"), [Finding(ScaleReason.SCALE_FORBIDDEN, "n")]
    (write,) = book.report(subject, notices, 0.0, NOW)
    await scaler.send(*write.request)
    (again,) = book.repeats(1e6, NOW)
    await scaler.send(*again.request)
    await scaler.merge(again.request.path, {"reason": "other"})
    await scaler.send("PATCH", f"{EVENTS}/missing", again.request.body, MERGE_PATCH)
    made = json.loads(write.request.body)
    regarded = {**made["regarding"], "namespace": "other"}
    for name, value in (
        ("reportingController", ""),
        ("reportingInstance", ""),
        ("reportingInstance", "a" * 129),
        ("action", ""),
        ("reason", ""),
        ("type", "Error"),
        ("eventTime", None),
        ("eventTime", "2026-03-01T12:00:00Z"),
        ("note", "é" * 513),
        ("regarding", regarded),
    ):
        await scaler.post(EVENTS, {**made, "metadata": {"name": "e"}, name: value})


def service(name: str, **metadata: Any) -> Object:
    """Return a Service without a cluster address, which is random."""
    spec = {"clusterIP": "None", "selector": {"app": name}, "ports": [{"name": "http", "port": 80}]}
    return {"metadata": {"name": name, **metadata}, "spec": spec}


async def listed(speaker: Speaker, version: str, **selector: str) -> None:
    """List Services as discovery does, two on a page."""
    resource = WatchedResource("Service", SERVICES, selector)
    with patch.object(wire, "PAGE_SIZE", 2):
        try:
            async for _ in pages(cast(ApiServer, speaker), resource, Timings(), version):
                pass
        except ServerResponseError:
            pass


async def _list(talk: Talk) -> None:
    admin, activator, path = talk.admin, talk.activator, f"{SHOP}/services"
    for wrong in ([], [{"port": 0}], [{"port": 80}, {"port": 81}]):
        await admin.post(path, {**service("web"), "spec": {"ports": wrong}})
    for made in (service("Web_1"), service(""), service("web", annotations={"a": True})):
        await admin.post(path, made)
    await admin.send("POST", path, b'"text"')
    await admin.send("POST", path, b"{")
    for name in ("a", "b", "c"):
        await admin.post(path, service(name, labels={"app": name}))
    before = (await admin.read(path))["metadata"]["resourceVersion"]
    await admin.delete(f"{path}/a")
    await admin.post(path, service("d", labels={"app": "c"}))
    for version in ("", "0", before):
        await listed(activator, version)
    for version in ("", "0", before):
        await listed(activator, version, labelSelector="app=c")
    for query in (
        {"limit": "2", "resourceVersion": before},
        {"limit": "2", "resourceVersion": before, "resourceVersionMatch": "NotOlderThan"},
    ):
        await activator.read(SERVICES, {**query, "labelSelector": "app"})
    await listed(activator, "0", labelSelector="app in (b, c),!x,app!=b")
    await listed(activator, "0", fieldSelector="metadata.name=c")
    for query in (
        {"limit": "5", "resourceVersion": before},
        {"limit": "5", "resourceVersion": before, "resourceVersionMatch": "Exact"},
        {"resourceVersion": before, "resourceVersionMatch": "Exact"},
        {"resourceVersion": before},
        {"limit": "5"},
        {"resourceVersionMatch": "NotOlderThan"},
        {"resourceVersion": before, "resourceVersionMatch": "Wrong"},
        {"resourceVersion": "0", "resourceVersionMatch": "Exact"},
        {"resourceVersion": "1000000000", "resourceVersionMatch": "NotOlderThan"},
        {"resourceVersion": "word"},
        {"limit": "5", "continue": "x"},
        {"fieldSelector": "spec.other=1"},
    ):
        await activator.read(SERVICES, query)
    # Each further kind that a program lists.
    for path, selector in (
        *(("/apis/apps/v1/" + plural, {}) for plural in ("deployments", "statefulsets")),
        (SLICES, {}),
        (SLICES, _OF_KNATIVE),
        ("/api/v1/endpoints", _OF_KNATIVE),
        ("/apis/autoscaling/v2/horizontalpodautoscalers", {}),
        (f"{SCALED}/scaledobjects", {}),
        (f"/api/v1/namespaces/{SYSTEM}/configmaps", {}),
        (f"/api/v1/namespaces/{SYSTEM}/secrets", {"fieldSelector": "metadata.name=s"}),
        ("/apis/serving.knative.dev/v1/revisions", {}),
        ("/apis/http.keda.sh/v1alpha1/httpscaledobjects", {}),
        ("/apis/http.keda.sh/v1beta1/interceptorroutes", {}),
        ("/api/v1/configmaps", {"labelSelector": "http.keda.sh/response-body=true"}),
    ):
        await admin.read(path, {"limit": "500", "resourceVersion": "0", **selector})
        found = await admin.read(path, {"limit": "500", **selector})
        known = found["metadata"]["resourceVersion"] if isinstance(found, dict) else "1"
        await admin.watch(path, version=known, **selector)
    await activator.read("/api/v1/nodes", {"limit": "500", "resourceVersion": "0"})
    await activator.read(f"{SHOP}/secrets", {"fieldSelector": "metadata.name=s"})
    await activator.read(f"{SHOP}/services/b")
    await activator.watch("/api/v1/nodes", version="0")
    await talk.stranger.read(SERVICES)


async def _watch(talk: Talk) -> None:
    admin, activator, path = talk.admin, talk.activator, f"{SHOP}/services"
    version = (await admin.read(path))["metadata"]["resourceVersion"]
    await admin.merge(f"{path}/b", {"metadata": {"labels": {"app": "c"}}})
    await admin.post(path, service("e"))
    await admin.merge(f"{path}/b", {"metadata": {"labels": {"app": None}}})
    await admin.delete(f"{path}/c")
    await admin.delete(f"{path}/c")
    watch = partial(activator.watch, SERVICES)
    await watch(version=version)
    await watch(version=version, labelSelector="app=c")
    await watch(version=version, fieldSelector="metadata.name=e")
    await activator.watch(f"/api/v1/namespaces/{SYSTEM}/services", version=version)
    for start in ("", "0", "word", "1000000000"):
        await watch(version=start)
    initial = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    await watch(version="", **initial)
    await watch(version=version, fieldSelector="spec.other=1")


async def _expire(talk: Talk) -> None:
    query = {"limit": "2"}
    first = await talk.admin.read(SERVICES, query)
    await talk.admin.post(f"{SHOP}/services", service("f"))
    await talk.compact()
    version = first["metadata"]["resourceVersion"]
    await talk.activator.read(SERVICES, {**query, "continue": first["metadata"]["continue"]})
    await talk.activator.read(SERVICES, {**query, "resourceVersion": version})
    await talk.activator.read(SERVICES, {"resourceVersion": version})
    await talk.activator.watch(SERVICES, version=version)
