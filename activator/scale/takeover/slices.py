"""Makes the EndpointSlices of Services, and the requests that write them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple

from activator.objects.fields import Field, root
from activator.plain.allotments import PORT_ANNOTATION, port_of
from activator.plain.service import PROXY_LABEL, PlainService
from activator.plain.slices import MANAGED_BY_LABEL, OURS, SERVICE_LABEL
from activator.scale.cluster.api import MERGE_PATCH, ApiRequest, Meaning, meaning_of
from activator.scale.reasons import Finding, ScaleReason
from activator.scale.reports.load import Name

#: Proxies ignore a slice with this label.
HEADLESS_LABEL: Final = "service.kubernetes.io/headless"

#: More endpoints are refused by the API server with 422.
MOST_ENDPOINTS: Final = 1000
#: Each one is explicit: older ingress-nginx fails without, Traefik drops the endpoint.
_CONDITIONS: Final[Mapping[str, bool]] = {"ready": True, "serving": True, "terminating": False}
_LONGEST_NAME: Final = 253


class AddressFamily(Enum):
    """The type of a slice's addresses; a slice cannot change it."""

    IPV4 = "IPv4"
    IPV6 = "IPv6"


class ActivatorAddress(NamedTuple):
    """One activator that can take requests."""

    ip: str
    node: str


class Listing(NamedTuple):
    """The pods of one family, as an EndpointSlice lists them."""

    ports: Sequence[Any]
    endpoints: Sequence[Any]


class Stored(NamedTuple):
    """A slice of the scaler that exists.

    Attributes:
        port: the allotted port; 0 if the annotation is missing or wrong.
        addresses: its endpoints.
        content: a hash of all fields that the scaler writes; equal for equal fields.
    """

    service: str
    port: int
    addresses: frozenset[str]
    version: str
    created: str
    uid: str
    content: int


def slice_name(service: str, family: AddressFamily) -> str:
    """Return the name of a Service's slice."""
    suffix = "-activator" if family is AddressFamily.IPV4 else "-activator-ipv6"
    return service[: _LONGEST_NAME - len(suffix)] + suffix


def name_parts(name: str) -> tuple[str, AddressFamily] | None:
    """Return the Service and the family of a slice's name; None for other slices."""
    for family in reversed(AddressFamily):
        suffix = slice_name("", family)
        if name.endswith(suffix) and name != suffix:
            return name.removesuffix(suffix), family
    return None


def stored(obj: object) -> Stored:
    """Return what a takeover slice stores.

    Raises:
        ManifestError: a field is wrong.
    """
    slice_ = root(obj, "EndpointSlice")
    metadata = slice_["metadata"]
    return Stored(
        metadata["labels"].at(SERVICE_LABEL).text(),
        port_of(metadata),
        frozenset(
            address.text()
            for endpoint in slice_["endpoints"].items()
            for address in endpoint["addresses"].items()
        ),
        metadata["resourceVersion"].text(),
        metadata["creationTimestamp"].text(),
        metadata["uid"].text(),
        content_of(slice_),
    )


def content_of(slice_: Field) -> int:
    """Return a hash of all fields that the scaler writes, for a comparison in this process.

    Raises:
        ManifestError: a field is wrong.
    """
    metadata = slice_["metadata"]
    labels = metadata["labels"]
    names = (SERVICE_LABEL, MANAGED_BY_LABEL, PROXY_LABEL)
    return hash(
        (
            *(labels.at(name).text() for name in names),
            labels.at(HEADLESS_LABEL).value is None,  # its presence counts, also without a value
            metadata["annotations"].at(PORT_ANNOTATION).text(),
            tuple(
                (owner["kind"].text(), owner["name"].text(), owner["uid"].text())
                for owner in metadata["ownerReferences"].items()
            ),
            slice_["addressType"].text(),
            *map(_text, slice_["ports"].sequence()),
            *sorted(map(_text, slice_["endpoints"].sequence())),
        )
    )


def _text(value: object) -> str:
    """Return a port or an endpoint as text, equal for equal ones; a null is no field."""
    fields = value.items() if isinstance(value, dict) else ()
    return json.dumps({name: each for name, each in fields if each is not None}, sort_keys=True)


def slice_object(
    service: PlainService,
    family: AddressFamily,
    port: int,
    activators: Sequence[ActivatorAddress],
    pods: Listing | None = None,
) -> Mapping[str, Any]:
    """Return the slice of a Service.

    Arguments:
        service: not refused, so it has a buffered port.
        port: the allotted port.
        activators: the activators of this family that take its requests now; none while its
            pods do.
        pods: the pods to list instead, with route ``front``.
    """
    assert service.port is not None
    if pods is None:
        ports = [{"name": service.port.name, "port": port, "protocol": "TCP"}]
        pods = Listing(ports, [_endpoint(each) for each in sorted(set(activators))])
    name, namespace = service.key.name, service.key.namespace
    labels = {SERVICE_LABEL: name, MANAGED_BY_LABEL: OURS}
    if service.proxy:
        labels[PROXY_LABEL] = service.proxy
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": slice_name(name, family),
            "namespace": namespace,
            "labels": labels,
            "annotations": {PORT_ANNOTATION: str(port)},
            # Without blockOwnerDeletion, which some clusters forbid.
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Service", "name": name, "uid": service.uid}
            ],
        },
        "addressType": family.value,
        "ports": pods.ports,
        "endpoints": pods.endpoints[:MOST_ENDPOINTS],
    }


def _endpoint(activator: ActivatorAddress) -> Mapping[str, Any]:
    node = {"nodeName": activator.node} if activator.node else {}
    return {"addresses": [activator.ip], "conditions": dict(_CONDITIONS), **node}


_RULE: Final = (
    '{apiGroups: ["discovery.k8s.io"], resources: ["endpointslices"], '
    'verbs: ["create", "patch", "delete"]}'
)
_ENDPOINTS_RULE: Final = '{apiGroups: [""], resources: ["endpoints"], verbs: ["delete"]}'
_RESTRICTED: Final = (
    '{apiGroups: ["discovery.k8s.io"], resources: ["endpointslices/restricted"], verbs: ["create"]}'
)


#: What the absence of the slice means, by the method of the request.
_IF_ABSENT: Final = {"DELETE": Meaning.DONE, "PATCH": Meaning.CONFLICT}


def collection(namespace: str) -> str:
    """Return the path of a namespace's EndpointSlices."""
    return f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"


def create(wanted: Mapping[str, Any]) -> ApiRequest:
    """Return the request that creates a slice."""
    return ApiRequest("POST", collection(wanted["metadata"]["namespace"]), _encode(wanted))


def change(wanted: Mapping[str, Any], known: Stored) -> ApiRequest:
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
    return ApiRequest("PATCH", path, _encode(body), MERGE_PATCH)


def delete(namespace: str, name: str, uid: str) -> ApiRequest:
    """Return the request that deletes a slice, unless it is another object meanwhile."""
    body = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": uid} if uid else {},
    }
    return ApiRequest("DELETE", f"{collection(namespace)}/{name}", _encode(body))


def delete_endpoints(namespace: str, name: str) -> ApiRequest:
    """Return the request that deletes the Endpoints object of a Service."""
    return ApiRequest("DELETE", f"/api/v1/namespaces/{namespace}/endpoints/{name}", _encode({}))


def _encode(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()


def meaning(method: str, status: int) -> Meaning:
    """Return what a response means for the slice.

    DONE: the API server has what was sent. CONFLICT: another component has changed, created or
    deleted the slice, and the watch brings the present one.

    Arguments:
        method: of the request.
        status: of the response; 0 if there was none.
    """
    found = meaning_of(status)
    if found is Meaning.ABSENT:
        return _IF_ABSENT.get(method, Meaning.REFUSED)
    return found


def failure(found: Meaning, status: int, message: str) -> Finding | None:
    """Return what a user must know of a failed request; None if it needs no user.

    Arguments:
        message: the text of the API server.
    """
    said = f"the API server refused the takeover slice ({status}: {message})"
    if found is Meaning.REFUSED:
        return Finding(ScaleReason.SLICE_REFUSED, said)
    if found is not Meaning.FORBIDDEN:
        return None
    if "restricted" in message or "is not allowed" in message:
        return Finding(
            ScaleReason.SLICE_FORBIDDEN,
            f"{said}; OpenShift also requires this rule in the scaler's ClusterRole: {_RESTRICTED}",
        )
    rule = _ENDPOINTS_RULE if message.startswith("endpoints ") else _RULE
    return Finding(
        ScaleReason.SLICE_FORBIDDEN, f"{said}; the scaler's ClusterRole must have {rule}"
    )


class SliceKey(NamedTuple):
    """The identity of an EndpointSlice."""

    namespace: str
    name: str


class Write(NamedTuple):
    """A request that makes one slice what it must be; ``content`` as in ``Stored``."""

    key: SliceKey
    request: ApiRequest
    content: int | None = None


class Leave(Enum):
    """The wanted state of a slice, if it is no object.

    ABSENT: it must not exist. AS_IS: it must not be changed.
    """

    ABSENT = "absent"
    AS_IS = "as-is"


def key_of(name: Name, family: AddressFamily) -> SliceKey:
    """Return the identity of a Service's slice of one address family."""
    return SliceKey(name.namespace, slice_name(name.name, family))


def write_of(key: SliceKey, seen: Stored | None, wanted: Mapping[str, Any] | Leave) -> Write | None:
    """Return the request that gives a slice its wanted state; None if it has that state.

    Arguments:
        seen: the slice; None if it does not exist.
    """
    if wanted is Leave.ABSENT and seen is not None:
        return Write(key, delete(*key, seen.uid))
    if isinstance(wanted, Leave):
        return None
    content = content_of(root(wanted, "EndpointSlice"))
    if seen is None:
        return Write(key, create(wanted), content)
    if content == seen.content:
        return None
    return Write(key, change(wanted, seen), content)
