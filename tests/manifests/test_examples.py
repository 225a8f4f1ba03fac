"""The examples are valid, and name objects, ports and annotations that exist."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped] # it has no types
import pytest
import yaml

from activator.objects.fields import ObjectKey, Problems, root
from activator.objects.policies import unknown
from activator.plain import annotations as plain
from activator.plain.annotations import Annotations, Owner, Route, is_enabled
from activator.scale.external_metrics import GROUP, GROUP_VERSION, METRIC, SERVICE
from activator.scale.keda import SERVICE_KEY
from activator.scale.owners import HPA, WorkloadOwners
from activator.scale.settings import load
from activator.scale.workloads.replicas import KNOWN, ScaleTarget
from tests.guards import expect_none
from tests.manifests.kustomize import MANIFESTS, Object, build, find
from tests.manifests.test_manifests import OLDEST_KUBERNETES
from tests.programs import need
from tests.rows import in_one_test

EXAMPLES = MANIFESTS / "examples"
ACTIVATOR = ("activator-system", "activator-service")
SCALER = ("activator-system", "activator-scale")

#: The fields of kinds that Kubernetes' own schema does not have, from the references of Gateway
#: API 1.3, Traefik 3 and KEDA 2.18. A list holds the shape of its elements; None is any scalar.
SHAPES: dict[tuple[str, str], Any] = {
    ("gateway.networking.k8s.io/v1", "HTTPRoute"): {
        "parentRefs": [{"name": None, "namespace": None}],
        "hostnames": [None],
        "rules": [
            {
                "filters": [
                    {
                        "type": None,
                        "requestHeaderModifier": {"set": [{"name": None, "value": None}]},
                    }
                ],
                "timeouts": {"request": None},
                "backendRefs": [{"name": None, "namespace": None, "port": None}],
            }
        ],
    },
    ("gateway.networking.k8s.io/v1beta1", "ReferenceGrant"): {
        "from": [{"group": None, "kind": None, "namespace": None}],
        "to": [{"group": None, "kind": None, "name": None}],
    },
    ("traefik.io/v1alpha1", "IngressRoute"): {
        "entryPoints": [None],
        "routes": [
            {
                "kind": None,
                "match": None,
                "middlewares": [{"name": None}],
                "services": [{"name": None, "namespace": None, "port": None}],
            }
        ],
    },
    ("traefik.io/v1alpha1", "Middleware"): {
        "headers": {
            "customRequestHeaders": {
                "Activator-Service": None,
                "X-Original-Method": None,
                "X-Original-URL": None,
            }
        },
        "forwardAuth": {"address": None},
    },
    ("keda.sh/v1alpha1", "ScaledObject"): {
        "scaleTargetRef": {"name": None},
        "minReplicaCount": None,
        "maxReplicaCount": None,
        "pollingInterval": None,
        "cooldownPeriod": None,
        "triggers": [{"type": None, "metadata": {"scalerAddress": None, "service": None}}],
    },
}


def objects(name: str) -> list[Object]:
    return [*yaml.load_all((EXAMPLES / name).read_text(), yaml.CSafeLoader)]


def every_object() -> Iterator[tuple[str, Object]]:
    for path in sorted(EXAMPLES.glob("*.yaml")):
        yield from ((path.name, obj) for obj in objects(path.name))


def asked(service: Object) -> Annotations:
    problems = Problems()
    return problems.settle(plain.read(root(service, "Service")["metadata"], problems))


@pytest.fixture(scope="module")
def installed() -> dict[tuple[str, str], Object]:
    """Return the Services of the overlay by namespace and name."""
    return {
        (obj["metadata"]["namespace"], obj["metadata"]["name"]): obj["spec"]
        for obj in build(MANIFESTS / "overlays" / "services")
        if obj["kind"] == "Service"
    }


# -- schemas ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [OLDEST_KUBERNETES, kubernetes_validate.latest_version()])
def test_objects_of_kubernetes_are_valid(version: str) -> None:
    for _, obj in every_object():
        if (obj["apiVersion"], obj["kind"]) not in SHAPES:
            kubernetes_validate.validate(obj, version, strict=True)


def test_objects_of_other_projects_have_known_fields() -> None:
    expect_none(
        f"{name}: {obj['kind']}: {finding}"
        for name, obj in every_object()
        if (shape := SHAPES.get((obj["apiVersion"], obj["kind"])))
        for finding in _unlike(shape, obj["spec"], "spec")
    )


def _unlike(shape: Any, value: Any, where: str) -> Iterator[str]:
    """Yield the fields of a value that a shape does not have."""
    match shape, value:
        case dict(), dict():
            for key, inner in value.items():
                if key in shape:
                    yield from _unlike(shape[key], inner, f"{where}.{key}")
                else:
                    yield f"{where}.{key} is no field"
        case list(), list():
            for inner in value:
                yield from _unlike(shape[0], inner, f"{where}[]")
        case None, str() | int():
            pass
        case _:
            yield f"{where} has the wrong type"


def test_a_wrong_field_is_found() -> None:
    shape = SHAPES["keda.sh/v1alpha1", "ScaledObject"]
    assert [*_unlike(shape, {"triggers": [{"typ": "external-push"}]}, "spec")] == [
        "spec.triggers[].typ is no field"
    ]


# -- what they name exists -------------------------------------------------------------------------


def test_annotations_are_known_and_accepted() -> None:
    services = [obj for _, obj in every_object() if obj["kind"] == "Service"]
    annotated = [obj for obj in services if is_enabled(root(obj, "Service")["metadata"])]
    assert annotated
    for obj in annotated:
        assert unknown(root(obj, "Service")["metadata"]["annotations"], plain.KNOWN) == {}
        asked(obj)


def test_the_sleeping_deployment_is_what_its_service_selects() -> None:
    deployment, service = objects("sleeping-deployment.yaml")
    assert "replicas" not in deployment["spec"]  # applying it again must not start or end pods
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    assert asked(service).owner is Owner.SELF
    assert asked(service).hosts == ("hello.example.com",)
    (takeover,) = objects("takeover.yaml")
    assert takeover["spec"] == service["spec"]
    assert asked(takeover).route is Route.TAKEOVER
    deployment, service = objects("vllm.yaml")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    probe, waits = container["startupProbe"], service["metadata"]["annotations"]
    loads = probe["failureThreshold"] * probe["periodSeconds"]
    assert int(waits["activator.dev/wait-seconds"]) > loads
    pods, front = objects("front.yaml")  # without the pods-service, the scaler warns
    assert (asked(front).route, asked(front).pods_service) == (
        Route.FRONT,
        pods["metadata"]["name"],
    )
    assert "selector" not in front["spec"]
    assert pods["spec"]["selector"] == takeover["spec"]["selector"]
    assert pods["spec"]["ports"] == front["spec"]["ports"] == takeover["spec"]["ports"]


def test_backends_are_the_activators_service_and_its_port(installed: dict[Any, Any]) -> None:
    ports = {port["port"]: port["name"] for port in installed[ACTIVATOR]["ports"]}
    route, _ = objects("gateway-api.yaml")
    (backend,) = route["spec"]["rules"][0]["backendRefs"]
    assert (backend["namespace"], backend["name"]) == ACTIVATOR
    assert ports[backend["port"]] == "http"
    traefik, _ = objects("traefik.yaml")
    (backend,) = traefik["spec"]["routes"][0]["services"]
    assert (backend["namespace"], backend["name"]) == ACTIVATOR
    assert ports[backend["port"]] == "http"
    external, ingress, _ = objects("ingress-external-name.yaml")
    namespace, name = ACTIVATOR
    assert external["spec"]["externalName"] == f"{name}.{namespace}.svc.cluster.local"
    assert ports[external["spec"]["ports"][0]["port"]] == "http"
    (path,) = ingress["spec"]["rules"][0]["http"]["paths"]
    assert path["backend"]["service"] == {
        "name": external["metadata"]["name"],
        "port": {"name": external["spec"]["ports"][0]["name"]},
    }


def test_http2_without_tls_is_named_for_gateways(installed: dict[Any, Any]) -> None:
    """Gateways choose the protocol by appProtocol; the example sends gRPC to port 81."""
    (port,) = (port for port in installed[ACTIVATOR]["ports"] if port["port"] == 81)
    assert port["appProtocol"] == "kubernetes.io/h2c"


def test_the_grant_permits_the_route() -> None:
    route, grant = objects("gateway-api.yaml")
    namespace, name = ACTIVATOR
    assert grant["metadata"]["namespace"] == namespace
    assert grant["spec"]["from"] == [
        {
            "group": route["apiVersion"].partition("/")[0],
            "kind": route["kind"],
            "namespace": route["metadata"]["namespace"],
        }
    ]
    assert grant["spec"]["to"] == [{"group": "", "kind": "Service", "name": name}]


def test_each_route_names_the_service_of_the_example() -> None:
    service = objects("sleeping-deployment.yaml")[1]["metadata"]
    key = f"{service['namespace']}/{service['name']}"
    route, _ = objects("gateway-api.yaml")
    (header,) = route["spec"]["rules"][0]["filters"][0]["requestHeaderModifier"]["set"]
    assert header == {"name": "Activator-Service", "value": key}
    ingress_route, middleware = objects("traefik.yaml")
    named = middleware["spec"]["headers"]["customRequestHeaders"]
    assert named == {"Activator-Service": key}
    assert ingress_route["spec"]["routes"][0]["middlewares"] == [
        {"name": middleware["metadata"]["name"]}
    ]
    *_, headers = objects("ingress-external-name.yaml")
    assert headers["data"] == {"Activator-Service": ""}  # nginx removes a field without a value
    assert "ACTIVATOR_SERVICE_HEADER_FROM=never" in (
        (EXAMPLES / "ingress-external-name.yaml").read_text()
    )
    hosts = asked(objects("sleeping-deployment.yaml")[1]).hosts
    assert tuple(route["spec"]["hostnames"]) == hosts
    assert objects("ingress-external-name.yaml")[1]["spec"]["rules"][0]["host"] in hosts


def test_keda_reaches_the_scaler_by_a_name_in_the_manifests(installed: dict[Any, Any]) -> None:
    (scaled,) = objects("keda.yaml")
    (trigger,) = scaled["spec"]["triggers"]
    assert trigger["type"] == "external-push"
    host, _, port = trigger["metadata"]["scalerAddress"].partition(":")
    assert tuple(host.split(".")[:2][::-1]) == SCALER
    assert int(port) in {each["port"] for each in installed[SCALER]["ports"]}
    assert SERVICE_KEY in trigger["metadata"]
    deployment, service = objects("sleeping-deployment.yaml")
    assert trigger["metadata"][SERVICE_KEY] == service["metadata"]["name"]
    assert scaled["spec"]["scaleTargetRef"]["name"] == deployment["metadata"]["name"]


def test_the_hpa_reads_the_metric_of_the_scaler_and_can_wake_its_workload() -> None:
    (hpa,) = objects("hpa.yaml")
    deployment, service = objects("sleeping-deployment.yaml")
    (metric,) = hpa["spec"]["metrics"]
    assert metric["external"]["metric"] == {
        "name": METRIC,
        "selector": {"matchLabels": {SERVICE: service["metadata"]["name"]}},
    }
    owners = WorkloadOwners()
    namespace, name = hpa["metadata"]["namespace"], deployment["metadata"]["name"]
    owners.put(ObjectKey(HPA, namespace, hpa["metadata"]["name"]), hpa)
    target = ScaleTarget(KNOWN["deployment"], namespace, name)
    assert owners.findings(Owner.HPA, target, service["metadata"]["name"]) == []


def test_the_api_service_leads_to_the_port_of_the_scaler() -> None:
    built = build(MANIFESTS / "overlays" / "services", ["external-metrics"])
    api, service = find(built, "APIService", f"v1beta1.{GROUP}"), find(built, "Service", SCALER[1])
    assert f"{api['spec']['group']}/{api['spec']['version']}" == GROUP_VERSION
    reference = api["spec"]["service"]
    assert (reference["namespace"], reference["name"]) == SCALER
    ports = {port["port"]: port["targetPort"] for port in service["spec"]["ports"]}
    (container,) = find(built, "Deployment", SCALER[1])["spec"]["template"]["spec"]["containers"]
    environment = {entry["name"]: entry.get("value", "") for entry in container["env"]}
    known = {"SYSTEM_NAMESPACE": SCALER[0], "POD_NAME": "scale-1"}
    settings = load({}, {name: value for name, value in environment.items() if value} | known)
    assert settings.external_metrics_port == ports[reference["port"]]
    assert ports[reference["port"]] in {port["containerPort"] for port in container["ports"]}


# -- nginx and HAProxy -----------------------------------------------------------------------------

BACKEND = ".".join([*ACTIVATOR[::-1], "svc.cluster.local:80"])


def configured(name: str, folder: Path, backend: str = "127.0.0.1:8012") -> Path:
    """Write an example with another address of the activator, since it looks the name up."""
    text = (EXAMPLES / name).read_text()
    assert text.count(BACKEND) == 1
    path = folder / name
    path.write_text(text.replace(BACKEND, backend))
    return path


def test_nginx_accepts_its_configuration(tmp_path: Path) -> None:
    path = configured("nginx.conf", tmp_path)
    command: list[str | Path] = [
        need("nginx", "nginx-light"),
        "-t",
        "-p",
        tmp_path,
        "-e",
        tmp_path / "error.log",
        "-c",
        path,
    ]
    command += ["-g", f"pid {tmp_path}/nginx.pid;"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "syntax is ok" in done.stderr
    assert "test is successful" in done.stderr


def test_haproxy_accepts_its_configuration(tmp_path: Path) -> None:
    path = configured("haproxy.cfg", tmp_path)
    command: list[str | Path] = [need("haproxy", "haproxy"), "-c", "-f", path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr


@pytest.mark.parametrize("name", ["nginx.conf", "haproxy.cfg"])
def test_configurations_name_the_example(name: str) -> None:
    service = objects("sleeping-deployment.yaml")[1]
    text = (EXAMPLES / name).read_text()
    assert f"{service['metadata']['namespace']}/{service['metadata']['name']}" in text


# -- limits ----------------------------------------------------------------------------------------

#: Limits of a request that waits for a cold start, as patterns. The group is the number: of seconds
#: or bytes, or 0 for no limit.
LIMITS = {
    "nginx.conf": (r"proxy_read_timeout (\d+)s", r"proxy_send_timeout (\d+)s"),
    "admission-nginx.conf": (
        *(r"\$pod;[^}]*proxy_read_timeout (\d+)s", r"proxy_send_timeout (\d+)s"),
        r"admission/;[^}]*proxy_read_timeout (\d+)s",
    ),
    "haproxy.cfg": (r"timeout client (\d+)s", r"timeout server (\d+)s", r"timeout tunnel (\d+)h"),
    "admission-haproxy.cfg": (r"timeout client (\d+)s", r"timeout server (\d+)s"),
    "admission.lua": (r"timeout = (\d+)000 ",),
    "admission-envoy.yaml": (r"\btimeout: (\d+)s # longer", r"stream_idle_timeout: (\d+)s"),
    "ingress-external-name.yaml": (
        r'proxy-body-size: "(0)"',
        r'proxy-read-timeout: "(\d+)"',
        r'proxy-send-timeout: "(\d+)"',
    ),
    "gateway-api.yaml": (r"request: (0)s",),
    "traefik.yaml": (r"readTimeout=(0)s?\b",),
}


@in_one_test("name", LIMITS)
def test_the_activator_says_first_why_a_cold_start_failed(name: str) -> None:
    longest = asked(objects("sleeping-deployment.yaml")[1]).timeouts.total
    text = (EXAMPLES / name).read_text()
    for pattern in LIMITS[name]:
        (number,) = re.findall(pattern, text, re.MULTILINE)
        seconds = int(number) * (3600 if pattern.endswith("h") else 1)
        assert seconds == 0 or seconds > longest, pattern


def test_envoy_passes_websockets_and_takes_no_error_for_a_denial() -> None:
    (config_map,) = objects("admission-envoy.yaml")
    (listener,) = yaml.load(config_map["data"]["envoy.yaml"], yaml.CSafeLoader)["static_resources"][
        "listeners"
    ]
    manager = listener["filter_chains"][0]["filters"][0]["typed_config"]
    assert {"upgrade_type": "websocket"} in manager["upgrade_configs"]
    asks = manager["http_filters"][0]["typed_config"]
    assert asks["status_on_error"] == {"code": "ServiceUnavailable"}
