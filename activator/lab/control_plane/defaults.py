"""Fills in the fields of a written object that the API server fills in.

Only fields that the programs read are here. Kubernetes' counterparts: pkg/apis/core/v1/defaults.go
and its siblings.
"""

from __future__ import annotations

from copy import deepcopy
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


#: The status of a new object, of the kinds that have a status and a spec.
_STATUS: Final[dict[api.ApiKind, Object]] = {
    api.SERVICES: {"loadBalancer": {}},
    api.PODS: {"phase": "Pending", "qosClass": "BestEffort"},
    api.DEPLOYMENTS: {},
    api.STATEFUL_SETS: {"replicas": 0, "availableReplicas": 0},
    api.REPLICA_SETS: {},
}


def fill(resource: api.ApiKind, found: Object) -> None:
    """Fill in an object's missing fields, and write empty lists as the server returns them."""
    if resource in _STATUS:
        found.setdefault("status", deepcopy(_STATUS[resource]))
    if resource in _STATUS or resource == api.LEASES:
        found.setdefault("spec", {})
    if resource == api.SERVICES:
        _fill_service(found["spec"])
    elif resource == api.PODS:
        _fill_pod_spec(found["spec"])
    elif resource == api.SLICES:
        _fill_slice(found)
    elif resource in _STATUS:
        _fill_workload(found["spec"])


def _fill_service(spec: Object) -> None:
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    for port in spec.get("ports") or []:
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port.get("port"))


def _fill_workload(spec: Object) -> None:
    if spec.get("replicas") is None:
        spec["replicas"] = 1
    _fill_pod_spec(spec.get("template", {}).get("spec", {}))


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
