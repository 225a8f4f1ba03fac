"""The connections that the policies allow to and from the activator, for all its ports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped] # it has no types
import pytest
import yaml

from activator.settings.config import SETTINGS, load
from activator.settings.values import METRICS_PORT, OPTIONAL_PORT, PORT
from activator.tls.internal_encryption import POD_PORT as POD_TLS_PORT
from tests.manifests import knative
from tests.manifests.kustomize import MANIFESTS, Object, build, find
from tests.manifests.test_manifests import OLDEST_KUBERNETES

OVERLAY = MANIFESTS / "overlays" / "knative"
OF_REVISIONS = MANIFESTS / "examples" / "network-policy-of-revisions.yaml"
#: Ports of queue-proxy: HTTP/1.1, HTTP/2, TLS (Knative pkg/networking/constants.go).
POD_PORTS = {8012, 8013, POD_TLS_PORT}
TRAFFIC = {"http_port", "h2c_port", "https_port"}
ADMISSION = {"ACTIVATOR_ADMIT_PORT": "8014"}
#: Ports that no policy opens, and why no client needs them.
CLOSED = {
    "admin_port": "listens on loopback; `kubectl port-forward` leads there",
    "profiling_port": "asked through `kubectl port-forward`, which leads into the pod itself",
}


@pytest.fixture(scope="module")
def objects() -> list[Object]:
    return build(OVERLAY, ["network-policies"])


@pytest.fixture(scope="module")
def ports() -> dict[str, int]:
    """Return every port that the program opens, by the name of its setting."""
    environment = knative.ENVIRONMENT | ADMISSION
    settings = load("run", {}, environment, resolv_conf=Path("/nowhere"))
    return {row.name: getattr(settings, row.name) for row in SETTINGS if _is_port(row.kind)}


def _is_port(kind: object) -> bool:
    return kind in (PORT, OPTIONAL_PORT, METRICS_PORT)


def policy(objects: list[Object], name: str) -> Any:
    return find(objects, "NetworkPolicy", name)["spec"]


def let_in(spec: Any, *, by: str | None = None) -> set[int]:
    """Return the ports of a policy's ingress rules; `by` is a label of the rule's peer."""
    return {
        port["port"]
        for rule in spec["ingress"]
        if by is None or by in yaml.safe_dump(rule["from"])
        for port in rule["ports"]
    }


def test_each_port_of_the_program_is_let_in_or_closed_on_purpose(
    objects: list[Object], ports: dict[str, int]
) -> None:
    opened = {
        port
        for obj in objects
        if obj["kind"] == "NetworkPolicy" and "ingress" in obj["spec"]
        for port in let_in(obj["spec"])
    }
    assert opened == {number for name, number in ports.items() if name not in CLOSED}
    assert set(CLOSED) <= set(ports)


def test_traffic_and_metrics_are_apart(objects: list[Object], ports: dict[str, int]) -> None:
    """A client of metrics cannot reach revisions, and the ingress cannot read metrics."""
    assert let_in(policy(objects, "activator-metrics")) == {ports["metrics_port"]}
    traffic = {ports[name] for name in (*TRAFFIC, "admit_port")}
    assert let_in(policy(objects, "activator-traffic")) == traffic


def test_the_autoscaler_may_ask_before_it_scales_to_zero(
    objects: list[Object], ports: dict[str, int]
) -> None:
    """Without access, the autoscaler would never scale to zero: its probe would fail."""
    asked = let_in(policy(objects, "activator-traffic"), by="app: autoscaler")
    assert asked == {ports[name] for name in TRAFFIC}


def test_all_else_is_dropped_both_ways(objects: list[Object]) -> None:
    assert policy(objects, "activator-default-deny") == {
        "podSelector": {"matchLabels": {"app": "activator"}},
        "policyTypes": ["Ingress", "Egress"],
    }


def test_every_policy_is_about_the_pods_of_the_deployment(objects: list[Object]) -> None:
    pod = find(objects, "Deployment", "activator")["spec"]["template"]["metadata"]["labels"]
    for obj in objects:
        if obj["kind"] == "NetworkPolicy":
            assert obj["spec"]["podSelector"]["matchLabels"].items() <= pod.items()
            assert obj["metadata"]["namespace"] == knative.NAMESPACE


def _way_out(objects: list[Object], port: int) -> Any:
    """Return the destinations of the one rule that permits the activator a port."""
    rules = policy(objects, "activator-out")["egress"]
    (rule,) = (rule for rule in rules if port in {each["port"] for each in rule["ports"]})
    return rule.get("to")


def test_the_activator_reaches_what_it_asks(objects: list[Object]) -> None:
    autoscaler = load("run", {}, knative.ENVIRONMENT, resolv_conf=Path("/nowhere")).autoscaler_url
    assert autoscaler is not None
    port = int(autoscaler.rpartition(":")[2])
    assert _way_out(objects, port) == [{"podSelector": {"matchLabels": {"app": "autoscaler"}}}]
    assert _way_out(objects, 443) is None  # the API server may be anywhere
    (pods,) = {yaml.safe_dump(_way_out(objects, port)) for port in POD_PORTS}
    assert "serving.knative.dev/revision" in pods
    assert _way_out(objects, 53) is not None


def test_pods_of_revisions_let_in_what_the_activator_sends() -> None:
    (of_revisions,) = yaml.load_all(OF_REVISIONS.read_text(), yaml.CSafeLoader)
    kubernetes_validate.validate(of_revisions, OLDEST_KUBERNETES, strict=True)
    assert let_in(of_revisions["spec"], by="app: activator") == POD_PORTS
