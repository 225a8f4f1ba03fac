"""Fills in the fields that the API server fills in when an object is written.

Kubernetes' counterpart: pkg/apis/core/v1/defaults.go and its siblings. Only fields that the
activator reads are here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from activator.lab.control_plane.resources import (
    DEPLOYMENTS,
    LEASES,
    PODS,
    REPLICA_SETS,
    SERVICES,
    SLICES,
    STATEFUL_SETS,
    ApiKind,
)

Object = dict[str, Any]

_PROBES: Final = ("readinessProbe", "livenessProbe", "startupProbe")
_PROBE: Final = {
    "timeoutSeconds": 1,
    "periodSeconds": 10,
    "successThreshold": 1,
    "failureThreshold": 3,
}


def fill(resource: ApiKind, found: Object) -> None:
    """Fill in an object's missing fields, and write empty lists as the server returns them."""
    if fills := _FILLERS.get(resource):
        fills(found)


def _service(found: Object) -> None:
    found.setdefault("status", {"loadBalancer": {}})
    spec = found.setdefault("spec", {})
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    for port in spec.get("ports") or []:
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port.get("port"))


def _workload(found: Object) -> None:
    found.setdefault("status", {})
    spec = found.setdefault("spec", {})
    if spec.get("replicas") is None:
        spec["replicas"] = 1
    _pod_spec(spec.get("template", {}).get("spec", {}))


def _stateful_set(found: Object) -> None:
    found.setdefault("status", {"replicas": 0, "availableReplicas": 0})
    _workload(found)


def _pod(found: Object) -> None:
    found.setdefault("status", {"phase": "Pending", "qosClass": "BestEffort"})
    _pod_spec(found.setdefault("spec", {}))


def _pod_spec(spec: Object) -> None:
    spec.setdefault("terminationGracePeriodSeconds", 30)
    for container in spec.get("containers") or []:
        for port in container.get("ports") or []:
            port.setdefault("protocol", "TCP")
        for name in _PROBES:
            if probe := container.get(name):
                _probe(probe)


def _probe(probe: Object) -> None:
    for name, value in _PROBE.items():
        probe.setdefault(name, value)
    if page := probe.get("httpGet"):
        page.setdefault("path", "/")
        page.setdefault("scheme", "HTTP")
    if "grpc" in probe:
        probe["grpc"].setdefault("service", "")


def _slice(found: Object) -> None:
    for name in ("endpoints", "ports"):  # an empty list reads back as null
        found[name] = found.get(name) or None
    for port in found["ports"] or []:
        port.setdefault("name", "")
        port.setdefault("protocol", "TCP")


def _lease(found: Object) -> None:
    found.setdefault("spec", {})


_FILLERS: Final[dict[ApiKind, Callable[[Object], None]]] = {
    SERVICES: _service,
    PODS: _pod,
    DEPLOYMENTS: _workload,
    STATEFUL_SETS: _stateful_set,
    REPLICA_SETS: _workload,
    SLICES: _slice,
    LEASES: _lease,
}
