"""Makes the EndpointSlice that lists the activators, or the pods of a Service with route ``front``.

Pure. The rules were seen on a real control plane (Kubernetes 1.36) and in its consumers: each
activator has all three conditions, a node, no target (Istio ambient skips pods) and no hints.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple

from activator.objects.fields import Field, root
from activator.plain.allotments import PORT_ANNOTATION, port_of
from activator.plain.service import PROXY_LABEL, PlainService
from activator.plain.slices import MANAGED_BY_LABEL, OURS, SERVICE_LABEL

#: Proxies ignore a slice with this label.
HEADLESS_LABEL: Final = "service.kubernetes.io/headless"

#: More endpoints are refused by the API server with 422.
MOST_ENDPOINTS: Final = 1000
#: Each one is explicit: older ingress-nginx fails without, Traefik drops the endpoint.
_CONDITIONS: Final[Mapping[str, bool]] = {"ready": True, "serving": True, "terminating": False}
_LONGEST_NAME: Final = 253


class Family(Enum):
    """The type of a slice's addresses; a slice cannot change it."""

    IPV4 = "IPv4"
    IPV6 = "IPv6"


class Activator(NamedTuple):
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


def slice_name(service: str, family: Family) -> str:
    """Return the name of a Service's slice."""
    suffix = "-activator" if family is Family.IPV4 else "-activator-ipv6"
    return service[: _LONGEST_NAME - len(suffix)] + suffix


def name_parts(name: str) -> tuple[str, Family] | None:
    """Return the Service and the family of a slice's name; None for other slices."""
    for family in reversed(Family):
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
    family: Family,
    port: int,
    activators: Sequence[Activator],
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


def _endpoint(activator: Activator) -> Mapping[str, Any]:
    node = {"nodeName": activator.node} if activator.node else {}
    return {"addresses": [activator.ip], "conditions": dict(_CONDITIONS), **node}
