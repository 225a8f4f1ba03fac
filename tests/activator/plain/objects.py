"""Objects of plain Kubernetes, as the API server sends them."""

from __future__ import annotations

from typing import Any


def service(annotations: Any = None, **spec: Any) -> Any:
    """Return the Service shop/hello, which opts in; underscores of annotations are hyphens."""
    texts = {"enabled": "true"} | (annotations or {})
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "hello",
            "namespace": "shop",
            "uid": "s1",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": {f"activator.dev/{k.replace('_', '-')}": v for k, v in texts.items()},
        },
        "spec": {
            "clusterIP": "10.96.0.7",
            "selector": {"app": "hello"},
            "ports": [{"port": 80, "targetPort": 8080, "protocol": "TCP"}],
        }
        | spec,
    }


def container(name: str = "app", port: int | None = 8080, **fields: Any) -> Any:
    """Return a container that declares the port ``http``."""
    ports = [] if port is None else [{"name": "http", "containerPort": port}]
    return {"name": name, "ports": ports, **fields}


def deployment(*containers: Any, init: Any = None, **spec: Any) -> Any:
    """Return the Deployment shop/hello, with one container if none is given."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "hello", "namespace": "shop", "uid": "d1"},
        "spec": {
            "replicas": 0,
            "template": {
                "metadata": {"labels": {"app": "hello", "tier": "web"}},
                "spec": {
                    "containers": list(containers) or [container()],
                    "initContainers": init,
                },
            },
        }
        | spec,
    }
