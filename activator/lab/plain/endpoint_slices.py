"""List the pods of each Service in EndpointSlices.

Conditions of a pod (ready, serving, terminating): true true false while it is ready, and false
false false while it is not. After its deletion false true true, then false false true.
Kubernetes' counterpart: staging/src/k8s.io/endpointslice/reconciler.go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final

from activator.lab.control_plane.plane import ControlPlane
from activator.lab.control_plane.resources import PODS, SERVICES, SLICES
from activator.lab.control_plane.selectors import matches
from activator.lab.control_plane.status import ApiError
from activator.lab.control_plane.store import ObjectChange

Object = dict[str, Any]
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
            numbers = tuple(_number(port, pod) for port in service["spec"]["ports"])
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


def _number(port: Object, pod: Object) -> int:
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
