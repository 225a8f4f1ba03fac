"""The manifests for annotated Services are valid, and agree with the scaler's program."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped] # it has no types
import pytest
import yaml

from activator.scale.settings import DEFAULT_RANGE
from tests.manifests import knative
from tests.manifests.kubectl import kustomize_command
from tests.manifests.kustomize import MANIFESTS, Object, build, find
from tests.manifests.test_manifests import (
    FOREIGN,
    OLDEST_KUBERNETES,
    as_kustomization,
    by_name,
    rendered,
)
from tests.manifests.test_rbac import Grant, grants

SERVICES = MANIFESTS / "overlays" / "services"
KNATIVE = MANIFESTS / "overlays" / "knative"
NAMESPACE = "activator-system"
COMPONENTS = (
    *("network-policies-of-services", "service-monitor", "pod-monitor", "external-metrics"),
    *("admission", "admission-policy"),
)
#: The dialects together, beside Knative.
BESIDE = ("services", "network-policies", *COMPONENTS)

LEADER = {"activator.dev/leader": "true"}
#: The oldest one on which the activator of this overlay starts, without the last figure.
OLDEST_FOR_SERVICES = "1.25"
#: The oldest one that has admission policies in CEL; the component of the policy says so.
OLDEST_WITH_POLICIES = "1.30"


@pytest.fixture(scope="module")
def objects() -> list[Object]:
    """Return the objects that an operator without Knative applies."""
    return build(SERVICES)


def pod(objects: list[Object], deployment: str) -> Any:
    return find(objects, "Deployment", deployment)["spec"]["template"]


def environment(objects: list[Object], deployment: str) -> dict[str, str]:
    (container,) = pod(objects, deployment)["spec"]["containers"]
    return {entry["name"]: entry.get("value", "") for entry in container["env"]}


# -- kubectl builds and accepts them ---------------------------------------------------------------


@pytest.mark.parametrize("folder", ["scale", "overlays/services"])
def test_kubectl_builds_the_same(folder: str) -> None:
    assert by_name(rendered(kustomize_command(), MANIFESTS / folder)) == by_name(
        build(MANIFESTS / folder)
    )


@pytest.mark.parametrize("overlay", [SERVICES, KNATIVE])
def test_a_component_needs_only_its_comment_sign_removed(overlay: Path) -> None:
    text = (overlay / "kustomization.yaml").read_text()
    components = yaml.load(
        text.replace("# - ../../components/", "- ../../components/"), yaml.CSafeLoader
    )
    assert components["components"]
    assert all((overlay / each).is_dir() for each in components["components"])


@pytest.mark.parametrize(("overlay", "components"), [("services", COMPONENTS), ("knative", BESIDE)])
def test_kubectl_builds_the_same_with_components(
    overlay: str, components: tuple[str, ...], tmp_path: Path
) -> None:
    folder = as_kustomization(
        tmp_path / "mine",
        overlay=overlay,
        kind="Kustomization",
        components=[f"../manifests/components/{name}" for name in components],
        namespace="elsewhere",
        images=[{"name": "registry.invalid/activator", "newName": "r.example/a", "newTag": "7"}],
    )
    built = rendered(kustomize_command(), folder)
    assert by_name(built) == by_name(build(folder))
    images = {
        container["image"]
        for obj in built
        if obj["kind"] == "Deployment"
        for container in obj["spec"]["template"]["spec"]["containers"]
    }
    assert images == {"r.example/a:7"}
    assert {obj["metadata"].get("namespace", "elsewhere") for obj in built} == {"elsewhere"}


@pytest.mark.parametrize(
    ("overlay", "components", "oldest"),
    [
        (SERVICES, (), OLDEST_FOR_SERVICES),
        (SERVICES, COMPONENTS, OLDEST_FOR_SERVICES),
        (KNATIVE, BESIDE, OLDEST_KUBERNETES),
    ],
)
def test_every_object_is_valid(overlay: Path, components: tuple[str, ...], oldest: str) -> None:
    for obj in build(overlay, components):
        for version in (oldest, kubernetes_validate.latest_version()):
            if obj["kind"] not in FOREIGN:
                # The admission policy is a component of its own for the reason that it needs more.
                is_policy = obj["kind"].startswith("ValidatingAdmissionPolicy")
                least = OLDEST_WITH_POLICIES if is_policy else version
                kubernetes_validate.validate(obj, max(version, least), strict=True)


def test_the_activator_starts_on_the_oldest_kubernetes(objects: list[Object]) -> None:
    found = environment(objects, "activator")["KUBERNETES_MIN_VERSION"]
    assert found == f"v{OLDEST_FOR_SERVICES}.0"


def test_all_objects_are_in_one_namespace(objects: list[Object]) -> None:
    namespaces = {obj["metadata"].get("namespace") for obj in objects}
    assert namespaces == {NAMESPACE, None}  # None: the namespace itself, and roles of the cluster
    assert find(objects, "Namespace", NAMESPACE)
    beside = build(KNATIVE, BESIDE)
    subjects = {s["namespace"] for obj in beside for s in obj.get("subjects", [])}
    assert subjects == {knative.NAMESPACE}
    (reference,) = (o["spec"]["service"] for o in beside if o["kind"] == "APIService")
    assert (
        reference["namespace"]
        == find(beside, "Service", reference["name"])["metadata"]["namespace"]
    )
    assert reference["namespace"] == knative.NAMESPACE


def test_knatives_objects_stay_as_they_are_beside_annotated_services() -> None:
    """Only the activator's environment changes; everything else is added."""
    alone, beside = by_name(build(KNATIVE)), by_name(build(KNATIVE, ["services"]))
    changed = {key for key, obj in alone.items() if beside[key] != obj}
    assert changed == {("Deployment", "activator")}
    before = environment([*alone.values()], "activator")
    after = environment([*beside.values()], "activator")
    assert after == before | {"ACTIVATOR_DIALECT": "knative,services"}


# -- the scaler ------------------------------------------------------------------------------------


def test_the_scalers_service_leads_to_the_leader_alone(objects: list[Object]) -> None:
    selector = find(objects, "Service", "activator-scale")["spec"]["selector"]
    labels = pod(objects, "activator-scale")["metadata"]["labels"]
    assert selector.items() - labels.items() == LEADER.items()
    # Its Deployment would not adopt the leader if its own selector had the label.
    deployment = find(objects, "Deployment", "activator-scale")["spec"]
    assert deployment["selector"]["matchLabels"].items() <= labels.items()
    assert not LEADER.items() & deployment["selector"]["matchLabels"].items()


def test_no_probe_of_the_scaler_depends_on_leading(objects: list[Object]) -> None:
    """A rolling update waits for readiness, and the new pod leads only once the old one ends."""
    (container,) = pod(objects, "activator-scale")["spec"]["containers"]
    names = {port["name"] for port in container["ports"]}
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        http = container[probe]["httpGet"]
        assert http["path"] == "/healthz"
        assert http["port"] in names


def test_a_rollout_and_a_drain_leave_a_scaler(objects: list[Object]) -> None:
    deployment = find(objects, "Deployment", "activator-scale")["spec"]
    assert deployment["replicas"] == 2
    assert deployment["strategy"] == {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    budget = find(objects, "PodDisruptionBudget", "activator-scale")["spec"]
    assert budget["maxUnavailable"] == 1
    assert budget["selector"] == deployment["selector"]


def test_each_port_of_the_service_is_one_of_the_container(objects: list[Object]) -> None:
    (container,) = pod(objects, "activator-scale")["spec"]["containers"]
    listening = {port["containerPort"] for port in container["ports"]}
    ports = find(objects, "Service", "activator-scale")["spec"]["ports"]
    assert {port["targetPort"] for port in ports} <= listening
    monitor = find(build(SERVICES, ["pod-monitor"]), "PodMonitor", "activator-scale")["spec"]
    assert monitor["selector"]["matchLabels"].items() <= (
        pod(objects, "activator-scale")["metadata"]["labels"].items()
    )
    assert {each["port"] for each in monitor["podMetricsEndpoints"]} <= {
        port["name"] for port in container["ports"]
    }


@pytest.mark.parametrize("deployment", ["activator", "activator-scale"])
def test_both_pods_may_do_nothing_but_listen(objects: list[Object], deployment: str) -> None:
    """The namespace enforces the restricted profile of the Pod Security Standards."""
    spec = pod(objects, deployment)["spec"]
    (container,) = spec["containers"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert "volumes" not in spec
    assert spec["enableServiceLinks"] is False


# -- permissions -----------------------------------------------------------------------------------


def test_the_activator_can_write_nothing(objects: list[Object]) -> None:
    permitted = grants(objects)
    assert {(grant.group, grant.resource, grant.namespace) for grant in permitted} == {
        ("", "services", ""),
        ("", "configmaps", NAMESPACE),
        ("discovery.k8s.io", "endpointslices", ""),
        ("apps", "deployments", ""),
        ("apps", "statefulsets", ""),
    }
    assert {grant.verb for grant in permitted} == {"list", "watch"}


def test_beside_knative_the_activator_gets_the_workloads_and_nothing_else() -> None:
    added = grants(build(KNATIVE, ["services"])) - grants(build(KNATIVE))
    assert {(grant.resource, grant.verb) for grant in added} == {
        (resource, verb)
        for resource in ("deployments", "statefulsets")
        for verb in ("list", "watch")
    }


def test_the_scaler_writes_replicas_slices_events_and_nothing_of_pods(
    objects: list[Object],
) -> None:
    written = {
        (grant.resource, grant.namespace, grant.verb)
        for grant in grants(objects, "activator-scale")
        if grant.verb not in ("get", "list", "watch")
    }
    assert written == {
        ("deployments/scale", "", "patch"),
        ("statefulsets/scale", "", "patch"),
        ("endpointslices", "", "create"),
        ("endpointslices", "", "patch"),
        ("endpointslices", "", "delete"),
        ("endpointslices/restricted", "", "create"),
        ("endpoints", "", "delete"),
        ("events", "", "create"),
        ("events", "", "patch"),
        ("selfsubjectaccessreviews", "", "create"),
        ("leases", NAMESPACE, "create"),
        ("leases", NAMESPACE, "update"),
        ("pods", NAMESPACE, "patch"),
    }


def test_the_lease_has_one_name(objects: list[Object]) -> None:
    leases = {grant for grant in grants(objects, "activator-scale") if grant.resource == "leases"}
    group = "coordination.k8s.io"
    assert leases == {
        Grant(group, "leases", NAMESPACE, "create", ""),
        Grant(group, "leases", NAMESPACE, "get", "activator-scale"),
        Grant(group, "leases", NAMESPACE, "update", "activator-scale"),
    }


# -- network policies ------------------------------------------------------------------------------


def policy(name: str, components: Sequence[str] = COMPONENTS) -> Any:
    return find(build(SERVICES, components), "NetworkPolicy", name)["spec"]


def test_by_default_only_activators_reach_the_port_for_reports(objects: list[Object]) -> None:
    spec = policy("activator-scale", ())
    (container,) = pod(objects, "activator-scale")["spec"]["containers"]
    named = {each["name"]: each["containerPort"] for each in container["ports"]}
    reports, others = spec["ingress"]
    assert spec["policyTypes"] == ["Ingress"]
    assert spec["podSelector"]["matchLabels"] == {"app": "activator-scale"}
    assert reports["from"] == [{"podSelector": {"matchLabels": {"app": "activator"}}}]
    assert [each["port"] for each in reports["ports"]] == [named.pop("stat")]
    assert "from" not in others  # kubelet, the API server, Prometheus and KEDA may be anywhere
    assert {each["port"] for each in others["ports"]} == {*named.values(), 6443}


def test_takeover_ports_are_open_to_every_client() -> None:
    (rule,) = (
        rule
        for rule in policy("activator-services-in")["ingress"]
        if any("endPort" in port for port in rule["ports"])
    )
    assert "from" not in rule  # the clients of a Service may be anywhere
    (ports,) = rule["ports"]
    assert range(ports["port"], ports["endPort"] + 1) == DEFAULT_RANGE


def test_the_activator_reaches_the_scaler_and_the_scaler_accepts_it(
    objects: list[Object],
) -> None:
    def by_pods(rules: list[Any], direction: str, app: str) -> set[int]:
        return {
            port["port"]
            for rule in rules
            if rule.get(direction) == [{"podSelector": {"matchLabels": {"app": app}}}]
            for port in rule["ports"]
        }

    stat = {
        port["targetPort"]
        for port in find(objects, "Service", "activator-scale")["spec"]["ports"]
        if port["name"] in ("stat", "admin")
    }
    assert by_pods(policy("activator-services-out")["egress"], "to", "activator-scale") == stat
    assert by_pods(policy("activator-scale")["ingress"], "from", "activator") == stat


def test_the_activator_reaches_pods_of_every_namespace_on_every_port() -> None:
    assert {"to": [{"namespaceSelector": {}}]} in policy("activator-services-out")["egress"]


def test_each_port_of_the_scaler_is_let_in(objects: list[Object]) -> None:
    (container,) = pod(objects, "activator-scale")["spec"]["containers"]
    opened = {
        port["port"] for rule in policy("activator-scale")["ingress"] for port in rule["ports"]
    }
    closed = {port["name"] for port in container["ports"] if port["containerPort"] not in opened}
    assert closed == set()


def test_the_admission_port_is_open_in_pod_and_service() -> None:
    assert all("8014" not in str(obj) for obj in build(SERVICES))
    objects = build(SERVICES, ["admission"])
    (container,) = find(objects, "Deployment", "activator")["spec"]["template"]["spec"][
        "containers"
    ]
    port = {"name": "ACTIVATOR_ADMIT_PORT", "value": "8014"}
    assert port in container["env"]
    assert {"name": "admission", "containerPort": 8014} in container["ports"]
    ports = find(objects, "Service", "activator-service")["spec"]["ports"]
    assert ports[-1] == {"name": "admission", "port": 8014, "targetPort": 8014}
