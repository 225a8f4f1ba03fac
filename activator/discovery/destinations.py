"""Chooses between the Endpoints and the EndpointSlices of a revision, and merges their addresses.

Pure. It must not know the form of either kind, nor the previous state. Knative's counterpart:
pkg/activator/net/helpers.go (endpointsToDests). It reads only Endpoints, which Kubernetes truncates
at 1,000 addresses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from activator.objects.fields import Field, ObjectKey
from throttler.model import AppProtocol, Endpoint, ListedEndpoints, RevisionID

MANAGED_BY_LABEL = "endpointslice.kubernetes.io/managed-by"

# Kubernetes sets this annotation on truncated Endpoints, and copies it to the slices that it makes
# of Endpoints.
OVER_CAPACITY_ANNOTATION = "endpoints.kubernetes.io/over-capacity"

# The controller of Kubernetes that copies Endpoints of Services without a selector to slices.
_COPIES = "endpointslicemirroring-controller.k8s.io"


class EndpointsSource(Enum):
    """The kind of objects that lists pods; AUTO chooses for each revision."""

    AUTO = "auto"
    ENDPOINTS = "endpoints"
    SLICES = "slices"


class Family(Enum):
    """The family of an object's addresses. Kubernetes chooses the family of Endpoints: ANY."""

    ANY = ""
    IPV4 = "IPv4"
    IPV6 = "IPv6"


@dataclass(frozen=True, slots=True)
class PrivateEndpoints:
    """Pods of a revision.

    Attributes:
        endpoints: by protocol, the pods with the port of that protocol.
        truncated: whether Kubernetes left out pods, because one object cannot list them all.
        family: a slice lists one family; a pod with two addresses is in two slices.
    """

    revision_id: RevisionID
    endpoints: Mapping[AppProtocol, ListedEndpoints]
    truncated: bool = False
    family: Family = Family.ANY

    @property
    def empty(self) -> bool:
        """Whether the object lists no pod."""
        return not any(
            endpoints.ready or endpoints.not_ready for endpoints in self.endpoints.values()
        )


@dataclass(frozen=True, slots=True)
class PublicEndpoints:
    """IP addresses of the revision's public Service: activators, or pods.

    Attributes:
        addresses: by protocol, the addresses with a port of that protocol.
        truncated: as for pods.
        family: as for pods.
        original: whether Knative wrote this slice; False for Kubernetes' copy of Endpoints.
    """

    revision_id: RevisionID
    addresses: Mapping[AppProtocol, frozenset[str]]
    truncated: bool = False
    family: Family = Family.ANY
    original: bool = False

    @property
    def empty(self) -> bool:
        """Whether the object lists no address."""
        return not any(self.addresses.values())


Part = TypeVar("Part", PrivateEndpoints, PublicEndpoints)


def is_truncated(obj: Field) -> bool:
    """Return whether Kubernetes left out addresses of an object, or of the Endpoints it copied."""
    annotations = obj["metadata"]["annotations"].mapping()
    return annotations.get(OVER_CAPACITY_ANNOTATION) == "truncated"


def is_original(slice_: Field) -> bool:
    """Return whether a slice of a Service without a selector is not a copy of Endpoints."""
    return slice_["metadata"]["labels"].mapping().get(MANAGED_BY_LABEL) != _COPIES


def without_duplicates(
    ready: Mapping[str, Endpoint], not_ready: Mapping[str, Endpoint]
) -> ListedEndpoints:
    """Return each pod in one of the two sets; a pod in both is ready."""
    waiting = (endpoint for address, endpoint in not_ready.items() if address not in ready)
    return ListedEndpoints(ready=frozenset(ready.values()), not_ready=frozenset(waiting))


def choose(
    endpoints: Sequence[Part], slices: Sequence[Part], source: EndpointsSource, family: Family
) -> Sequence[Part]:
    """Return the objects that count for one revision.

    Arguments:
        endpoints: the parsed Endpoints.
        slices: the parsed EndpointSlices.
        source: the kind that counts. With ``AUTO``, slices count if there are no Endpoints, or if
            only the Endpoints are truncated.
        family: the family that counts if slices list both, so that no pod counts twice.

    Returns:
        Objects of one kind.
    """
    if source is EndpointsSource.ENDPOINTS:
        return endpoints
    lacking = not endpoints or (slices and _truncated(endpoints) and not _truncated(slices))
    if source is EndpointsSource.AUTO and not lacking:
        return endpoints
    preferred = [part for part in slices if part.family is family]
    return preferred if not all(part.empty for part in preferred) else slices


def _truncated(parts: Iterable[PrivateEndpoints | PublicEndpoints]) -> bool:
    return any(part.truncated for part in parts)


def originals(
    parts: Mapping[ObjectKey, PublicEndpoints], source: EndpointsSource
) -> Mapping[ObjectKey, PublicEndpoints]:
    """Return the slices that Knative wrote for a public Service; all objects if there are none.

    Endpoints beside such slices may be left over from an older version of Knative.

    Arguments:
        parts: the parsed objects.
        source: the kind that counts; with ``ENDPOINTS`` the result has all objects.
    """
    if source is EndpointsSource.ENDPOINTS:
        return parts
    return {key: part for key, part in parts.items() if part.original} or parts


def join_endpoints(
    parts: Iterable[Mapping[AppProtocol, ListedEndpoints]],
) -> Mapping[AppProtocol, ListedEndpoints]:
    """Return the pods that several objects list for one revision.

    Arguments:
        parts: the endpoints of each object; no part means that the revision has no pods.

    Returns:
        The union by protocol. An address is in one set only, once; ready wins.
    """
    parts = list(parts)
    if len(parts) == 1:
        return parts[0]
    merged = {}
    for protocol in AppProtocol:
        ready: dict[str, Endpoint] = {}
        not_ready: dict[str, Endpoint] = {}
        for part in parts:
            endpoints = part.get(protocol, ListedEndpoints())
            _add(endpoints.ready, ready)
            _add(endpoints.not_ready, not_ready)
        merged[protocol] = without_duplicates(ready, not_ready)
    return merged


def _add(endpoints: Iterable[Endpoint], into: dict[str, Endpoint]) -> None:
    """Add endpoints. Of two uids with one address the smaller one counts, in any order."""
    for endpoint in endpoints:
        known = into.setdefault(endpoint.address, endpoint)
        if endpoint < known:
            into[endpoint.address] = endpoint


def join_addresses(
    parts: Iterable[Mapping[AppProtocol, frozenset[str]]],
) -> Mapping[AppProtocol, frozenset[str]]:
    """Return the addresses that several objects list for a public Service."""
    parts = list(parts)
    return {
        protocol: frozenset[str]().union(*(part[protocol] for part in parts))
        for protocol in AppProtocol
    }
