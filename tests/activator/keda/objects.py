"""Objects of the KEDA HTTP add-on, as the API server sends them."""

from __future__ import annotations

from typing import Any


def metadata(name: str, **more: Any) -> Any:
    """Return the metadata of an object in the namespace shop."""
    created = {"creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"name": name, "namespace": "shop", "uid": f"uid-{name}", **created, **more}


def scaled(name: str = "web", *hosts: str, **spec: Any) -> Any:
    """Return an HTTPScaledObject for port 80 of the Service hello."""
    return {
        "apiVersion": "http.keda.sh/v1alpha1",
        "kind": "HTTPScaledObject",
        "metadata": metadata(name),
        "spec": {
            "hosts": list(hosts or ("a.com",)),
            "scaleTargetRef": {"service": "hello", "port": 80},
            **spec,
        },
    }


def route(name: str = "web", *hosts: str, **spec: Any) -> Any:
    """Return an InterceptorRoute for port 80 of the Service hello."""
    return {
        "apiVersion": "http.keda.sh/v1beta1",
        "kind": "InterceptorRoute",
        "metadata": metadata(name),
        "spec": {
            "target": {"service": "hello", "port": 80},
            "rules": [{"hosts": list(hosts or ("a.com",))}],
            "scalingMetric": {"concurrency": {"targetValue": 5}},
            **spec,
        },
    }


def target(name: str = "hello", *ports: Any, **spec: Any) -> Any:
    """Return a Service without annotations, with these ports, else 80."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(name),
        "spec": {"ports": list(ports) or [{"port": 80, "targetPort": 8080}], **spec},
    }


def body(name: str = "files", *, label: str = "true", **data: str) -> Any:
    """Return a ConfigMap of bodies; double underscores in keys are dots."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(name, labels={"http.keda.sh/response-body": label}),
        "data": {key.replace("__", "."): text for key, text in data.items()},
    }
