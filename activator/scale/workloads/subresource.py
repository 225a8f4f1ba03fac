"""Requests to a ``scale`` subresource, and the meaning of its responses.

Pure. Sources: autoscaling/v1 Scale in the Kubernetes API reference; the texts and statuses were
seen on API server 1.36.
"""

from __future__ import annotations

import json
from enum import Enum
from typing import Final, NamedTuple

from activator.objects.fields import root

#: What a role must allow: the scaler reads the subresource before it changes it.
VERBS: Final = ("get", "patch")
MOST_REPLICAS: Final = 2**31 - 1


class Resource(NamedTuple):
    """A kind of objects with a ``scale`` subresource; ``plural`` as in API paths."""

    group: str
    version: str
    kind: str
    plural: str

    def scale_path(self, namespace: str, name: str) -> str:
        """Return the path of an object's subresource."""
        root_path = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        return f"{root_path}/namespaces/{namespace}/{self.plural}/{name}/scale"


#: The kinds that need no discovery.
KNOWN: Final = {
    "deployment": Resource("apps", "v1", "Deployment", "deployments"),
    "statefulset": Resource("apps", "v1", "StatefulSet", "statefulsets"),
    "replicaset": Resource("apps", "v1", "ReplicaSet", "replicasets"),
    "replicationcontroller": Resource("", "v1", "ReplicationController", "replicationcontrollers"),
}


class Scale(NamedTuple):
    """A Scale object.

    Attributes:
        replicas: ``spec.replicas``; an absent field is 0.
        version, uid: resourceVersion and uid of the scaled object; a PATCH must send both.
    """

    replicas: int
    version: str
    uid: str


def parse(obj: object) -> Scale:
    """Return a Scale object's fields.

    Raises:
        ManifestError: a field is wrong.
    """
    scale = root(obj, "Scale")
    return Scale(
        scale["spec"]["replicas"].whole(minimum=0, maximum=MOST_REPLICAS, default=0),
        scale["metadata"]["resourceVersion"].text(),
        scale["metadata"]["uid"].text(),
    )


def patch(known: Scale, replicas: int) -> bytes:
    """Return the body of a PATCH, which fails with 409 if the object has changed meanwhile."""
    metadata = {"resourceVersion": known.version, "uid": known.uid}
    wanted = {
        "metadata": {name: value for name, value in metadata.items() if value},
        "spec": {"replicas": replicas},
    }
    return json.dumps(wanted, separators=(",", ":")).encode()


class Problem(Enum):
    """What a failed request means for the workload; the value is the reason that people read."""

    CONFLICT = "conflict"
    FORBIDDEN = "scale-forbidden"
    MISSING = "scale-target-missing"
    UNSET = "replicas-unset"
    REFUSED = "scale-refused"
    UNAVAILABLE = "api-server-unavailable"


#: The API server refuses a change, though it may allow reads.
REFUSALS: Final = frozenset({Problem.FORBIDDEN, Problem.REFUSED})


def problem(status: int, message: str) -> Problem:
    """Return what a response other than 200 means.

    Arguments:
        status: its status; 0 if there was no response.
        message: ``message`` of its Status object, or its text.

    Returns:
        CONFLICT: read again. UNSET: the object has no replicas yet, so PATCH without a version.
        UNAVAILABLE: try again later; with 401 it does not accept the token at the moment.
        Each other one stays until a person changes something.
    """
    if status == 409:
        return Problem.CONFLICT
    if status == 403:
        return Problem.FORBIDDEN
    if status == 404:
        return Problem.MISSING
    if status == 500 and "spec replicas field" in message and "does not exist" in message:
        return Problem.UNSET
    if status in (0, 401, 429) or status >= 500:
        return Problem.UNAVAILABLE
    return Problem.REFUSED


def missing_rule(resource: Resource, *verbs: str) -> str:
    """Return the RBAC rule that forbidden requests lack, in YAML on one line."""
    listed = ", ".join(f'"{verb}"' for verb in verbs)
    return (
        f'{{apiGroups: ["{resource.group}"], resources: ["{resource.plural}/scale"], '
        f"verbs: [{listed}]}}"
    )
