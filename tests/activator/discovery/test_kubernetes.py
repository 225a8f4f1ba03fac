"""The whole watch of a cluster: which resources the activator follows, and when."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from activator.discovery.backoff import Timings
from activator.discovery.dialect import Scope
from activator.discovery.endpoints import EndpointsSource
from activator.discovery.inventory import DIALECTS, Inventory
from activator.discovery.kubernetes import KubernetesWatch
from activator.keda.revisions import InterceptorDefaults
from activator.records.source_status import WatchCounters
from tests.activator.discovery.fake_api_server import (
    Answer,
    Call,
    FakeApiServer,
    event,
    expired,
)
from tests.activator.discovery.recording import (
    A,
    RecordingSink,
    config_map,
    private,
    revision,
    secret,
    service,
    slice_of,
    truncated,
)
from tests.activator.keda import objects as keda
from tests.activator.plain import objects as plain
from tests.process import PATIENCE
from throttler.model import ProbeKind, ReadinessRule, RevisionID, RevisionKind

QUICK = Timings(
    backoff_first=0.001,
    backoff_limit=0.01,
    watch_brief=0.0,
    inactivity=30.0,
)


@asynccontextmanager
async def running(watch: KubernetesWatch) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.get_running_loop().create_task(watch.run())
    try:
        async with asyncio.timeout(PATIENCE):
            yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def ages_of(watch: KubernetesWatch, later: float = 0.0) -> dict[str, float]:
    kinds = watch.status(asyncio.get_running_loop().time() + later).kinds
    return {kind: each.age for kind, each in kinds.items() if each.age is not None}


def counters_of(watch: KubernetesWatch) -> dict[str, WatchCounters]:
    kinds = watch.status(0.0).kinds
    return {kind: each.watch for kind, each in kinds.items() if each.watch is not None}


def errors_of(watch: KubernetesWatch) -> dict[str, str]:
    kinds = watch.status(0.0).kinds
    return {kind: each.error for kind, each in kinds.items() if each.error}


async def test_all_resources_are_followed(
    server: FakeApiServer, inventory: Inventory, sink: RecordingSink, tmp_path: Path
) -> None:
    for obj in (revision(), private("10.0.0.1"), config_map("config-network", a="b")):
        server.put(obj)
    watch = KubernetesWatch(inventory, "knative-serving", server.kubeconfig(tmp_path), QUICK)
    async with running(watch):
        await watch.wait_synced()
        ages = ages_of(watch, later=5.0)
        assert set(ages) == {"Revision", "Service", "Endpoints", "EndpointSlice", "ConfigMap"}
        assert all(4 < age < 15 for age in ages.values())
        assert counters_of(watch)["Revision"].lists == 1
        assert errors_of(watch) == {}
    assert set(sink.revisions) == {A}
    assert sink.ready() == ["10.0.0.1:8012"]
    assert sink.config_maps == {"config-network": {"a": "b"}}


async def test_one_resource_that_is_refused_does_not_stop_the_others(
    server: FakeApiServer, inventory: Inventory, sink: RecordingSink, tmp_path: Path
) -> None:
    server.put(private("10.0.0.1"))
    server.always["Revision", "list"] = Answer(404, b"404 page not found")
    watch = KubernetesWatch(inventory, "ns", server.kubeconfig(tmp_path), QUICK)
    async with running(watch):
        await server.watched("Endpoints")
        await server.asked("Revision", "list", 3)
        assert not watch.status(0.0).synced
        assert "is Knative Serving installed?" in errors_of(watch)["Revision"]
        assert sink.ready() == ["10.0.0.1:8012"]
        del server.always["Revision", "list"]
        await watch.wait_synced()
        assert errors_of(watch) == {}


async def test_refused_credentials_are_read_again(
    server: FakeApiServer, inventory: Inventory, tmp_path: Path
) -> None:
    watch = KubernetesWatch(inventory, "ns", server.kubeconfig(tmp_path, token="old"), QUICK)
    async with running(watch):
        await server.watched("Endpoints")
        server.kubeconfig(tmp_path, token="new")
        server.script["Endpoints", "list"].append(Answer(401))
        server.send("Endpoints", event("ERROR", expired()))
        await server.asked("Endpoints", "watch", 2)
    tokens = [request.headers["authorization"] for request in server.of("Endpoints", "list")]
    assert tokens == ["Bearer old", "Bearer old", "Bearer new"]


async def test_config_maps_are_waited_for_alone(
    server: FakeApiServer, inventory: Inventory, sink: RecordingSink, tmp_path: Path
) -> None:
    server.put(config_map("config-network", a="b"))
    server.always["Revision", "list"] = Answer(503)
    watch = KubernetesWatch(inventory, "knative-serving", server.kubeconfig(tmp_path), QUICK)
    async with running(watch):
        await watch.wait_synced("ConfigMap")
        assert sink.config_maps == {"config-network": {"a": "b"}}
        assert not watch.status(0.0).synced


async def test_no_secret_is_asked_for_until_one_is_wanted(
    server: FakeApiServer, inventory: Inventory, sink: RecordingSink, tmp_path: Path
) -> None:
    server.put(secret("routing-serving-certs", "knative-serving", **{"tls.crt": b"C"}))
    server.put(secret("somebody-elses", key=b"K"))
    watch = KubernetesWatch(inventory, "knative-serving", server.kubeconfig(tmp_path), QUICK)
    async with running(watch):
        await watch.wait_synced()
        assert {call.resource for call in server.calls}.isdisjoint({"secrets"})
        await watch.follow_secret("routing-serving-certs")
        assert sink.secrets == {"routing-serving-certs": {"tls.crt": b"C"}}
        assert watch.status(0.0).synced
        await server.watched("Secret")
        server.put(secret("somebody-elses", key=b"L"))
        server.put(secret("routing-serving-certs", "knative-serving", **{"tls.crt": b"D"}))
        await sink.until(lambda: sink.secrets["routing-serving-certs"] == {"tls.crt": b"D"})
        server.delete("Secret", "routing-serving-certs")
        await sink.until(lambda: sink.secrets["routing-serving-certs"] == {})
    assert set(sink.secrets) == {"routing-serving-certs"}


async def test_a_secret_can_be_wanted_before_the_watch_runs(
    server: FakeApiServer, inventory: Inventory, sink: RecordingSink, tmp_path: Path
) -> None:
    server.put(secret("s", a=b"1"))
    watch = KubernetesWatch(inventory, "knative-serving", server.kubeconfig(tmp_path), QUICK)
    wanted = asyncio.get_running_loop().create_task(watch.follow_secret("s"))
    await asyncio.sleep(0)
    async with running(watch):
        await wanted
    assert sink.secrets == {"s": {"a": b"1"}}
    assert server.count("Secret", "list") == 1


async def test_each_request_is_one_that_rbac_can_allow(
    server: FakeApiServer, inventory: Inventory, tmp_path: Path
) -> None:
    watch = KubernetesWatch(inventory, "system", server.kubeconfig(tmp_path), QUICK)
    async with running(watch):
        await watch.follow_secret("routing-serving-certs")
        for kind in counters_of(watch):
            await server.watched(kind)
    places = [
        ("serving.knative.dev", "revisions", ""),
        ("", "services", ""),
        ("", "endpoints", ""),
        ("discovery.k8s.io", "endpointslices", ""),
        ("", "configmaps", "system"),
    ]
    assert set(server.calls) == {
        *(Call(*place, verb) for place in places for verb in ("list", "watch")),
        Call("", "secrets", "system", "list", "routing-serving-certs"),
        Call("", "secrets", "system", "watch", "routing-serving-certs"),
    }


FORBIDDEN = Answer(403, b'{"kind": "Status", "message": "endpointslices is forbidden"}')


@pytest.mark.parametrize("source", list(EndpointsSource))
async def test_what_is_not_wanted_is_not_asked_for(
    source: EndpointsSource, server: FakeApiServer, sink: RecordingSink, tmp_path: Path
) -> None:
    server.put(private("10.0.0.1"))
    server.put(slice_of("10.0.0.2"))
    inventory = Inventory(sink, sink, scope=Scope(endpoints=source))
    watch = KubernetesWatch(inventory, "ns", server.kubeconfig(tmp_path), QUICK)
    async with running(watch):
        await watch.wait_synced()
    asked = {call.resource for call in server.calls}
    assert ("endpoints" in asked) is (source is not EndpointsSource.SLICES)
    assert ("endpointslices" in asked) is (source is not EndpointsSource.ENDPOINTS)
    assert sink.ready() == [f"10.0.0.{2 if source is EndpointsSource.SLICES else 1}:8012"]


async def test_endpoints_and_slices_of_others_are_not_even_sent(
    server: FakeApiServer, inventory: Inventory, tmp_path: Path
) -> None:
    for obj in (private("10.0.0.1", of="a"), slice_of("10.0.0.2", of="b")):
        del obj["metadata"]["labels"]["networking.internal.knative.dev/serviceType"]
        server.put(obj)
    server.put(service("kubernetes"))
    watch = KubernetesWatch(inventory, "ns", server.kubeconfig(tmp_path), QUICK)
    async with running(watch):
        await watch.wait_synced()
        await server.watched("Endpoints")
    counts = inventory.counts
    assert (counts["Endpoints"], counts["EndpointSlice"], counts["Service"]) == (0, 0, 1)
    for verb in ("list", "watch"):
        request = server.of("Endpoints", verb)[0]
        assert request.params["labelSelector"] == "networking.internal.knative.dev/serviceType"


async def test_slices_that_may_not_be_read_do_not_hold_up_the_start(
    server: FakeApiServer,
    inventory: Inventory,
    sink: RecordingSink,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    server.put(private("10.0.0.1"))
    server.always["EndpointSlice", "list"] = FORBIDDEN
    timings = replace(QUICK, missing=0.01)
    watch = KubernetesWatch(inventory, "ns", server.kubeconfig(tmp_path), timings)
    async with running(watch):
        await watch.wait_synced()
        assert watch.status(0.0).synced
        assert sink.ready() == ["10.0.0.1:8012"]
        await server.asked("EndpointSlice", "list", 4)
        told = [record for record in caplog.records if "endpointslices" in record.getMessage()]
        assert [record.levelname for record in told] == ["WARNING"]
        # An alert on stale objects must not fire for a missing permission.
        assert "EndpointSlice" not in ages_of(watch)
        assert "allow list and watch of endpointslices" in told[0].getMessage()
        # As soon as the role allows it, they are read.
        server.put(truncated(private("10.0.0.1")))
        server.put(slice_of("10.0.0.1", "10.0.0.2"))
        del server.always["EndpointSlice", "list"]
        await sink.until(lambda: sink.ready() == ["10.0.0.1:8012", "10.0.0.2:8012"])
        await server.watched("EndpointSlice")  # the list is read to its end
        assert "EndpointSlice" not in errors_of(watch)


async def test_slices_that_must_be_read_hold_up_the_start_and_say_why(
    server: FakeApiServer, sink: RecordingSink, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.always["EndpointSlice", "list"] = FORBIDDEN
    inventory = Inventory(sink, sink, scope=Scope(endpoints=EndpointsSource.SLICES))
    watch = KubernetesWatch(inventory, "ns", server.kubeconfig(tmp_path), QUICK)
    async with running(watch):
        await watch.wait_synced("ConfigMap", "Revision", "Service")
        await server.asked("EndpointSlice", "list", 3)
        assert not watch.status(0.0).synced
        warnings = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
        assert (
            "endpointslices is forbidden (does a role of its service account allow list"
            in warnings[0]
        )
        del server.always["EndpointSlice", "list"]
        await watch.wait_synced()


async def test_a_refusal_without_json_is_logged_without_its_line_end(
    server: FakeApiServer, sink: RecordingSink, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As the API server refuses the kinds of KEDA where that is not installed."""
    server.always["EndpointSlice", "list"] = Answer(403, b"404 page not found\n")
    inventory = Inventory(sink, sink, scope=Scope(endpoints=EndpointsSource.SLICES))
    watch = KubernetesWatch(inventory, "ns", server.kubeconfig(tmp_path), QUICK)
    async with running(watch):
        await server.asked("EndpointSlice", "list", 3)
        [text] = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"][:1]
        assert "page not found" in text
        assert "\\n" not in text


# -- dialects -----------------------------------------------------------------------------------

HELLO = RevisionID("shop", "hello", RevisionKind.SERVICE)


def of_dialects(sink: RecordingSink, *names: str) -> Inventory:
    scope = Scope(services="services" in names)
    return Inventory(sink, sink, scope=scope, dialects=[DIALECTS[name] for name in names])


def plain_objects() -> list[dict[str, object]]:
    probe = {"httpGet": {"port": 8080, "path": "/up"}}
    workload = plain.deployment(plain.container(readinessProbe=probe))
    return [plain.service(), plain.slice_of(plain.endpoint()), workload]


async def test_services_alone_need_nothing_of_knative(
    server: FakeApiServer, sink: RecordingSink, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A role may allow no ConfigMaps: those configure the activator, and have defaults."""
    for obj in plain_objects():
        server.put(obj)
    for kind in ("ConfigMap", "StatefulSet"):
        server.always[kind, "list"] = Answer(403)
    inventory = of_dialects(sink, "services")
    watch = KubernetesWatch(inventory, "activator", server.kubeconfig(tmp_path), QUICK)
    async with running(watch):
        await watch.wait_synced()
        await server.watched("Deployment")
    assert {(call.group, call.resource) for call in server.calls} == {
        ("", "services"),
        ("discovery.k8s.io", "endpointslices"),
        ("apps", "deployments"),
        ("apps", "statefulsets"),
        ("", "configmaps"),
    }
    assert sink.revisions[HELLO].probe.kind is ProbeKind.HTTP
    assert sink.ready(HELLO) == ["10.0.0.1:8080"]
    assert "serving.knative.dev" not in caplog.text


async def test_both_dialects_read_one_list_of_each_kind(
    server: FakeApiServer, sink: RecordingSink, tmp_path: Path
) -> None:
    for obj in (revision(), service(), slice_of("10.0.0.9"), *plain_objects()):
        server.put(obj)
    inventory = of_dialects(sink, "knative", "services")
    watch = KubernetesWatch(inventory, "knative-serving", server.kubeconfig(tmp_path), QUICK)
    async with running(watch):
        await watch.wait_synced()
        kinds = ["Revision", "Service", "Endpoints", "EndpointSlice", "Deployment", "StatefulSet"]
        assert list(counters_of(watch)) == [*kinds, "ConfigMap"]
        assert all(counters.lists == 1 for counters in counters_of(watch).values())
        assert set(sink.revisions) == {A, HELLO}
        assert (sink.ready(A), sink.ready(HELLO)) == (["10.0.0.9:8012"], ["10.0.0.1:8080"])
        assert list(inventory.warnings) == []
        await server.watched("EndpointSlice")
        await server.watched("Service")
        server.put(plain.slice_of(plain.endpoint("10.0.0.2")))
        await sink.until(lambda: sink.ready(HELLO) == ["10.0.0.2:8080"])
        server.delete("Service", "hello")
        await sink.until(lambda: set(sink.revisions) == {A})


async def test_without_knative_the_services_work_and_one_line_says_so(
    server: FakeApiServer, sink: RecordingSink, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for obj in plain_objects():
        server.put(obj)
    server.always["Revision", "list"] = Answer(404, b"404 page not found")
    inventory = of_dialects(sink, "knative", "services")
    quick = replace(QUICK, missing=0.001)
    watch = KubernetesWatch(inventory, "knative-serving", server.kubeconfig(tmp_path), quick)
    async with running(watch):
        await watch.wait_synced()
        assert sink.ready(HELLO) == ["10.0.0.1:8080"]
        await server.asked("Revision", "list", 5)
        lines = [text for text in caplog.messages if "serving.knative.dev" in text]
        assert len(lines) == 1
        assert "without Knative Serving only annotated Services count" in lines[0]
        assert "Revision" not in ages_of(watch)
        server.put(revision())
        del server.always["Revision", "list"]  # Knative is installed later
        await sink.until(lambda: A in sink.revisions)


async def test_revisions_that_cannot_be_listed_yet_are_waited_for_beside_services(
    server: FakeApiServer, sink: RecordingSink, tmp_path: Path
) -> None:
    server.always["Revision", "list"] = Answer(503)
    inventory = of_dialects(sink, "knative", "services")
    watch = KubernetesWatch(inventory, "knative-serving", server.kubeconfig(tmp_path), QUICK)
    async with running(watch):
        await watch.wait_synced("Deployment")
        await server.asked("Revision", "list", 3)
        assert not watch.status(0.0).synced
        del server.always["Revision", "list"]
        await watch.wait_synced()


WEB = RevisionID("shop", "web", RevisionKind.HTTP_ROUTE)
#: What the roles of the add-on allow, as ``(group, resource)``; 0.12 allows only the first three.
#: Workloads are read only where another role allows it.
OF_ADD_ON = [
    ("", "services"),
    ("discovery.k8s.io", "endpointslices"),
    ("http.keda.sh", "httpscaledobjects"),
    ("http.keda.sh", "interceptorroutes"),
    ("", "configmaps"),
]
WORKLOADS = [("apps", "deployments"), ("apps", "statefulsets")]


def keda_objects() -> list[dict[str, object]]:
    response = {"bodyFromConfigMap": {"name": "files"}}
    obj = keda.route(coldStart={"placeholder": {"response": response}})
    return [obj, keda.target(), plain.slice_of(plain.endpoint()), keda.body(a="1")]


def files_of(sink: RecordingSink) -> object:
    requests = sink.revisions[WEB].policies.requests
    assert requests is not None
    assert requests.interceptor is not None
    assert requests.interceptor.placeholder is not None
    return requests.interceptor.placeholder.files


@pytest.mark.parametrize("namespace", ["", "shop"])
async def test_keda_alone_reads_what_the_role_of_its_add_on_allows(
    server: FakeApiServer, sink: RecordingSink, tmp_path: Path, namespace: str
) -> None:
    for obj in (*keda_objects(), config_map("config-network", "system", a="b")):
        server.put(obj)
    scope = Scope("system", interceptor=InterceptorDefaults(watch_namespace=namespace))
    inventory = Inventory(sink, sink, scope=scope, dialects=[DIALECTS["keda"]])
    watch = KubernetesWatch(inventory, "", server.kubeconfig(tmp_path), QUICK)
    async with running(watch):
        await watch.wait_synced()
        for kind in counters_of(watch):
            await server.watched(kind)
        assert watch.status(0.0).name == (
            f"namespace {namespace}" if namespace else "all namespaces"
        )
    assert set(server.calls) == {
        Call(*place, namespace, verb)
        for place in (*OF_ADD_ON, *WORKLOADS)
        for verb in ("list", "watch")
    }
    assert server.of("ConfigMap", "watch")[0].params["labelSelector"] == (
        "http.keda.sh/response-body=true"
    )
    assert (sink.ready(WEB), files_of(sink)) == (["10.0.0.1:8080"], {"a": b"1"})
    assert sink.config_maps == {}


@pytest.mark.parametrize("answer", [Answer(403), Answer(404)])
async def test_the_role_and_the_kinds_of_an_old_add_on_are_enough(
    server: FakeApiServer,
    sink: RecordingSink,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    answer: Answer,
) -> None:
    """A kind that is installed later, or a role that allows more, counts then."""
    caplog.set_level(logging.INFO)
    for obj in (keda.scaled("old", "b.com"), *keda_objects()):
        server.put(obj)
    missing = ("ConfigMap", "InterceptorRoute")
    for kind in missing:
        server.always[kind, "list"] = answer
    inventory = of_dialects(sink, "keda")
    quick = replace(QUICK, missing=0.001)
    watch = KubernetesWatch(inventory, "", server.kubeconfig(tmp_path), quick)
    async with running(watch):
        await watch.wait_synced()
        assert [id_.name for id_ in sink.revisions] == ["old"]
        for kind in missing:
            await server.asked(kind, "list", 5)
        assert sum("not read" in text for text in caplog.messages) == len(missing)
        for kind in missing:
            del server.always[kind, "list"]
        await sink.until(lambda: WEB in sink.revisions and files_of(sink) == {"a": b"1"})


async def test_without_a_role_for_workloads_one_line_says_what_that_costs(
    server: FakeApiServer, sink: RecordingSink, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A role that comes later counts then."""
    caplog.set_level(logging.INFO)
    for obj in keda_objects():
        server.put(obj)
    server.put(keda.target(selector={"app": "hello"}))
    server.put(plain.deployment())
    for kind in ("Deployment", "StatefulSet"):
        server.always[kind, "list"] = Answer(403)
    quick = replace(QUICK, missing=0.001)
    watch = KubernetesWatch(of_dialects(sink, "keda"), "", server.kubeconfig(tmp_path), quick)
    async with running(watch):
        await watch.wait_synced()
        await server.asked("Deployment", "list", 5)
        assert [(each.levelname, each.message) for each in caplog.records] == [
            (
                "INFO",
                "deployments and statefulsets of API group apps cannot be read, so a pod gets "
                "requests only once Kubernetes lists it as ready; to ask its readiness probe "
                "before that, allow list and watch of both kinds, as "
                "manifests/keda-http/workloads.yaml does",
            )
        ]
        assert sink.revisions[WEB].readiness is ReadinessRule.KUBERNETES_POLICY
        del server.always["Deployment", "list"]
        await sink.until(lambda: sink.revisions[WEB].readiness is ReadinessRule.PROBE)


async def test_beside_other_dialects_each_configmap_has_its_own_readers(
    server: FakeApiServer, sink: RecordingSink, tmp_path: Path
) -> None:
    """One in the system namespace may be both; a list of one sort removes none of the other."""
    both = keda.body("config-logging", a="2")
    both["metadata"]["namespace"] = "system"
    for obj in (*keda_objects(), *plain_objects()[:1], both):
        server.put(obj)
    scope = Scope("system", services=True)
    dialects = [DIALECTS[name] for name in ("services", "keda")]
    inventory = Inventory(sink, sink, scope=scope, dialects=dialects)
    watch = KubernetesWatch(inventory, "system", server.kubeconfig(tmp_path), QUICK)
    async with running(watch):
        await watch.wait_synced()
        kinds = watch.status(0.0).kinds
        assert (kinds["ConfigMap"].in_force, kinds["ConfigMap of keda"].in_force) == (1, 2)
        assert (sink.config_maps, files_of(sink)) == ({"config-logging": {"a": "2"}}, {"a": b"1"})
        await server.watched("ConfigMap")
        await watch.self_check.check()
        assert watch.self_check.counters.checks["drifted"] == 0
        server.put(keda.body(a="3"))
        await sink.until(lambda: files_of(sink) == {"a": b"3"})
        assert sink.config_maps == {"config-logging": {"a": "2"}}
    assert set(sink.revisions) == {HELLO, WEB}
