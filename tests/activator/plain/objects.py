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


def front(annotations: Any = None, **spec: Any) -> Any:
    """Return the Service shop/hello with route ``front``, before hello-pods."""
    texts = {"route": "front", "pods_service": "hello-pods"} | (annotations or {})
    return service(texts, **{"selector": None} | spec)


def named(obj: Any, name: str, **metadata: Any) -> Any:
    """Return the same object under another name, perhaps with other metadata."""
    return obj | {"metadata": obj["metadata"] | {"name": name} | metadata}


def endpoint(ip: str = "10.0.0.1", uid: str = "", **conditions: bool) -> Any:
    """Return an endpoint, ready if no condition is given; each address is a pod of its own."""
    states = {"ready": True, "serving": True, "terminating": False} | conditions
    return {"addresses": [ip], "conditions": states, "targetRef": {"uid": uid or f"uid-{ip}"}}


def activator(ip: str) -> Any:
    """Return an endpoint that is no pod: it has no target."""
    return {name: value for name, value in endpoint(ip).items() if name != "targetRef"}


def slice_of(*endpoints: Any, of: str = "hello", name: str = "", **fields: Any) -> Any:
    """Return an EndpointSlice of a Service, with its one port without a name."""
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": name or f"{of}-x7f2q",
            "namespace": "shop",
            "labels": {
                "kubernetes.io/service-name": of,
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
            },
        },
        "addressType": "IPv4",
        "ports": [{"name": "", "port": 8080, "protocol": "TCP"}],
        "endpoints": list(endpoints),
    } | fields


def takeover_slice(
    *ips: str, of: str = "hello", port: str = "10000", created: str = "2026-02-01T00:00:00Z"
) -> Any:
    """Return the takeover slice of a Service, which lists these activators."""
    obj = slice_of(*map(activator, ips), of=of, name=f"{of}-activator")
    labels = obj["metadata"]["labels"] | {"endpointslice.kubernetes.io/managed-by": "activator.dev"}
    annotations = {"activator.dev/port": port}
    return named(
        obj,
        f"{of}-activator",
        labels=labels,
        annotations=annotations,
        creationTimestamp=created,
    )


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
