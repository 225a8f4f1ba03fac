"""Make the objects of a plain service: a Deployment and its Service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Object = dict[str, Any]

#: The name of the pods' port. Its number is that of the pool of addresses.
PORT = "http"
#: The prefix of the activator's annotations.
PREFIX = "activator.dev/"

#: A readiness probe of the sample application's health page.
HTTP_PROBE: Object = {"httpGet": {"path": "/healthz", "port": PORT}}
#: A readiness probe that only connects.
TCP_PROBE: Object = {"tcpSocket": {"port": PORT}}


def deployment(
    name: str,
    *,
    namespace: str = "default",
    replicas: int = 0,
    port: int = 8012,
    probe: Object | None = None,
    arguments: Sequence[str] = (),
    template_labels: Mapping[str, str] | None = None,
) -> Object:
    """Return a Deployment of sample pods.

    Arguments:
        port: the number of the pods' port.
        probe: the readiness probe; None for no probe.
        arguments: options of :mod:`activator.lab.pod`, as ``--start-after=1``.
        template_labels: further labels of the pods; a change of them is a rollout.
    """
    container: Object = {
        "name": "app",
        "image": "example.com/sample",
        "args": list(arguments),
        "ports": [{"name": PORT, "containerPort": port}],
    }
    if probe is not None:
        container["readinessProbe"] = probe
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": {**labels, **(template_labels or {})}},
                "spec": {"containers": [container]},
            },
        },
    }


def service(
    name: str, *, namespace: str = "default", annotations: Mapping[str, str] | None = None
) -> Object:
    """Return the Service of a Deployment of the same name.

    Arguments:
        annotations: of the activator, without their prefix; None for a Service without them.
    """
    found = {f"{PREFIX}{key}": value for key, value in (annotations or {}).items()}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace, "annotations": found},
        "spec": {
            "selector": {"app": name},
            "ports": [{"name": PORT, "port": 80, "targetPort": PORT}],
        },
    }
