"""The ``scale`` subresource: reads and sets the replicas of an object.

Kubernetes' counterpart: pkg/registry/apps/deployment/storage/storage.go, and for custom resources
staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresource/etcd.go.
"""

from __future__ import annotations

from typing import Any, Final

from activator.lab.control_plane.resources import ApiKind
from activator.lab.control_plane.status import ApiError, invalid_named, undecodable_patch
from activator.lab.control_plane.validation import unmarshal

Object = dict[str, Any]

#: The metadata of an object that its Scale has too.
_SHARED: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(resource: ApiKind, found: Object, *, for_patch: bool = False) -> Object:
    """Return an object's Scale. Replicas of 0 are left out, as the API server does.

    Arguments:
        for_patch: accept a custom resource without replicas.

    Raises:
        ApiError: a custom resource has no replicas.
    """
    spec, status = found.get("spec") or {}, found.get("status") or {}
    if resource.is_custom and "replicas" not in spec and not for_patch:
        text = 'the spec replicas field ".spec.replicas" does not exist'
        details = {"causes": [{"message": text}]}
        raise ApiError(500, "InternalError", f"Internal error occurred: {text}", details)
    metadata = found["metadata"]
    replicas = spec.get("replicas") or 0
    labels = (spec.get("selector") or {}).get("matchLabels") or {}
    selector = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: metadata[name] for name in _SHARED if name in metadata},
        "spec": {"replicas": replicas} if replicas else {},
        "status": {
            "replicas": status.get("replicas", 0),
            **({"selector": selector} if selector else {}),
        },
    }


def replicas_of(scale: Object) -> int:
    """Return the replicas that a written Scale requests.

    Raises:
        ApiError: they are no number, or below 0.
    """
    replicas = (scale.get("spec") or {}).get("replicas")
    if replicas is None:
        return 0
    if isinstance(replicas, bool) or not isinstance(replicas, int):
        raise undecodable_patch(unmarshal(replicas, "ScaleSpec.spec.replicas", "int32"))
    if replicas < 0:
        name = scale["metadata"].get("name", "")
        why = f"spec.replicas: Invalid value: {replicas}: must be greater than or equal to 0"
        raise invalid_named("Scale", "autoscaling", name, [why])
    return replicas
