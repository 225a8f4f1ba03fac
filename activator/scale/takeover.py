"""Makes the EndpointSlice by which the activators take over a Service.

Pure. The rules were seen on a real control plane (Kubernetes 1.36) and in its consumers: each
endpoint has all three conditions (older ingress-nginx fails without, Traefik drops the endpoint),
a node, no target (Istio ambient skips pods) and no hints.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple

from activator.objects.fields import Field, root
from activator.plain.service import PlainService
from activator.plain.slices import MANAGED_BY_LABEL, OURS, SERVICE_LABEL

PORT_ANNOTATION: Final = "activator.dev/port"
#: Kubernetes' own proxies leave a Service with this label to another one.
PROXY_LABEL: Final = "service.kubernetes.io/service-proxy-name"

#: More endpoints are refused by the API server with 422.
MOST_ENDPOINTS: Final = 1000
_LONGEST_NAME: Final = 253
_MAX_PORT: Final = 65_535


class Family(Enum):
    """The type of a slice's addresses; a slice cannot change it."""

    IPV4 = "IPv4"
    IPV6 = "IPv6"


class Activator(NamedTuple):
    """One activator that can take requests."""

    ip: str
    node: str


class Stored(NamedTuple):
    """A takeover slice that exists.

    Attributes:
        port: the allotted port; 0 if the annotation is missing or wrong.
        addresses: its endpoints.
    """

    service: str
    port: int
    addresses: frozenset[str]
    version: str
    created: str


def slice_name(service: str, family: Family) -> str:
    """Return the name of a Service's slice."""
    suffix = "-activator" if family is Family.IPV4 else "-activator-ipv6"
    return service[: _LONGEST_NAME - len(suffix)] + suffix


def is_ours(slice_: Field) -> bool:
    """Return whether an EndpointSlice is a takeover slice."""
    return slice_["metadata"]["labels"].at(MANAGED_BY_LABEL).text() == OURS


def stored(obj: object) -> Stored:
    """Return what a takeover slice stores.

    Raises:
        ManifestError: a field is wrong.
    """
    slice_ = root(obj, "EndpointSlice")
    metadata = slice_["metadata"]
    text = metadata["annotations"].at(PORT_ANNOTATION).text()
    is_port = text.isascii() and text.isdigit() and len(text) <= 5 and 0 < int(text) <= _MAX_PORT
    return Stored(
        metadata["labels"].at(SERVICE_LABEL).text(),
        int(text) if is_port else 0,
        frozenset(
            address.text()
            for endpoint in slice_["endpoints"].items()
            for address in endpoint["addresses"].items()
        ),
        metadata["resourceVersion"].text(),
        metadata["creationTimestamp"].text(),
    )


def slice_object(
    service: PlainService,
    family: Family,
    port: int,
    activators: Sequence[Activator],
    proxy_label: str = "",
) -> Mapping[str, Any]:
    """Return the takeover slice of a Service.

    Arguments:
        service: not refused, so it has a buffered port.
        port: the allotted port.
        activators: the activators of this family that take its requests now; none while its
            pods do.
        proxy_label: the Service's value of ``PROXY_LABEL``; empty if it has none.
    """
    assert service.port is not None
    name, namespace = service.key.name, service.key.namespace
    labels = {SERVICE_LABEL: name, MANAGED_BY_LABEL: OURS}
    if proxy_label:
        labels[PROXY_LABEL] = proxy_label
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
        "ports": [{"name": service.port.name, "port": port, "protocol": "TCP"}],
        "endpoints": [
            {
                "addresses": [each.ip],
                "conditions": {"ready": True, "serving": True, "terminating": False},
                **({"nodeName": each.node} if each.node else {}),
            }
            for each in sorted(set(activators))[:MOST_ENDPOINTS]
        ],
    }
