"""Requests that create, change and delete slices of Services, and the meaning of their responses.

Pure. Sources: discovery.k8s.io/v1 EndpointSlice in the Kubernetes API reference. Statuses and texts
were seen on API server 1.36; ``endpointslices/restricted`` is OpenShift's admission plugin
RestrictedEndpointsAdmission.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, NamedTuple

from activator.plain.service import PROXY_LABEL
from activator.scale.cluster.api import MERGE_PATCH
from activator.scale.decisions.findings import Finding, Reason
from activator.scale.takeover.slices import HEADLESS_LABEL, Stored

JSON: Final = "application/json"

_RULE: Final = (
    '{apiGroups: ["discovery.k8s.io"], resources: ["endpointslices"], '
    'verbs: ["create", "patch", "delete"]}'
)
_ENDPOINTS_RULE: Final = '{apiGroups: [""], resources: ["endpoints"], verbs: ["delete"]}'
_RESTRICTED: Final = (
    '{apiGroups: ["discovery.k8s.io"], resources: ["endpointslices/restricted"], verbs: ["create"]}'
)


class Request(NamedTuple):
    """One request to the API server."""

    method: str
    path: str
    body: bytes
    content_type: str = JSON


class Outcome(Enum):
    """What a response means for the slice.

    DONE: the API server has what was sent. STALE: another component has changed, created or
    deleted it, and the watch brings the present object. FORBIDDEN, REFUSED: it stays so until a
    person changes something. UNAVAILABLE: try again.
    """

    DONE = "done"
    STALE = "stale"
    FORBIDDEN = "forbidden"
    REFUSED = "refused"
    UNAVAILABLE = "unavailable"


def collection(namespace: str) -> str:
    """Return the path of a namespace's EndpointSlices."""
    return f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"


def create(wanted: Mapping[str, Any]) -> Request:
    """Return the request that creates a slice."""
    return Request("POST", collection(wanted["metadata"]["namespace"]), _encode(wanted))


def change(wanted: Mapping[str, Any], known: Stored) -> Request:
    """Return the request that changes a slice, unless it has another version meanwhile."""
    metadata = wanted["metadata"]
    absent = {PROXY_LABEL: None, HEADLESS_LABEL: None}
    body = {
        "metadata": {
            "resourceVersion": known.version,
            "labels": absent | metadata["labels"],
            "annotations": metadata["annotations"],
            "ownerReferences": metadata["ownerReferences"],
        },
        "ports": wanted["ports"],
        "endpoints": wanted["endpoints"],
    }
    path = f"{collection(metadata['namespace'])}/{metadata['name']}"
    return Request("PATCH", path, _encode(body), MERGE_PATCH)


def delete(namespace: str, name: str, uid: str) -> Request:
    """Return the request that deletes a slice, unless it is another object meanwhile."""
    body = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": uid} if uid else {},
    }
    return Request("DELETE", f"{collection(namespace)}/{name}", _encode(body))


def delete_endpoints(namespace: str, name: str) -> Request:
    """Return the request that deletes the Endpoints object of a Service."""
    return Request("DELETE", f"/api/v1/namespaces/{namespace}/endpoints/{name}", _encode({}))


def _encode(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()


def outcome(method: str, status: int) -> Outcome:
    """Return what a response means.

    Arguments:
        method: of the request.
        status: of the response; 0 if there was none.
    """
    if 200 <= status < 300:
        return Outcome.DONE
    if status == 404 and method == "DELETE":
        return Outcome.DONE
    if status == 409 or (status == 404 and method == "PATCH"):
        return Outcome.STALE
    if status == 403:
        return Outcome.FORBIDDEN
    if status in (0, 401, 429) or status >= 500:
        return Outcome.UNAVAILABLE
    return Outcome.REFUSED


def finding(found: Outcome, status: int, message: str) -> Finding | None:
    """Return what a user must know of a failed request; None if it needs no user.

    Arguments:
        message: the text of the API server.
    """
    said = f"the API server refused the takeover slice ({status}: {message})"
    if found is Outcome.REFUSED:
        return Finding(Reason.SLICE_REFUSED, said)
    if found is not Outcome.FORBIDDEN:
        return None
    if "restricted" in message or "is not allowed" in message:
        return Finding(
            Reason.SLICE_FORBIDDEN,
            f"{said}; OpenShift also requires this rule in the scaler's ClusterRole: {_RESTRICTED}",
        )
    rule = _ENDPOINTS_RULE if message.startswith("endpoints ") else _RULE
    return Finding(Reason.SLICE_FORBIDDEN, f"{said}; the scaler's ClusterRole must have {rule}")
