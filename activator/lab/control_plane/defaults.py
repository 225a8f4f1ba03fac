"""Fills in the fields of a written object that the API server fills in.

Only fields that the programs read are here. Kubernetes' counterparts: pkg/apis/core/v1/defaults.go
and its siblings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from activator.lab.control_plane import api

Object = dict[str, Any]

_PROBES: Final = ("readinessProbe", "livenessProbe", "startupProbe")
_PROBE: Final = {
    "timeoutSeconds": 1,
    "periodSeconds": 10,
    "successThreshold": 1,
    "failureThreshold": 3,
}


def fill(resource: api.ApiKind, found: Object) -> None:
    """Fill in an object's missing fields, and write empty lists as the server returns them."""
    if fills := _FILLERS.get(resource):
        fills(found)


def _fill_service(found: Object) -> None:
    found.setdefault("status", {"loadBalancer": {}})
    spec = found.setdefault("spec", {})
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    for port in spec.get("ports") or []:
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port.get("port"))


def _fill_workload(found: Object) -> None:
    found.setdefault("status", {})
    spec = found.setdefault("spec", {})
    if spec.get("replicas") is None:
        spec["replicas"] = 1
    _fill_pod_spec(spec.get("template", {}).get("spec", {}))


def _fill_stateful_set(found: Object) -> None:
    found.setdefault("status", {"replicas": 0, "availableReplicas": 0})
    _fill_workload(found)


def _fill_pod(found: Object) -> None:
    found.setdefault("status", {"phase": "Pending", "qosClass": "BestEffort"})
    _fill_pod_spec(found.setdefault("spec", {}))


def _fill_pod_spec(spec: Object) -> None:
    spec.setdefault("terminationGracePeriodSeconds", 30)
    for container in spec.get("containers") or []:
        for port in container.get("ports") or []:
            port.setdefault("protocol", "TCP")
        for name in _PROBES:
            if probe := container.get(name):
                _fill_probe(probe)


def _fill_probe(probe: Object) -> None:
    for name, value in _PROBE.items():
        probe.setdefault(name, value)
    if page := probe.get("httpGet"):
        page.setdefault("path", "/")
        page.setdefault("scheme", "HTTP")
    if "grpc" in probe:
        probe["grpc"].setdefault("service", "")


def _fill_slice(found: Object) -> None:
    for name in ("endpoints", "ports"):  # an empty list reads back as null
        found[name] = found.get(name) or None
    for port in found["ports"] or []:
        port.setdefault("name", "")
        port.setdefault("protocol", "TCP")


def _fill_lease(found: Object) -> None:
    found.setdefault("spec", {})


_FILLERS: Final[dict[api.ApiKind, Callable[[Object], None]]] = {
    api.SERVICES: _fill_service,
    api.PODS: _fill_pod,
    api.DEPLOYMENTS: _fill_workload,
    api.STATEFUL_SETS: _fill_stateful_set,
    api.REPLICA_SETS: _fill_workload,
    api.SLICES: _fill_slice,
    api.LEASES: _fill_lease,
}
