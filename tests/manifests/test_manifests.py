"""The manifests are valid, and agree with the program and with Knative; without a cluster."""

from __future__ import annotations

import copy
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped] # it has no types
import pytest
import yaml

from activator import __version__
from activator.settings.config import load, settings_of
from activator.telemetry import otel
from tests.manifests import knative
from tests.manifests.kubectl import kustomize_command
from tests.manifests.kustomize import MANIFESTS, ROOT, Object, build, find

OVERLAY = MANIFESTS / "overlays" / "knative"
COMPONENTS = ("internal-tls", "network-policies", "service-monitor")

#: The oldest one that the program starts on, without the last figure: 1.34.
OLDEST_KUBERNETES = (
    load("run", {}, knative.ENVIRONMENT).kubernetes_min_version.lstrip("v").rpartition(".")[0]
)

#: Kinds that the Prometheus operator brings, whose schema Kubernetes does not have.
FOREIGN = {"PodMonitor", "PrometheusRule", "ServiceMonitor"}


@pytest.fixture(scope="module")
def objects() -> list[Object]:
    """Return the objects that an operator applies."""
    return build(OVERLAY)


def container(objects: list[Object]) -> Any:
    deployment = find(objects, "Deployment", "activator")
    return deployment["spec"]["template"]["spec"]["containers"][0]


def environment(objects: list[Object]) -> dict[str, str]:
    """Return the container's environment, with the values that a cluster would set."""
    fields = {"metadata.name": "a-1", "metadata.namespace": "k", "status.podIP": "10.0.0.1"}
    fields["status.podIPs"] = "10.0.0.1"
    fields["metadata.labels['topology.kubernetes.io/zone']"] = "eu-1a"
    return {
        entry["name"]: entry["value"]
        if "value" in entry
        else fields[entry["valueFrom"]["fieldRef"]["fieldPath"]]
        for entry in container(objects)["env"]
    }


def as_kustomization(folder: Path, overlay: str = "knative", **more: Any) -> Path:
    """Write a kustomization on top of an overlay, in a new folder, as an operator would."""
    folder.mkdir()
    manifests = folder.parent / "manifests"
    if not manifests.exists():
        shutil.copytree(MANIFESTS, manifests)  # kustomize takes relative paths only
    said = {"resources": [f"../manifests/overlays/{overlay}"], **more}
    (folder / "kustomization.yaml").write_text(
        yaml.safe_dump({"apiVersion": "kustomize.config.k8s.io/v1beta1", **said})
    )
    return folder


def rendered(command: list[str], folder: Path) -> list[Object]:
    done = subprocess.run([*command, folder], capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    return [*yaml.load_all(done.stdout, yaml.CSafeLoader)]


def by_name(objects: list[Object]) -> dict[tuple[str, str], Object]:
    return {(obj["kind"], obj["metadata"]["name"]): obj for obj in objects}


@pytest.mark.parametrize("folder", ["base", "monitoring", "overlays/knative"])
def test_kustomize_builds_the_same(folder: str) -> None:
    assert by_name(rendered(kustomize_command(), MANIFESTS / folder)) == by_name(
        build(MANIFESTS / folder)
    )


def test_kustomize_builds_the_same_with_components_image_and_namespace(tmp_path: Path) -> None:
    more: dict[str, Any] = {
        "components": [f"../manifests/components/{name}" for name in COMPONENTS],
        "namespace": "elsewhere",
        "images": [{"name": "registry.invalid/activator", "newName": "r.example/a", "newTag": "7"}],
    }
    command = kustomize_command()
    folder = as_kustomization(tmp_path / "mine", kind="Kustomization", **more)
    objects = rendered(command, folder)
    assert by_name(objects) == by_name(_loaded(folder))
    assert container(objects)["image"] == "r.example/a:7"
    assert {subject["namespace"] for obj in objects for subject in obj.get("subjects", [])} == {
        "elsewhere"
    }


def _loaded(folder: Path) -> list[Object]:
    said = yaml.load((folder / "kustomization.yaml").read_text(), yaml.CSafeLoader)
    said["kind"] = "Kustomization"
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(said))
    return build(folder)


def test_the_proxy_of_the_docs_stands_beside_the_activator(tmp_path: Path) -> None:
    """For kubectl and other patches, `containers/0` is still the activator."""
    page = (ROOT / "docs" / "how-to" / "expose-the-dashboard.md").read_text()
    (patch,) = re.findall(r"^```yaml\n(patches:\n.*?)^```", page, re.MULTILINE | re.DOTALL)
    folder = as_kustomization(
        tmp_path / "mine",
        kind="Kustomization",
        components=["../manifests/components/internal-tls"],
        **yaml.load(patch, yaml.CSafeLoader),
    )
    objects = build(folder)
    assert by_name(rendered(kustomize_command(), folder)) == by_name(objects)
    template = find(objects, "Deployment", "activator")["spec"]["template"]
    first, proxy = template["spec"]["containers"]
    assert first["name"] == "activator"
    assert "https" in {port["name"] for port in first["ports"]}
    default = template["metadata"]["annotations"]["kubectl.kubernetes.io/default-container"]
    assert default == first["name"]
    # Without it the HorizontalPodAutoscaler cannot compute the utilization.
    assert proxy["resources"]["requests"]["cpu"]


@pytest.mark.parametrize("version", [OLDEST_KUBERNETES, kubernetes_validate.latest_version()])
@pytest.mark.parametrize("components", [(), COMPONENTS])
def test_every_object_is_valid(version: str, components: tuple[str, ...]) -> None:
    """From the oldest Kubernetes that the program starts on to the newest one with a schema."""
    for obj in build(OVERLAY, components):
        if obj["kind"] not in FOREIGN:
            kubernetes_validate.validate(obj, version, strict=True)


def test_what_is_for_monitoring_is_valid_and_found_by_grafana() -> None:
    objects = build(MANIFESTS / "monitoring")
    maps = [obj for obj in objects if obj["kind"] == "ConfigMap"]
    for config_map in maps:
        kubernetes_validate.validate(config_map, OLDEST_KUBERNETES, strict=True)
        assert config_map["metadata"]["labels"] == {"grafana_dashboard": "1"}
    shown = {name for config_map in maps for name in config_map["data"]}
    assert shown == {path.name for path in (MANIFESTS / "monitoring" / "dashboards").iterdir()}
    assert {obj["metadata"]["namespace"] for obj in objects} == {knative.NAMESPACE}
    assert find(objects, "PrometheusRule", "activator")["spec"]["groups"]


def test_validation_sees_a_wrong_field(objects: list[Object]) -> None:
    wrong = copy.deepcopy(find(objects, "Deployment", "activator"))
    wrong["spec"]["template"]["spec"]["containers"][0]["livenesProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError, match="livenesProbe"):
        kubernetes_validate.validate(wrong, OLDEST_KUBERNETES, strict=True)


def test_the_overlay_replaces_what_knative_deploys_and_nothing_else(objects: list[Object]) -> None:
    assert set(by_name(objects)) == knative.OBJECTS
    assert {obj["metadata"]["namespace"] for obj in objects if "namespace" in obj["metadata"]} == {
        knative.NAMESPACE
    }


def test_selectors_are_knatives_and_match_our_pods(objects: list[Object]) -> None:
    deployment = find(objects, "Deployment", "activator")["spec"]
    labels = deployment["template"]["metadata"]["labels"].items()
    assert deployment["selector"] == {"matchLabels": knative.DEPLOYMENT_SELECTOR}
    assert deployment["selector"]["matchLabels"].items() <= labels
    service = find(objects, "Service", "activator-service")
    assert service["spec"]["selector"] == knative.SERVICE_SELECTOR
    budget = find(objects, "PodDisruptionBudget", "activator-pdb")["spec"]["selector"]
    spread = deployment["template"]["spec"]["topologySpreadConstraints"]
    for selector in (budget, *(constraint["labelSelector"] for constraint in spread)):
        assert selector["matchLabels"].items() <= labels
    monitor = find(build(OVERLAY, COMPONENTS), "ServiceMonitor", "activator")["spec"]
    assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    names = {port["name"] for port in service["spec"]["ports"]}
    assert {endpoint["port"] for endpoint in monitor["endpoints"]} <= names


def test_the_service_has_knatives_ports(objects: list[Object]) -> None:
    ports = find(objects, "Service", "activator-service")["spec"]["ports"]
    assert {
        port["name"]: (port["port"], port["targetPort"]) for port in ports
    } == knative.SERVICE_PORTS


def test_ports_are_those_that_the_program_opens(objects: list[Object]) -> None:
    settings = load("run", {}, environment(objects), resolv_conf=Path("/nowhere"))
    open_ports = {
        "http1": settings.http_port,
        "h2c": settings.h2c_port,
        "metrics": settings.metrics_port,
        "profiling": settings.profiling_port,
    }

    def ports(objects: list[Object]) -> dict[str, int]:
        return {port["name"]: port["containerPort"] for port in container(objects)["ports"]}

    assert ports(objects) == open_ports
    assert ports(build(OVERLAY, ["internal-tls"])) == open_ports | {"https": settings.https_port}
    service = find(objects, "Service", "activator-service")["spec"]["ports"]
    assert {port["targetPort"] for port in service} == {*open_ports.values(), settings.https_port}


@pytest.mark.parametrize("probe", ["startupProbe", "readinessProbe", "livenessProbe"])
def test_probes_ask_an_open_port(objects: list[Object], probe: str) -> None:
    names = {port["name"] for port in container(objects)["ports"]}
    assert container(objects)[probe]["httpGet"]["port"] in names


def test_liveness_does_not_depend_on_the_autoscaler(objects: list[Object]) -> None:
    """The metrics port's /healthz shows liveness; the traffic port's probe shows readiness."""
    for probe in ("startupProbe", "livenessProbe"):
        assert container(objects)[probe]["httpGet"] == {"port": "metrics", "path": "/healthz"}
    assert container(objects)["readinessProbe"]["httpGet"]["port"] == "http1"


def test_probes_of_the_traffic_port_are_known_as_such_without_kubelets_user_agent(
    objects: list[Object],
) -> None:
    header = {"name": "k-kubelet-probe", "value": "activator"}
    assert container(objects)["readinessProbe"]["httpGet"]["httpHeaders"] == [header]


def test_the_environment_holds_known_settings_only(objects: list[Object]) -> None:
    # The default of --bind reads POD_IPS.
    known = {row.variable for row in settings_of("run")} | {"POD_IPS"}
    assert set(environment(objects)) <= known
    settings = load("run", {}, environment(objects), resolv_conf=Path("/nowhere"))
    assert (settings.pod_name, settings.pod_ip, settings.system_namespace) == (
        ("a-1", "10.0.0.1", "k")
    )


def test_knatives_own_deployment_starts_our_program() -> None:
    """Knative's environment is sufficient if an operator changes only the image."""
    settings = load("run", {}, knative.ENVIRONMENT, resolv_conf=Path("/nowhere"))
    assert settings.autoscaler_url == "ws://autoscaler.knative-serving.svc.cluster.local:8080"


def test_the_grace_period_holds_lame_duck_and_drain(objects: list[Object]) -> None:
    settings = load("run", {}, environment(objects), resolv_conf=Path("/nowhere"))
    pod = find(objects, "Deployment", "activator")["spec"]["template"]["spec"]
    # After the drain: last responses (1 s), the last open ports (2 s), the export of telemetry to a
    # hung collector; and as much again for a busy node.
    rest = 2 * (1 + 2) + 2 * otel.FLUSH
    needed = settings.lame_duck + settings.drain_timeout + rest
    assert needed <= pod["terminationGracePeriodSeconds"]


def test_memory_holds_every_full_queue(objects: list[Object]) -> None:
    settings = load("run", {}, environment(objects), resolv_conf=Path("/nowhere"))
    waiting = settings.queue_depth_total * 3072 + settings.hold_bytes_total  # docs/benchmarks.md
    resources = container(objects)["resources"]
    assert resources["limits"]["memory"] == "1Gi"
    unfinished = settings.unfinished_header_bytes
    assert waiting + unfinished + settings.unread_bytes + 150 * 2**20 < 2**30


def test_the_pod_may_do_nothing_but_listen(objects: list[Object]) -> None:
    pod = find(objects, "Deployment", "activator")["spec"]["template"]["spec"]
    assert pod["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert container(objects)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert "volumes" not in pod


def test_the_image_is_of_this_version_and_of_nobodys_registry(objects: list[Object]) -> None:
    assert container(objects)["image"] == f"registry.invalid/activator:{__version__}"
