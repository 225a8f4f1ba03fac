"""Creates, changes and deletes objects, as the API server does.

Kubernetes' counterpart: staging/src/k8s.io/apiserver/pkg/registry/generic/registry/store.go and
pkg/endpoints/handlers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import uuid4

from activator.lab.control_plane import api, defaults
from activator.lab.control_plane.store import PlaneStore


def merge(target: Any, patch: Any) -> Any:
    """Return the target with a patch applied; neither is changed. Null removes a field."""
    if not isinstance(patch, dict):
        return deepcopy(patch)
    merged = deepcopy(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value)
    return merged


Object = dict[str, Any]

_REPLICAS: Object = {"f:spec": {"f:replicas": {}}}


def record(
    resource: api.ApiKind,
    new: Object,
    old: Object | None,
    manager: str,
    time: str,
    *,
    scales: bool = False,
) -> None:
    """Record which client set the number of replicas, in ``metadata.managedFields``.

    Only this field is recorded, and only its last writer. A write of the ``scale`` subresource
    leaves an entry with its name, unless the Scale lacks replicas, as one of 0 does.

    Arguments:
        manager: the writer: the query's ``fieldManager``, or the start of the user agent.
        time: of the write, as in objects.
        scales: it is a write of the ``scale`` subresource.
    """
    if not (resource.scalable or scales):
        return
    metadata, replicas = new["metadata"], new["spec"].get("replicas")
    metadata.pop("managedFields", None)
    if replicas == (old["spec"].get("replicas") if old else None):
        if old and (entries := old["metadata"].get("managedFields")):
            metadata["managedFields"] = entries
        return
    if scales and (resource.is_custom or not replicas):
        return
    entry = {
        "manager": manager,
        "operation": "Update",
        "apiVersion": resource.api_version,
        "time": time,
        "fieldsType": "FieldsV1",
        "fieldsV1": _REPLICAS,
        **({"subresource": "scale"} if scales else {}),
    }
    metadata["managedFields"] = [entry]


# The ``scale`` subresource: reads and sets the replicas of an object.
#
# Kubernetes' counterpart: pkg/registry/apps/deployment/storage/storage.go, and for custom
# resources staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresource/etcd.go.

#: The metadata of an object that its Scale has too.
_SHARED: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(resource: api.ApiKind, found: Object, *, for_patch: bool = False) -> Object:
    """Return an object's Scale. Replicas of 0 are left out, as the API server does.

    Arguments:
        for_patch: accept a custom resource without replicas.

    Raises:
        ApiError: a custom resource has no replicas.
    """
    spec, status = found.get("spec") or {}, found.get("status") or {}
    if resource.is_custom and "replicas" not in spec and not for_patch:
        text = 'the spec replicas field ".spec.replicas" does not exist'
        details = {"causes": [{"message": text}]}
        raise api.ApiError(500, "InternalError", f"Internal error occurred: {text}", details)
    metadata = found["metadata"]
    replicas = spec.get("replicas") or 0
    labels = (spec.get("selector") or {}).get("matchLabels") or {}
    selector = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: metadata[name] for name in _SHARED if name in metadata},
        "spec": {"replicas": replicas} if replicas else {},
        "status": {
            "replicas": status.get("replicas", 0),
            **({"selector": selector} if selector else {}),
        },
    }


MERGE_PATCH: Final = "application/merge-patch+json"
#: Metadata that only the server sets.
_SERVER_SETS: Final = ("uid", "creationTimestamp", "generation", "deletionTimestamp")


class WriteRequest(NamedTuple):
    """What a write knows about its request."""

    place: api.ApiPath
    query: Mapping[str, str]
    content_type: str
    agent: str

    @property
    def manager(self) -> str:
        """The name under which the server records the write."""
        return self.query.get("fieldManager") or self.agent.partition("/")[0] or "unknown"


@dataclass(frozen=True)
class Writes:
    """The writing part of one API server."""

    store: PlaneStore
    clock: Callable[[], datetime]

    def existing(self, place: api.ApiPath) -> Object:
        """Return a copy of an object.

        Raises:
            ApiError: it does not exist.
        """
        found = self.store.get(place.resource, place.namespace, place.name)
        if found is None:
            raise api.not_found(place.resource, place.name)
        return found

    def create(self, context: WriteRequest, body: bytes) -> Object:
        """Create the object in a request's body, and return it.

        Raises:
            ApiError: the server refuses it.
        """
        place, new = context.place, decoded(body, context.place.resource.kind)
        resource = place.resource
        metadata = _identified(resource, new, place.namespace)
        if metadata.get("resourceVersion"):
            raise api.internal("resourceVersion should not be set on objects to be created")
        if not metadata.get("name") and (prefix := metadata.get("generateName")):
            metadata["name"] = f"{prefix}{uuid4().hex[:5]}"
        for name in _SERVER_SETS:
            metadata.pop(name, None)
        self.check(resource, new, None)
        if self.store.get(resource, place.namespace, metadata["name"]) is not None:
            raise api.already_exists(resource, metadata["name"])
        metadata["uid"] = str(uuid4())
        metadata["creationTimestamp"] = self._now()
        if resource.has_generation:
            metadata["generation"] = 1
        record(resource, new, None, context.manager, self._now())
        return self.store.put(resource, new)

    def update(self, context: WriteRequest, body: bytes) -> tuple[Object, int]:
        """Replace an object by that of a PUT; return the object and the status.

        Raises:
            ApiError: the server refuses it.
        """
        place, new = context.place, decoded(body, context.place.resource.kind)
        if place.subresource:
            return self.scaled(context, self.existing(place), new), 200
        metadata = _identified(place.resource, new, place.namespace)
        if metadata.get("name") != place.name:
            raise api.bad_request(
                f"the name of the object ({metadata.get('name')}) does not match the name on the "
                f"URL ({place.name})"
            )
        old = self.store.get(place.resource, place.namespace, place.name)
        if old is None and place.resource.put_creates:
            metadata.pop("resourceVersion", None)
            return self.create(context, json.dumps(new).encode()), 201
        if old is None:
            raise api.not_found(place.resource, place.name)
        if not metadata.get("resourceVersion") and place.resource.needs_version:
            why = "metadata.resourceVersion: Invalid value: 0: must be specified for an update"
            resource = place.resource
            raise api.invalid_named(resource.plural, resource.group, place.name, [why])
        return self._replaced(context, old, new), 200

    def patch(self, context: WriteRequest, body: bytes) -> Object:
        """Apply a merge patch, and return the object or its Scale.

        Raises:
            ApiError: the server refuses it, or it is another kind of patch.
        """
        if context.content_type.partition(";")[0] != MERGE_PATCH:
            raise api.unsupported()
        place, change = context.place, decoded_patch(body)
        old = self.existing(place)
        if place.subresource:
            base = scale_of(place.resource, old, for_patch=True)
            return self.scaled(context, old, merge(base, change))
        new = merge(old, change)
        if new["metadata"].get("name") != place.name:
            raise api.bad_request("the name of the object does not match the name on the URL")
        return self._replaced(context, old, new)

    def resize(self, context: WriteRequest, body: bytes) -> Object:
        """Change the resources of a pod's containers, each by its name; return the pod.

        Raises:
            ApiError: the server refuses it.
        """
        old, change = self.existing(context.place), decoded_patch(body)
        named = {each["name"]: each for each in change["spec"]["containers"]}
        found = [merge(each, named.get(each["name"], {})) for each in old["spec"]["containers"]]
        return self._replaced(context, old, merge(old, {"spec": {"containers": found}}))

    def delete(self, context: WriteRequest, body: bytes) -> Object:
        """Delete an object; return the Status of a success, or a pod that is now terminating.

        Raises:
            ApiError: it does not exist, or the request names another version or uid.
        """
        place = context.place
        old, options = self.existing(place), decoded(body or b"{}")
        uid = old["metadata"]["uid"]
        if (wanted := (options.get("preconditions") or {}).get("uid", uid)) != uid:
            why = (
                f"the UID in the precondition ({wanted}) does not match the UID in record ({uid}). "
                "The object might have been deleted and then recreated"
            )
            raise api.conflict(place.resource, place.name, why, place.resource.kind)
        grace = options.get("gracePeriodSeconds", context.query.get("gracePeriodSeconds"))
        metadata = old["metadata"]
        waits = metadata.get("finalizers") or (
            place.resource == api.PODS and old["spec"].get("nodeName") and str(grace) != "0"
        )
        if waits:
            if "deletionTimestamp" not in metadata:
                metadata["deletionTimestamp"] = self._now()
                seconds = old.get("spec", {}).get("terminationGracePeriodSeconds", 0)
                metadata["deletionGracePeriodSeconds"] = seconds if grace is None else int(grace)
                return self.store.put(place.resource, old)
            return old
        last = self.store.delete(place.resource, place.namespace, place.name)
        if place.resource.returns_deleted:
            return last
        details = api.details_of(place.resource, place.name)
        status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
        return {**status, "details": {**details, "uid": metadata["uid"]}}

    def scaled(self, context: WriteRequest, old: Object, scale: Object) -> Object:
        """Set an object's replicas as its Scale says, and return the new Scale.

        Raises:
            ApiError: the server refuses it.
        """
        new = deepcopy(old)
        new.setdefault("spec", {})["replicas"] = (scale.get("spec") or {}).get("replicas") or 0
        for name in ("uid", "resourceVersion"):
            if value := scale["metadata"].get(name):
                new["metadata"][name] = value
        written = self._replaced(context, old, new, scales=True)
        return scale_of(context.place.resource, written, for_patch=True)

    def _replaced(
        self, context: WriteRequest, old: Object, new: Object, *, scales: bool = False
    ) -> Object:
        place, metadata = context.place, new["metadata"]
        resource = place.resource
        if (uid := metadata.get("uid")) and uid != old["metadata"]["uid"]:
            plural = resource.plural + ("/scale" if scales else "")
            why = f"UID in precondition: {uid}, UID in object meta: {old['metadata']['uid']}"
            raise api.conflict(resource, place.name, f"Precondition failed: {why}", plural)
        self.expect_version(place, metadata.get("resourceVersion", ""), old)
        for name in _SERVER_SETS:
            metadata.pop(name, None)
            if name in old["metadata"]:
                metadata[name] = old["metadata"][name]
        if "status" in old:  # only controllers write it
            new["status"] = old["status"]
        self.check(resource, new, old)
        if resource.has_generation and _content(new) != _content(old):
            metadata["generation"] = old["metadata"].get("generation", 0) + 1
        record(resource, new, old, context.manager, self._now(), scales=scales)
        metadata["resourceVersion"] = old["metadata"]["resourceVersion"]
        if new == old:
            return old
        waited = "deletionTimestamp" in metadata and old["metadata"].get("finalizers")
        if waited and not metadata.get("finalizers"):
            return self.store.delete(resource, place.namespace, place.name)
        return self.store.put(resource, new)

    def expect_version(self, place: api.ApiPath, version: str, old: Object) -> None:
        """Check that a write knows the present version of an object; it may name none.

        Raises:
            ApiError: it names another version.
        """
        if not version:
            return
        if not version.isdigit():
            raise api.internal(f'strconv.ParseUint: parsing "{version}": invalid syntax')
        if version != old["metadata"]["resourceVersion"]:
            raise api.conflict(place.resource, place.name)

    def check(self, resource: api.ApiKind, new: Object, old: Object | None) -> None:
        """Fill in the fields of an object that replaces ``old``; None for a new object."""
        defaults.fill(resource, new)
        metadata = new["metadata"]
        for name in ("labels", "annotations", "ownerReferences", "finalizers"):
            if name in metadata and not metadata[name]:
                del metadata[name]

    def _now(self) -> str:
        return self.clock().strftime("%Y-%m-%dT%H:%M:%SZ")


def _content(found: Object) -> Object:
    """Return the fields whose changes count for ``generation``."""
    return {key: value for key, value in found.items() if key not in ("metadata", "status")}


def decoded_patch(body: bytes) -> Object:
    """Return the JSON object of a merge patch.

    Raises:
        ApiError: the body is no JSON object.
    """
    try:
        found = json.loads(body)
    except ValueError as error:
        raise api.bad_request(f"error decoding patch: {error}") from None
    if not isinstance(found, dict):
        kind = {list: "array", str: "string", bool: "bool"}.get(type(found), "number")
        why = f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
        raise api.bad_request(f"error decoding patch: {why}")
    return found


def decoded(body: bytes, kind: str = "") -> Object:
    """Return the JSON object of a body.

    Arguments:
        kind: that the object must have, for error texts.

    Raises:
        ApiError: the body is no JSON object.
    """
    why = "json: cannot unmarshal into an object"
    try:
        found = json.loads(body)
    except ValueError as error:
        found, why = None, str(error)
    if not isinstance(found, dict):
        text = f"the object provided is unrecognized (must be of type {kind})"
        raise api.bad_request(f"{text}: couldn't get version/kind; json parse error: {why}")
    return found


def _identified(resource: api.ApiKind, new: Object, namespace: str) -> Object:
    """Set an object's kind and namespace, and return its metadata."""
    kind, version = new.get("kind", resource.kind), new.get("apiVersion", resource.api_version)
    if (kind, version) != (resource.kind, resource.api_version):
        found, wanted = version.replace("/", "."), resource.group or "core"
        why = f"converting ({found}.{kind}) to ({wanted}.{resource.kind}): unknown conversion"
        raise api.bad_request(
            f'{kind} in version "{version}" cannot be handled as a {resource.kind}: {why}'
        )
    new["kind"], new["apiVersion"] = resource.kind, resource.api_version
    metadata: Object = new.setdefault("metadata", {})
    if metadata.get("namespace", namespace) != namespace:
        raise api.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if resource.namespaced:
        metadata["namespace"] = namespace
    return metadata
