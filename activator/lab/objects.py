"""Make the Kubernetes objects of services, and write them into a folder of manifests.

They have the shape that Kubernetes and Knative's ServerlessService controller give them. Files are
replaced atomically, so a reader never sees half of one.
Knative's counterpart: pkg/reconciler/serverlessservice.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import uuid4

Object = dict[str, Any]


class PodAddress(NamedTuple):
    """One pod for an Endpoints object; an empty uid leaves ``targetRef`` out."""

    ip: str
    port: int
    uid: str = ""
    name: str = ""
    ready: bool = False


def _object(version: str, kind: str, name: str, namespace: str = "default", **more: Any) -> Object:
    """Return an object without a spec; ``more`` are further fields of its metadata."""
    metadata = {"name": name, "namespace": namespace, **more}
    return {"apiVersion": version, "kind": kind, "metadata": metadata}


def revision(
    name: str,
    *,
    namespace: str = "default",
    container_concurrency: int = 0,
    timeout: int = 300,
    exec_readiness: bool = False,
    readiness_port: int = 0,
    sidecar: Object | None = None,
    uid: str = "",
    annotations: Mapping[str, str] | None = None,
    h2c: bool = False,
) -> Object:
    """Return a Revision with one or two containers.

    Arguments:
        container_concurrency: requests that one pod may have at a time; 0 is no limit.
        timeout: seconds from a request's arrival to the end of its response.
        exec_readiness: give the container an exec readiness probe, which queue-proxy cannot run.
        readiness_port: the port of the readiness probe; 0 for the port of requests.
        sidecar: fields of a second container, without name and image; None for no such container.
        uid: the object's uid; a new one if empty.
        h2c: the pods accept HTTP/2.
    """
    probe: Object = {"successThreshold": 1, "tcpSocket": {"port": 0}}
    if exec_readiness:
        probe = {"exec": {"command": ["/ready"]}, "periodSeconds": 1}
    elif readiness_port:
        probe = {"httpGet": {"path": "/ready", "port": readiness_port}}
    name_of_port = "h2c" if h2c else "http1"
    container = {
        "name": "user-container",
        "image": "example.com/sample",
        "ports": [{"name": name_of_port, "containerPort": 8080, "protocol": "TCP"}],
        "readinessProbe": probe,
    }
    containers: list[Object] = [container]
    if sidecar is not None:
        containers.append({"name": "sidecar", "image": "example.com/sidecar", **sidecar})
    labels = {
        "serving.knative.dev/service": name,
        "serving.knative.dev/configuration": name,
        "serving.knative.dev/configurationGeneration": "1",
    }
    more = {"uid": uid or str(uuid4()), "labels": labels, "annotations": dict(annotations or {})}
    spec = {
        "containerConcurrency": container_concurrency,
        "timeoutSeconds": timeout,
        "containers": containers,
    }
    return {**_object("serving.knative.dev/v1", "Revision", name, namespace, **more), "spec": spec}


def private_endpoints(
    name: str,
    pods: Iterable[PodAddress],
    *,
    namespace: str = "default",
    revision_uid: str = "",
    h2c: bool = False,
) -> Object:
    """Return the Endpoints of a revision's private Service, with a subset for each port.

    Arguments:
        h2c: the pods accept HTTP/2.
    """
    known = list(pods)
    labels = {
        "app": name,
        "networking.internal.knative.dev/serverlessservice": name,
        "networking.internal.knative.dev/serviceType": "Private",
        REVISION: name,
        "serving.knative.dev/revisionUID": revision_uid or f"uid-of-{name}",
        "serving.knative.dev/service": name,
    }
    found = _object("v1", "Endpoints", f"{name}-private", namespace, labels=labels)
    if known:  # Kubernetes leaves the field out rather than empty
        ports = sorted({pod.port for pod in known})
        found["subsets"] = [_subset(namespace, port, known, h2c) for port in ports]
    return found


def _subset(namespace: str, port: int, pods: list[PodAddress], h2c: bool) -> Object:
    subset: Object = {}
    for key, ready in (("addresses", True), ("notReadyAddresses", False)):
        listed = [pod for pod in pods if (pod.port, pod.ready) == (port, ready)]
        if listed:
            subset[key] = [_address(namespace, pod) for pod in listed]
    name = "http2" if h2c else "http"
    subset["ports"] = [{"name": name, "port": port, "protocol": "TCP"}]
    return subset


def _address(namespace: str, pod: PodAddress) -> Object:
    address: Object = {"ip": pod.ip, "nodeName": "laptop"}
    if pod.uid:
        address["targetRef"] = reference(namespace, pod.name, pod.uid)
    return address


def reference(namespace: str, pod: str, uid: str) -> Object:
    """Return the reference to a pod in the list of a Service's endpoints."""
    return {"kind": "Pod", "name": pod, "namespace": namespace, "uid": uid}


def write_object(folder: Path, found: Object) -> Path:
    """Write an object into the folder, in a file named after it; return the file's path.

    A rename replaces an older file of the object. The activator ignores the hidden temporary
    file that exists before the rename.

    Raises:
        OSError: the folder cannot be written to.
    """
    target = file_of(folder, found)
    temporary = folder / f".{target.name}.{os.getpid()}.tmp"
    temporary.write_text(json.dumps(found, indent=2) + "\n")
    temporary.replace(target)
    return target


def file_of(folder: Path, found: Object) -> Path:
    """Return the path of an object's file in a folder."""
    metadata = found["metadata"]
    return folder / f"{metadata['namespace']}.{metadata['name']}.{found['kind'].lower()}.json"


#: The name of the pods' port. Its number is that of the pool of addresses.
PORT = "http"
#: The prefix of the activator's annotations.
PREFIX = "activator.dev/"
#: The label of a pod, and of Endpoints, with the name of their Revision.
REVISION = "serving.knative.dev/revision"

#: A readiness probe of the sample application's health page.
HTTP_PROBE: Object = {"httpGet": {"path": "/healthz", "port": PORT}}
#: A readiness probe that only connects.
TCP_PROBE: Object = {"tcpSocket": {"port": PORT}}


#: The CPU of a container that a waker may lower.
CPU: Final = {"requests": {"cpu": "500m"}, "limits": {"cpu": "1"}}


def deployment(
    name: str, *, replicas: int = 0, probe: Object | None = None, arguments: Sequence[str] = ()
) -> Object:
    """Return a Deployment of sample pods.

    Arguments:
        probe: the readiness probe; None for no probe.
        arguments: options of :mod:`activator.lab.pod`, as ``--start-after=1``.
    """
    container: Object = {
        "name": "app",
        "image": "example.com/sample",
        "args": list(arguments),
        "ports": [{"name": PORT, "containerPort": 8012}],
    }
    if probe is not None:
        container["readinessProbe"] = probe
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {**_object("apps/v1", "Deployment", name), "spec": spec}


def service(name: str, *, annotations: Mapping[str, str] | None = None) -> Object:
    """Return the Service of a Deployment of the same name.

    Arguments:
        annotations: of the activator, without their prefix; None for a Service without them.
    """
    found = {f"{PREFIX}{key}": value for key, value in (annotations or {}).items()}
    ports = [{"name": PORT, "port": 80, "targetPort": PORT}]
    spec = {"selector": {"app": name}, "ports": ports}
    return {**_object("v1", "Service", name, annotations=found), "spec": spec}


def is_ready(pod: Object) -> bool:
    """Return whether a pod's condition Ready is true."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def is_live(pod: Object) -> bool:
    """Return whether a pod does not terminate."""
    return "deletionTimestamp" not in pod["metadata"]


def revision_of(pod: Object) -> str:
    """Return the name of a pod's Revision; empty for none."""
    return str((pod["metadata"].get("labels") or {}).get(REVISION, ""))
