"""The controllers of the toy cluster."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from activator.lab.control_plane.plane import ControlPlane
from activator.lab.control_plane.resources import DEPLOYMENTS, PODS, SERVICES, SLICES, ApiKind
from activator.lab.control_plane.status import ApiError
from activator.lab.control_plane.store import ObjectChange, ObjectStore, matches
from activator.lab.objects import file_of, write_object

# Create and delete the pods of Deployments, and roll out changed templates.
#
# A rollout starts one pod more than wanted, and deletes an old pod only when enough pods are
# ready: the defaults of Kubernetes for up to three replicas. There are no ReplicaSets in between.
# Kubernetes' counterpart: pkg/controller/deployment/rolling.go.

# List the pods of each Service in EndpointSlices.
#
# Conditions of a pod (ready, serving, terminating): true true false while it is ready, and false
# false false while it is not. After its deletion false true true, then false false true.
# Kubernetes' counterpart: staging/src/k8s.io/endpointslice/reconciler.go.

Object = dict[str, Any]

HASH_LABEL: Final = "pod-template-hash"
#: The only node.
NODE: Final = "laptop"


class Deployments:
    """The deployment controller and the scheduler. They need a running loop."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._started: Counter[str] = Counter()
        self._dirty: set[tuple[str, str]] = set()
        self._soon: asyncio.Handle | None = None
        plane.store.listen(self._on_change)

    def close(self) -> None:
        """Change nothing more."""
        self._plane.store.remove(self._on_change)
        if self._soon is not None:
            self._soon.cancel()

    def _on_change(self, change: ObjectChange) -> None:
        metadata = change.last["metadata"]
        if change.resource == DEPLOYMENTS:
            self._dirty.add((metadata["namespace"], metadata["name"]))
        elif change.resource == PODS:
            self._dirty |= {
                (metadata["namespace"], owner["name"])
                for owner in metadata.get("ownerReferences") or ()
                if owner["kind"] == DEPLOYMENTS.kind
            }
        if self._dirty and self._soon is None:
            self._soon = asyncio.get_running_loop().call_soon(self._reconcile_all)

    def _reconcile_all(self) -> None:
        self._soon = None
        dirty, self._dirty = self._dirty, set()
        for namespace, name in sorted(dirty):
            found = self._plane.store.get(DEPLOYMENTS, namespace, name)
            if found is not None:
                self._reconcile(found)

    def _reconcile(self, found: Object) -> None:
        metadata, wanted = found["metadata"], found["spec"]["replicas"]
        namespace, version = metadata["namespace"], template_hash(found)
        pods = self._plane.store.select(PODS, namespace, lambda pod: _is_owned(pod, metadata))
        live = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
        missing, surplus = changes(live, wanted, version)
        for _ in range(missing):
            self._create(found, version)
        for pod in surplus:
            self._plane.act("delete", PODS, namespace, pod["metadata"]["name"])
        self._write_status(found, version)

    def _create(self, found: Object, version: str) -> None:
        metadata, template = found["metadata"], found["spec"]["template"]
        self._started[metadata["uid"]] += 1
        labels = {**(template["metadata"].get("labels") or {}), HASH_LABEL: version}
        owner = {
            "apiVersion": DEPLOYMENTS.api_version,
            "kind": DEPLOYMENTS.kind,
            "name": metadata["name"],
            "uid": metadata["uid"],
            "controller": True,
        }
        pod = {
            "metadata": {
                "name": f"{metadata['name']}-{self._started[metadata['uid']]}",
                "labels": labels,
                "ownerReferences": [owner],
            },
            "spec": {**template["spec"], "nodeName": NODE},
        }
        self._plane.act("create", PODS, metadata["namespace"], "", pod)

    def _write_status(self, found: Object, version: str) -> None:
        metadata = found["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        pods = self._plane.store.select(PODS, namespace, lambda pod: _is_owned(pod, metadata))
        live = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
        ready = sum(map(is_ready, live))
        status = {
            "observedGeneration": metadata.get("generation", 1),
            "replicas": len(live),
            "updatedReplicas": sum(_hash_of(pod) == version for pod in live),
            "readyReplicas": ready,
            "availableReplicas": ready,
            "unavailableReplicas": max(0, len(live) - ready),
        }
        status = {key: value for key, value in status.items() if value}
        fresh = self._plane.store.get(DEPLOYMENTS, namespace, name)
        if fresh is not None and fresh.get("status") != status:
            self._plane.store.put(DEPLOYMENTS, {**fresh, "status": status})


def changes(live: list[Object], wanted: int, version: str) -> tuple[int, list[Object]]:
    """Return how many pods to create, and which to delete.

    Arguments:
        live: the pods that do not terminate, in any order.
        wanted: the number of replicas.
        version: the hash of the template.
    """
    new = [pod for pod in live if _hash_of(pod) == version]
    old = [pod for pod in live if _hash_of(pod) != version]
    surge = 1 if old and wanted else 0
    missing = max(0, min(wanted - len(new), wanted + surge - len(live)))
    surplus = _expendable(new)[: max(0, len(new) - wanted)]
    unready = [pod for pod in _expendable(old) if not is_ready(pod)]
    coming = sum(not is_ready(pod) for pod in new)
    surplus += unready[: max(0, len(live) - wanted - coming)]
    serving = [pod for pod in _expendable(old) if is_ready(pod)]
    surplus += serving[: max(0, sum(map(is_ready, live)) - wanted)]
    return missing, surplus


def template_hash(found: Object) -> str:
    """Return a short hash of a Deployment's template."""
    text = json.dumps(found["spec"]["template"], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _expendable(pods: list[Object]) -> list[Object]:
    """Return pods in the order of their deletion: pods that are not ready first, then new pods."""
    newest_first = sorted(pods, key=lambda pod: -_number(pod))
    return sorted(newest_first, key=is_ready)


def _number(pod: Object) -> int:
    return int(pod["metadata"]["name"].rpartition("-")[2])


def _hash_of(pod: Object) -> str:
    return str(pod["metadata"]["labels"].get(HASH_LABEL))


def _is_owned(pod: Object, owner: Object) -> bool:
    references = pod["metadata"].get("ownerReferences") or ()
    return any(each["uid"] == owner["uid"] for each in references)


Key = tuple[str, str]

MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
CONTROLLER: Final = "endpointslice-controller.k8s.io"
SERVICE_NAME: Final = "kubernetes.io/service-name"
#: Seconds from a change of a pod to the change of its slice: the median of a real control plane.
LAG: Final = 0.009
#: Most seconds between two attempts to write a slice that the API server refuses.
_LONGEST_PAUSE: Final = 1.0

Tell = Callable[[str, Object], object]


class EndpointSlices:
    """The endpointslice controller. It needs a running loop for its timers.

    Attributes:
        lag: seconds from a change of a pod to the change of its slice.
    """

    def __init__(self, plane: ControlPlane, tell: Tell = lambda service, slice_: None) -> None:
        """
        Arguments:
            tell: called with the name of a Service and its written slice; must return at once.
        """
        self.lag = LAG
        self._plane = plane
        self._tell = tell
        self._is_held = False
        self._dirty: set[Key] = set()
        self._pause = LAG
        self._timer: asyncio.TimerHandle | None = None
        plane.store.listen(self._on_change)

    def close(self) -> None:
        """Write nothing more."""
        self._plane.store.remove(self._on_change)
        self._is_held = True
        if self._timer is not None:
            self._timer.cancel()

    def hold(self) -> None:
        """Write no slice until `resume`."""
        self._is_held = True

    def resume(self) -> None:
        """Write the slices of all changes since `hold`."""
        self._is_held = False
        self._schedule()

    def _on_change(self, change: ObjectChange) -> None:
        metadata = change.last["metadata"]
        namespace = metadata.get("namespace", "")
        if change.resource == SERVICES:
            self._dirty.add((namespace, metadata["name"]))
        elif change.resource == PODS:
            self._dirty |= {
                (namespace, found["metadata"]["name"])
                for found in self._plane.store.select(SERVICES, namespace, _any)
                if _selects(found, change.last)
            }
        elif change.resource == SLICES and _is_ours(change.last) and change.new is None:
            self._dirty.add((namespace, metadata["labels"][SERVICE_NAME]))
        self._schedule()

    def _schedule(self, delay: float | None = None) -> None:
        if self._dirty and self._timer is None and not self._is_held:
            delay = self.lag if delay is None else delay
            self._timer = asyncio.get_running_loop().call_later(delay, self._write)

    def _write(self) -> None:
        self._timer = None
        if self._is_held:
            return
        dirty, self._dirty = self._dirty, set()
        refused = set()
        for namespace, name in sorted(dirty):
            found = self._plane.store.get(SERVICES, namespace, name)
            if found is not None and found["spec"].get("selector"):
                try:
                    self._reconcile(found)
                except ApiError:  # as 409: another component has changed or made the object
                    refused.add((namespace, name))
        self._pause = min(2 * self._pause, _LONGEST_PAUSE) if refused else self.lag
        self._dirty |= refused
        self._schedule(self._pause)

    def _reconcile(self, service: Object) -> None:
        metadata, store = service["metadata"], self._plane.store
        namespace = metadata["namespace"]
        pods = store.select(PODS, namespace, lambda pod: _selects(service, pod))
        wanted = {made["metadata"]["name"]: made for made in slices_of(service, pods)}
        known = {
            found["metadata"]["name"]: found
            for found in store.select(SLICES, namespace, lambda each: _belongs(each, metadata))
        }
        for name, made in wanted.items():
            if name not in known:
                self._tell(metadata["name"], self._plane.act("create", SLICES, namespace, "", made))
            elif any(known[name][part] != made[part] for part in ("endpoints", "ports")):
                merged = {**known[name], "endpoints": made["endpoints"], "ports": made["ports"]}
                written = self._plane.act("update", SLICES, namespace, name, merged)
                self._tell(metadata["name"], written)
        for name in known.keys() - wanted.keys():
            store.delete(SLICES, namespace, name)


def slices_of(service: Object, pods: Iterable[Object]) -> list[Object]:
    """Return the slices of a Service: one for each set of port numbers of its pods.

    Arguments:
        service: with a selector.
        pods: the pods that it selects.
    """
    by_ports: dict[tuple[int, ...], list[Object]] = {}
    for pod in pods:
        if (pod.get("status") or {}).get("podIP"):
            numbers = tuple(_port_number(port, pod) for port in service["spec"]["ports"])
            by_ports.setdefault(numbers, []).append(pod)
    if not by_ports:  # the controller keeps one slice without endpoints and ports
        return [_slice(service, 0, None, None)]
    return [
        _slice(service, index, _ports(service, numbers), [endpoint(service, pod) for pod in found])
        for index, (numbers, found) in enumerate(sorted(by_ports.items(), key=lambda each: each[0]))
    ]


def endpoint(service: Object, pod: Object) -> Object:
    """Return the endpoint of a pod with an address, with its three conditions."""
    metadata, status = pod["metadata"], pod["status"]
    serving, terminating = is_ready(pod), "deletionTimestamp" in metadata
    ready = serving and not terminating
    if service["spec"].get("publishNotReadyAddresses"):
        ready = True
    return {
        "addresses": [status["podIP"]],
        "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
        "nodeName": pod["spec"]["nodeName"],
        "targetRef": {
            "kind": "Pod",
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata["uid"],
        },
    }


def is_ready(pod: Object) -> bool:
    """Return whether a pod's condition Ready is true."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _slice(
    service: Object, index: int, ports: list[Object] | None, endpoints: list[Object] | None
) -> Object:
    metadata = service["metadata"]
    owner = {
        "apiVersion": "v1",
        "kind": "Service",
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "metadata": {
            "name": f"{metadata['name']}-{index + 1}",
            "namespace": metadata["namespace"],
            "labels": {SERVICE_NAME: metadata["name"], MANAGED_BY: CONTROLLER},
            "ownerReferences": [owner],
        },
        "addressType": "IPv4",
        "ports": ports,
        "endpoints": endpoints,
    }


def _ports(service: Object, numbers: tuple[int, ...]) -> list[Object]:
    return [
        {"name": port.get("name", ""), "port": number, "protocol": "TCP"}
        for port, number in zip(service["spec"]["ports"], numbers, strict=True)
    ]


def _port_number(port: Object, pod: Object) -> int:
    """Return the number of a Service's port in a pod: of the target's name, or the target."""
    target = port["targetPort"]
    for container in pod["spec"]["containers"]:
        for known in container.get("ports") or ():
            if known.get("name") == target:
                return int(known["containerPort"])
    return int(target)


def _selects(service: Object, pod: Object) -> bool:
    selector = service["spec"].get("selector")
    return bool(selector) and matches(selector, pod)


def _is_ours(slice_: Object) -> bool:
    labels = slice_["metadata"].get("labels") or {}
    return labels.get(MANAGED_BY) == CONTROLLER


def _belongs(slice_: Object, service: Object) -> bool:
    return _is_ours(slice_) and slice_["metadata"]["labels"].get(SERVICE_NAME) == service["name"]


def _any(found: Object) -> bool:
    return True


# Copy objects of an API server into a folder of manifests, for ``activator local``.


class Mirror:
    """Writes each object of some kinds into a folder, and removes the file of a deleted one."""

    def __init__(self, store: ObjectStore, folder: Path, resources: Iterable[ApiKind]) -> None:
        self._store = store
        self._folder = folder
        self._resources = frozenset(resources)
        store.listen(self._on_change)

    def close(self) -> None:
        """Write nothing more; the files stay."""
        self._store.remove(self._on_change)

    def _on_change(self, change: ObjectChange) -> None:
        if change.resource not in self._resources:
            return
        if change.new is not None:
            write_object(self._folder, change.new)
        else:
            file_of(self._folder, change.last).unlink(missing_ok=True)
