"""The environment of a container, as kubelet makes it of a Deployment."""

from __future__ import annotations

from typing import Any

from tests.manifests.kustomize import MANIFESTS, build, find

OVERLAYS = ("knative", "services")
POD, IP = "activator-1", "127.0.0.1"


def deployments() -> list[tuple[str, str]]:
    """Return each Deployment as overlay and name."""
    return [
        (overlay, found["metadata"]["name"])
        for overlay in OVERLAYS
        for found in build(MANIFESTS / "overlays" / overlay)
        if found["kind"] == "Deployment"
    ]


def environment(overlay: str, name: str) -> dict[str, str]:
    """Return the environment of a Deployment's only container, in a pod on the loopback."""
    deployment = find(build(MANIFESTS / "overlays" / overlay), "Deployment", name)
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    fields = {
        "metadata.name": POD,
        "metadata.namespace": deployment["metadata"]["namespace"],
        "status.podIP": IP,
        "status.podIPs": IP,
        "metadata.labels['topology.kubernetes.io/zone']": "",  # as before Kubernetes 1.35
    }
    return {entry["name"]: _value(entry, fields) for entry in container["env"]}


def _value(entry: dict[str, Any], fields: dict[str, str]) -> str:
    if "valueFrom" not in entry:
        return str(entry.get("value", ""))
    return fields[entry["valueFrom"]["fieldRef"]["fieldPath"]]
