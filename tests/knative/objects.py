"""The objects of the Kubernetes API that Knative's tests use, as its controllers write them.

Each test sets only the fields that matter to it. All other fields are as in
pkg/activator/net/revision_backends_test.go and pkg/reconciler/serverlessservice/resources.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

Object = dict[str, Any]

NAMESPACE = "real-namespace"
NAME = "real-name"
#: How Endpoints, Services and Revisions name the two protocols.
HTTP1, H2C = "http1", "h2c"
PORT_NAMES = {HTTP1: "http", H2C: "http2"}


class Address(NamedTuple):
    """An IP address and a port."""

    ip: str
    port: int


def revision(
    name: str = NAME,
    namespace: str = NAMESPACE,
    *,
    cc: int | None = None,
    protocol: str = HTTP1,
    container: Mapping[str, Any] | None = None,
    sidecars: Iterable[Mapping[str, Any]] = (),
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> Object:
    """Return a Revision.

    Arguments:
        cc: ``containerConcurrency``; absent if None.
        container: further fields of the serving container, for example its probes.
        sidecars: further containers.
        labels: replace the labels that name service and configuration.
        spec: further fields of the specification. ``timeoutSeconds`` is 300 unless given, and
            absent if None.
    """
    serving = {
        "name": "user-container",
        "image": "example.com/app",
        "ports": [{"name": protocol, "containerPort": 8080}],
        **(container or {}),
    }
    given = {"timeoutSeconds": 300, **spec}
    if cc is not None:
        given["containerConcurrency"] = cc
    usual = {
        "serving.knative.dev/service": f"service-{name}",
        "serving.knative.dev/configuration": f"config-{name}",
    }
    return {
        "apiVersion": "serving.knative.dev/v1",
        "kind": "Revision",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-of-{name}",
            "labels": dict(usual if labels is None else labels),
            "annotations": dict(annotations or {}),
        },
        "spec": {
            **{key: value for key, value in given.items() if value is not None},
            "containers": [serving, *map(dict, sidecars)],
        },
    }


def private(
    ready: Iterable[Address] = (),
    not_ready: Iterable[Address] = (),
    name: str = NAME,
    namespace: str = NAMESPACE,
    *,
    port_name: str = "http",
) -> Object:
    """Return the private Endpoints of a revision: its pods, one subset for each port."""
    labels = {
        "serving.knative.dev/revisionUID": f"uid-of-{name}",
        "serving.knative.dev/revision": name,
        "networking.internal.knative.dev/serviceType": "Private",
    }
    subsets: dict[int, Object] = {}
    for key, addresses in (("addresses", ready), ("notReadyAddresses", not_ready)):
        for ip, port in addresses:
            ports = [{"name": port_name, "port": port, "protocol": "TCP"}]
            subset = subsets.setdefault(port, {"ports": ports})
            subset.setdefault(key, []).append({"ip": ip})
    return _endpoints(f"{name}-private", namespace, labels, list(subsets.values()))


def public(
    ips: Iterable[str],
    name: str = NAME,
    namespace: str = NAMESPACE,
    *,
    port_name: str = "http",
) -> Object:
    """Return the public Endpoints of a revision: the activators in front of it."""
    labels = {
        "serving.knative.dev/revision": name,
        "networking.internal.knative.dev/serviceType": "Public",
    }
    port = {"name": port_name, "port": 8013 if port_name == "http2" else 8012, "protocol": "TCP"}
    subset = {"addresses": [{"ip": ip} for ip in ips], "ports": [port]}
    return _endpoints(name, namespace, labels, [subset])


def _endpoints(name: str, namespace: str, labels: Object, subsets: list[Object]) -> Object:
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-of-{name}", "labels": labels}
    found: Object = {"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata}
    if subsets:  # Kubernetes omits an empty field
        found["subsets"] = subsets
    return found


def private_service(
    cluster_ip: Address,
    name: str = NAME,
    namespace: str = NAMESPACE,
    *,
    called: str = "",
    port_name: str = "http",
) -> Object:
    """Return the private Service of a revision.

    Arguments:
        called: the name of the Service, if it does not follow from the revision's.
    """
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": called or private_name(name),
            "namespace": namespace,
            "uid": f"uid-of-service-{name}",
            "labels": {
                "serving.knative.dev/revision": name,
                "networking.internal.knative.dev/serviceType": "Private",
            },
        },
        "spec": {
            "clusterIP": cluster_ip.ip,
            "ports": [{"name": port_name, "port": cluster_ip.port, "protocol": "TCP"}],
        },
    }


def private_name(revision_name: str) -> str:
    """Return the name of a revision's private Service (knative.dev/pkg/kmeta ChildName)."""
    if len(revision_name) + len("-private") <= 63:
        return f"{revision_name}-private"
    digest = hashlib.md5(revision_name.encode(), usedforsecurity=False).hexdigest()
    return f"{revision_name[:23]}{digest}-private"


SYSTEM_NAMESPACE = "knative-serving"


def config_map(
    name: str, data: Mapping[str, str], labels: Mapping[str, str] | None = None
) -> Object:
    """Return a ConfigMap of the system namespace."""
    metadata = {"name": name, "namespace": SYSTEM_NAMESPACE, "uid": f"uid-of-{name}"}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {**metadata, "labels": dict(labels or {})},
        "data": dict(data),
    }


def secret(name: str, data: Mapping[str, bytes]) -> Object:
    """Return a Secret of the system namespace."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": SYSTEM_NAMESPACE, "uid": f"uid-of-{name}"},
        "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
    }
