"""Create and delete the pods of Deployments, and roll out changed templates.

A rollout starts one pod more than wanted, and deletes an old pod only when enough pods are ready:
the defaults of Kubernetes for up to three replicas. There are no ReplicaSets in between.
Kubernetes' counterpart: pkg/controller/deployment/rolling.go.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from typing import Any, Final

from activator.lab.control_plane.plane import ControlPlane
from activator.lab.control_plane.resources import DEPLOYMENTS, PODS
from activator.lab.control_plane.store import ObjectChange
from activator.lab.plain.endpoint_slices import is_ready

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
