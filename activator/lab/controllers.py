"""The controllers of the toy cluster: each keeps objects of one kind in accord with others."""

from __future__ import annotations

import asyncio
import hashlib
import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Final

from activator.lab import objects
from activator.lab.control_plane import api
from activator.lab.control_plane.plane import ControlPlane
from activator.lab.control_plane.store import Key, ObjectChange, PlaneStore, matches, owners
from activator.lab.objects import Object

HASH_LABEL: Final = "pod-template-hash"
#: The only node.
NODE: Final = "laptop"
MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
CONTROLLER: Final = "endpointslice-controller.k8s.io"
SERVICE_NAME: Final = "kubernetes.io/service-name"
_OURS: Final = {MANAGED_BY: CONTROLLER}
#: Seconds from a change of a pod to the change of its slice: the median of a real control plane.
LAG: Final = 0.009
#: Most seconds between two attempts to write an object that the API server refuses.
_LONGEST_PAUSE: Final = 1.0


class _Controller(ABC):
    """Reconciles the objects that a change concerns. It needs a running loop for its timer.

    Attributes:
        lag: seconds from a change to its effect.
    """

    def __init__(self, plane: ControlPlane, lag: float = 0.0) -> None:
        self.lag = lag
        self._plane = plane
        self._is_held = False
        self._dirty: set[Key] = set()
        self._pause = LAG
        self._timer: asyncio.TimerHandle | None = None
        plane.store.listen(self._on_change)

    def close(self) -> None:
        """Write nothing more."""
        self._plane.store.remove(self._on_change)
        self.hold()

    def hold(self) -> None:
        """Write no object until `resume`."""
        self._is_held = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def resume(self) -> None:
        """Write the objects of all changes since `hold`."""
        self._is_held = False
        self._schedule(self.lag)

    @abstractmethod
    def _concerned(self, change: ObjectChange) -> Iterable[Key]:
        """Return namespaces and names of the objects that a change concerns."""

    @abstractmethod
    def reconcile(self, namespace: str, name: str) -> None:
        """Bring an object, which may be gone, in accord with the others.

        Raises:
            ApiError: the API server refuses a write, as with 409 after a change by another.
        """

    def _on_change(self, change: ObjectChange) -> None:
        self._dirty |= set(self._concerned(change))
        self._schedule(self.lag)

    def _schedule(self, delay: float) -> None:
        if self._dirty and self._timer is None and not self._is_held:
            self._timer = asyncio.get_running_loop().call_later(delay, self._write)

    def _write(self) -> None:
        self._timer = None
        dirty, self._dirty = self._dirty, set()
        refused = set()
        for key in sorted(dirty):
            try:
                self.reconcile(*key)
            except api.ApiError:
                refused.add(key)
        self._pause = min(2 * self._pause, _LONGEST_PAUSE) if refused else LAG
        self._dirty |= refused
        self._schedule(self._pause if refused else self.lag)


class Deployments(_Controller):
    """The deployment controller and the scheduler: creates and deletes pods, rolls out templates.

    A rollout starts one pod more than wanted, and deletes an old pod only when enough pods are
    ready: the defaults of Kubernetes for up to three replicas. There are no ReplicaSets in between.
    Kubernetes' counterpart: pkg/controller/deployment/rolling.go.
    """

    def __init__(self, plane: ControlPlane) -> None:
        super().__init__(plane)
        self._started: Counter[str] = Counter()

    def _concerned(self, change: ObjectChange) -> Iterable[Key]:
        metadata, kind = change.last["metadata"], api.DEPLOYMENTS.kind
        if change.resource == api.DEPLOYMENTS:
            return {(metadata["namespace"], metadata["name"])}
        owners = metadata.get("ownerReferences") or () if change.resource == api.PODS else ()
        return {(metadata["namespace"], each["name"]) for each in owners if each["kind"] == kind}

    def reconcile(self, namespace: str, name: str) -> None:
        found = self._plane.store.get(api.DEPLOYMENTS, namespace, name)
        if found is None:
            return
        version = template_hash(found)
        missing, surplus = changes(self._live(found), found["spec"]["replicas"], version)
        for _ in range(missing):
            self._create(found, version)
        for pod in surplus:
            self._plane.act("delete", api.PODS, namespace, pod["metadata"]["name"])
        self._write_status(found, version)

    def _live(self, found: Object) -> list[Object]:
        """Return the pods of a Deployment that do not terminate."""
        uid, namespace = found["metadata"]["uid"], found["metadata"]["namespace"]
        return self._plane.store.select(
            api.PODS, namespace, lambda pod: objects.is_live(pod) and uid in owners(pod)
        )

    def _create(self, found: Object, version: str) -> None:
        metadata, template = found["metadata"], found["spec"]["template"]
        self._started[metadata["uid"]] += 1
        labels = {**(template["metadata"].get("labels") or {}), HASH_LABEL: version}
        pod = {
            "metadata": {
                "name": f"{metadata['name']}-{self._started[metadata['uid']]}",
                "labels": labels,
                "ownerReferences": [_owner(api.DEPLOYMENTS, found)],
            },
            "spec": {**template["spec"], "nodeName": NODE},
        }
        self._plane.act("create", api.PODS, metadata["namespace"], "", pod)

    def _write_status(self, found: Object, version: str) -> None:
        metadata = found["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        live = self._live(found)
        ready = sum(map(objects.is_ready, live))
        status = {
            "observedGeneration": metadata.get("generation", 1),
            "replicas": len(live),
            "updatedReplicas": sum(_hash_of(pod) == version for pod in live),
            "readyReplicas": ready,
            "availableReplicas": ready,
            "unavailableReplicas": max(0, len(live) - ready),
        }
        status = {key: value for key, value in status.items() if value}
        fresh = self._plane.store.get(api.DEPLOYMENTS, namespace, name)
        if fresh is not None and fresh.get("status") != status:
            self._plane.store.put(api.DEPLOYMENTS, {**fresh, "status": status})


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
    unready = [pod for pod in _expendable(old) if not objects.is_ready(pod)]
    coming = sum(not objects.is_ready(pod) for pod in new)
    surplus += unready[: max(0, len(live) - wanted - coming)]
    serving = [pod for pod in _expendable(old) if objects.is_ready(pod)]
    surplus += serving[: max(0, sum(map(objects.is_ready, live)) - wanted)]
    return missing, surplus


def template_hash(found: Object) -> str:
    """Return a short hash of a Deployment's template."""
    text = json.dumps(found["spec"]["template"], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _expendable(pods: list[Object]) -> list[Object]:
    """Return pods in the order of their deletion: pods that are not ready first, then new pods."""
    newest_first = sorted(pods, key=lambda pod: -number(pod))
    return sorted(newest_first, key=objects.is_ready)


def number(pod: Object) -> int:
    """Return the number at the end of a pod's name, which counts the pods of its owner."""
    return int(pod["metadata"]["name"].rpartition("-")[2])


def _hash_of(pod: Object) -> str:
    return str(pod["metadata"]["labels"].get(HASH_LABEL))


def _owner(resource: api.ApiKind, found: Object) -> Object:
    """Return the reference to an object in the objects that its controller creates."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": found["metadata"]["name"],
        "uid": found["metadata"]["uid"],
        "controller": True,
    }


Tell = Callable[[str, Object], object]


class EndpointSlices(_Controller):
    """The endpointslice controller: lists the pods of each Service in EndpointSlices.

    Conditions of a pod (ready, serving, terminating): true true false while it is ready, and false
    false false while it is not. After its deletion false true true, then false false true.
    Kubernetes' counterpart: staging/src/k8s.io/endpointslice/reconciler.go.
    """

    def __init__(self, plane: ControlPlane, tell: Tell = lambda service, slice_: None) -> None:
        """
        Arguments:
            tell: called with the name of a Service and its written slice; must return at once.
        """
        super().__init__(plane, LAG)
        self._tell = tell

    def _concerned(self, change: ObjectChange) -> Iterable[Key]:
        metadata = change.last["metadata"]
        namespace = metadata.get("namespace", "")
        if change.resource == api.SERVICES:
            return {(namespace, metadata["name"])}
        if change.resource == api.SLICES and change.new is None and matches(_OURS, change.last):
            return {(namespace, metadata["labels"][SERVICE_NAME])}
        if change.resource != api.PODS:
            return ()
        services = self._plane.store.select(
            api.SERVICES, namespace, lambda each: _selects(each, change.last)
        )
        return {(namespace, each["metadata"]["name"]) for each in services}

    def reconcile(self, namespace: str, name: str) -> None:
        store = self._plane.store
        service = store.get(api.SERVICES, namespace, name)
        if service is None or not service["spec"].get("selector"):
            return
        pods = store.select(api.PODS, namespace, lambda pod: _selects(service, pod))
        wanted = {made["metadata"]["name"]: made for made in slices_of(service, pods)}
        ours = store.select(api.SLICES, namespace, partial(matches, {**_OURS, SERVICE_NAME: name}))
        known = {found["metadata"]["name"]: found for found in ours}
        for slice_name, made in wanted.items():
            old = known.get(slice_name)
            if old and all(old[part] == made[part] for part in ("endpoints", "ports")):
                continue
            verb = "update" if old else "create"
            self._tell(name, self._plane.act(verb, api.SLICES, namespace, slice_name, made))
        for slice_name in known.keys() - wanted.keys():
            store.delete(api.SLICES, namespace, slice_name)


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
    serving, terminating = objects.is_ready(pod), "deletionTimestamp" in metadata
    published = bool(service["spec"].get("publishNotReadyAddresses"))
    ready = published or (serving and not terminating)
    return {
        "addresses": [status["podIP"]],
        "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
        "nodeName": pod["spec"]["nodeName"],
        "targetRef": objects.reference(metadata["namespace"], metadata["name"], metadata["uid"]),
    }


def lists(service: str) -> Callable[[Object], bool]:
    """Return the test whether a slice lists endpoints of a Service, by any author."""
    return partial(matches, {SERVICE_NAME: service})


def _slice(
    service: Object, index: int, ports: list[Object] | None, endpoints: list[Object] | None
) -> Object:
    metadata = service["metadata"]
    return {
        "metadata": {
            "name": f"{metadata['name']}-{index + 1}",
            "namespace": metadata["namespace"],
            "labels": {**_OURS, SERVICE_NAME: metadata["name"]},
            "ownerReferences": [{**_owner(api.SERVICES, service), "blockOwnerDeletion": True}],
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


class RevisionEndpoints(_Controller):
    """Lists the pods of each Revision in the Endpoints of its private Service.

    Knative's counterpart: pkg/reconciler/serverlessservice.
    """

    def __init__(self, plane: ControlPlane, tell: Callable[..., object]) -> None:
        """
        Arguments:
            tell: called with the event "listed", an empty name of a pod, and the names of the
                Revision and of its pods; must return at once.
        """
        super().__init__(plane)
        self._tell = tell

    def _concerned(self, change: ObjectChange) -> Iterable[Key]:
        pod = change.last
        if change.resource != api.PODS or not objects.revision_of(pod) or not _ip(pod):
            return ()
        return {(pod["metadata"]["namespace"], objects.revision_of(pod))}

    def reconcile(self, namespace: str, name: str) -> None:
        store = self._plane.store
        revision = store.get(api.REVISIONS, namespace, name)
        if revision is None:
            return
        pods = store.select(api.PODS, namespace, lambda pod: objects.revision_of(pod) == name)
        listed = [_address(pod) for pod in pods if objects.is_live(pod) and _ip(pod)]
        uid = revision["metadata"]["uid"]
        made = objects.private_endpoints(name, listed, namespace=namespace, revision_uid=uid)
        old = store.get(api.ENDPOINTS, namespace, made["metadata"]["name"])
        if old is not None and old.get("subsets") == made.get("subsets"):
            return
        self._plane.act("update", api.ENDPOINTS, namespace, made["metadata"]["name"], made)
        ready, not_ready = (
            [pod.name for pod in listed if pod.ready is is_so] for is_so in (True, False)
        )
        self._tell("listed", "", revision=name, ready=ready, not_ready=not_ready)


def _ip(pod: Object) -> str:
    return str((pod.get("status") or {}).get("podIP", ""))


def _address(pod: Object) -> objects.PodAddress:
    metadata, (port,) = pod["metadata"], pod["spec"]["containers"][0]["ports"]
    return objects.PodAddress(
        _ip(pod), port["containerPort"], metadata["uid"], metadata["name"], objects.is_ready(pod)
    )


class Mirror:
    """Writes each object of some kinds into a folder, and removes the file of a deleted one."""

    def __init__(self, store: PlaneStore, folder: Path, resources: Iterable[api.ApiKind]) -> None:
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
            objects.write_object(self._folder, change.new)
        else:
            objects.file_of(self._folder, change.last).unlink(missing_ok=True)
