"""Makes the objects of the API group ``external.metrics.k8s.io``, which HPAs read.

Pure. Sources: k8s.io/metrics pkg/apis/external_metrics v1beta1; the discovery objects are meta/v1's
APIGroupList, APIGroup and APIResourceList, as an API server sends them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from activator.scale.publishing.board import Workload
from activator.scale.reports.load import Name

GROUP: Final = "external.metrics.k8s.io"
GROUP_VERSION: Final = f"{GROUP}/v1beta1"
#: Requests in flight and queued of one Service; the label ``service`` names it.
METRIC: Final = "activator_requests"
#: The label that names the Service, in the namespace of the HPA.
SERVICE: Final = "service"

Object = Mapping[str, Any]

_VERSION: Final = {"groupVersion": GROUP_VERSION, "version": "v1beta1"}


def group_list() -> Object:
    """Return the object of ``/apis``."""
    group = {name: value for name, value in group_object().items() if name not in _TYPE}
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [group]}


_TYPE: Final = ("kind", "apiVersion")


def group_object() -> Object:
    """Return the object of ``/apis/external.metrics.k8s.io``."""
    return {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": GROUP,
        "versions": [_VERSION],
        "preferredVersion": _VERSION,
    }


def resource_list() -> Object:
    """Return the object of ``/apis/external.metrics.k8s.io/v1beta1``."""
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": GROUP_VERSION,
        "resources": [
            {
                "name": METRIC,
                "singularName": "",
                "namespaced": True,
                "kind": "ExternalMetricValueList",
                "verbs": ["get"],
            }
        ],
    }


def openapi_v2() -> Object:
    """Return the object of ``/openapi/v2``: no path, since only HPAs read this group.

    Source: kube-aggregator's pkg/controllers/openapi. Without the page, kube-apiserver logs an
    error each minute or so.
    """
    info = {"title": "activator scale", "version": _VERSION["version"]}
    return {"swagger": "2.0", "info": info, "paths": {}, "definitions": {}}


def openapi_v3() -> Object:
    """Return the object of ``/openapi/v3``: no group has a document."""
    return {"paths": {}}


def value_list(workloads: Iterable[tuple[Name, Workload]], wall: datetime) -> Object:
    """Return the values of Services.

    Arguments:
        wall: the time of day.
    """
    timestamp = wall.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "kind": "ExternalMetricValueList",
        "apiVersion": GROUP_VERSION,
        "metadata": {},
        "items": [
            {
                "metricName": METRIC,
                "metricLabels": {SERVICE: name.name},
                "timestamp": timestamp,
                "value": quantity(workload.shown),
            }
            for name, workload in workloads
        ],
    }


def quantity(value: float) -> str:
    """Return a number of at least 0 as a Quantity in canonical form, with three decimals."""
    thousandths = round(value * 1000)
    whole, rest = divmod(thousandths, 1000)
    return f"{thousandths}m" if rest else str(whole)


def status(code: int, reason: str, message: str) -> Object:
    """Return an error as an API server sends it.

    Arguments:
        reason: as in meta/v1's StatusReason.
    """
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }
