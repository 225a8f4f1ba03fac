"""Objects of the tests: a Deployment of the sample pod, and Services for it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

Object = dict[str, Any]

IMAGE = "nginxinc/nginx-unprivileged:1.29-alpine"


def deployment(
    namespace: str,
    name: str = "hello",
    *,
    replicas: int | None = None,
    start_after: float = 0.0,
    image: str = IMAGE,
    probe: Mapping[str, Any] | None = None,
    pre_stop: int = 0,
    arguments: Sequence[str] = (),
) -> Object:
    """Return a Deployment.

    Arguments:
        start_after: seconds until a pod listens.
        probe: its readiness probe; by default a GET each second.
        pre_stop: seconds that a pod serves after it is told to end.
    """
    options = ["--start-after", str(start_after), "--quiet-period", "0.1", *arguments]
    get = {"httpGet": {"path": "/healthz", "port": "http"}, "periodSeconds": 1}
    container: Object = {
        "name": "hello",
        "image": image,
        "args": ["--plain", "--port", "8080", "--admin-port", "8022", *options],
        "ports": [{"name": "http", "containerPort": 8080}],
        "readinessProbe": dict(get if probe is None else probe),
    }
    if pre_stop:
        container["lifecycle"] = {"preStop": {"sleep": {"seconds": pre_stop}}}
    spec: Object = {
        "selector": {"matchLabels": {"app": name}},
        "template": {
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [container], "terminationGracePeriodSeconds": 10},
        },
    }
    if replicas is not None:
        spec["replicas"] = replicas
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def service(
    namespace: str,
    name: str = "hello",
    annotations: Mapping[str, str | int] | None = None,
    *,
    selects: str = "",
    port: Mapping[str, Any] | None = None,
) -> Object:
    """Return a Service that opts in; its workload sleeps after a second without requests.

    Arguments:
        annotations: of the product, without their prefix.
        selects: the application of its pods; by default its own name.
    """
    given = {"enabled": "true", "idle-seconds": 1, **(annotations or {})}
    found = plain_service(namespace, name, selects=selects, port=port)
    found["metadata"]["annotations"] = {
        f"activator.dev/{key}": str(value) for key, value in given.items()
    }
    return found


def plain_service(
    namespace: str, name: str, *, selects: str = "", port: Mapping[str, Any] | None = None
) -> Object:
    """Return a Service that the product ignores."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "selector": {"app": selects or name},
            "ports": [{"name": "http", "port": 80, "targetPort": "http", **(port or {})}],
        },
    }


def definition(
    group: str,
    version: str,
    kind: str,
    *,
    plural: str = "",
    scope: str = "Namespaced",
    columns: Mapping[str, str] | None = None,
) -> Object:
    """Return the CustomResourceDefinition of a kind, without a schema of its fields.

    Arguments:
        plural: by default the kind with an s.
        columns: of ``kubectl get``: the path of each.
    """
    plural = plural or f"{kind.lower()}s"
    shown = [{"name": n, "type": "string", "jsonPath": p} for n, p in (columns or {}).items()]
    found: Object = {
        "name": version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": shown,
        "schema": {
            "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "scope": scope,
            "versions": [found],
        },
    }


def annotations_patch(annotations: Mapping[str, str | None]) -> str:
    """Return a merge patch of annotations of the product, without prefix; None removes one."""
    found = {f"activator.dev/{key}": value for key, value in annotations.items()}
    return json.dumps({"metadata": {"annotations": found}})
