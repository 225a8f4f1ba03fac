"""What Endpoints and EndpointSlices say, in one form, and which of them count.

Pure. It must not know how either kind is written, nor what was there before.
Knative's counterpart: pkg/activator/net/helpers.go (endpointsToDests). It reads Endpoints alone,
of which Kubernetes cuts off all beyond 1,000 addresses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from activator.objects.fields import Field, ObjectKey
from throttler.model import AppProtocol, Endpoint, ListedEndpoints, RevisionID

MANAGED_BY_LABEL = "endpointslice.kubernetes.io/managed-by"

# Kubernetes sets this annotation where it left out addresses beyond 1,000. Its copies of Endpoints
# to slices take annotations along.
OVER_CAPACITY_ANNOTATION = "endpoints.kubernetes.io/over-capacity"

# The controller of Kubernetes that copies Endpoints of Services without a selector to slices.
_COPIES = "endpointslicemirroring-controller.k8s.io"


class EndpointsSource(Enum):
    """Which kind of objects says where pods are."""

    AUTO = "auto"
    ENDPOINTS = "endpoints"
    SLICES = "slices"


class Family(Enum):
    """Which addresses an object lists; Endpoints are of the family that Kubernetes has chosen."""

    ANY = ""
    IPV4 = "IPv4"
    IPV6 = "IPv6"


@dataclass(frozen=True, slots=True)
class PrivateEndpoints:
    """Pods of a revision.

    Attributes:
        dests: for every protocol the pods under the port of that protocol.
        truncated: Kubernetes left out pods because there were too many for one object.
        family: slices list each family on its own; a pod with two addresses is in two of them.
    """

    revision_id: RevisionID
    endpoints: Mapping[AppProtocol, ListedEndpoints]
    truncated: bool = False
    family: Family = Family.ANY

    @property
    def empty(self) -> bool:
        """Whether nothing is listed."""
        return not any(
            endpoints.ready or endpoints.not_ready for endpoints in self.endpoints.values()
        )


@dataclass(frozen=True, slots=True)
class PublicEndpoints:
    """IP addresses that the revision's public name leads to: activators, or pods.

    Attributes:
        addresses: for every protocol the addresses whose port is of that protocol.
        truncated: as for pods.
        family: as for pods.
        original: a slice that Knative wrote, and that Kubernetes did not copy from Endpoints.
    """

    revision_id: RevisionID
    addresses: Mapping[AppProtocol, frozenset[str]]
    truncated: bool = False
    family: Family = Family.ANY
    original: bool = False

    @property
    def empty(self) -> bool:
        """Whether nothing is listed."""
        return not any(self.addresses.values())


Part = TypeVar("Part", PrivateEndpoints, PublicEndpoints)


def is_truncated(obj: Field) -> bool:
    """Return whether Kubernetes left out addresses of an object, or of what it copied."""
    annotations = obj["metadata"]["annotations"].mapping()
    return annotations.get(OVER_CAPACITY_ANNOTATION) == "truncated"


def is_original(slice_: Field) -> bool:
    """Return whether a slice of a Service without a selector is no copy of Endpoints."""
    return slice_["metadata"]["labels"].mapping().get(MANAGED_BY_LABEL) != _COPIES


def without_doubles(
    ready: Mapping[str, Endpoint], not_ready: Mapping[str, Endpoint]
) -> ListedEndpoints:
    """Pods by their address, each in one set only; ready wins."""
    waiting = (endpoint for address, endpoint in not_ready.items() if address not in ready)
    return ListedEndpoints(ready=frozenset(ready.values()), not_ready=frozenset(waiting))


def choose(
    endpoints: Sequence[Part], slices: Sequence[Part], source: EndpointsSource, family: Family
) -> Sequence[Part]:
    """Picks which objects count for one revision.

    Arguments:
        endpoints: what its Endpoints say.
        slices: what its EndpointSlices say.
        source: which of the two is wanted; with ``AUTO`` slices count where Endpoints lack pods:
            where they are truncated and slices are not, or where they are not there.
        family: which addresses to use where slices list both, so that no pod counts twice.

    Returns:
        All of the one kind, or those of the other.
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

    Once Knative writes slices, Endpoints of that Service may be what an older version left behind.

    Arguments:
        parts: what each object lists.
        source: which kind is wanted; with ``ENDPOINTS`` all objects are returned.
    """
    if source is EndpointsSource.ENDPOINTS:
        return parts
    return {key: part for key, part in parts.items() if part.original} or parts


def join_endpoints(
    parts: Iterable[Mapping[AppProtocol, ListedEndpoints]],
) -> Mapping[AppProtocol, ListedEndpoints]:
    """Merges what several objects say of the pods of one revision.

    Arguments:
        parts: what each object says; none at all means that the revision has no pods.

    Returns:
        For every protocol the union. An address is in one set only, once; ready wins.
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
        merged[protocol] = without_doubles(ready, not_ready)
    return merged


def _add(endpoints: Iterable[Endpoint], into: dict[str, Endpoint]) -> None:
    """Of two uids under one address always the same is taken, whichever comes first."""
    for endpoint in endpoints:
        known = into.setdefault(endpoint.address, endpoint)
        if endpoint < known:
            into[endpoint.address] = endpoint


def join_addresses(
    parts: Iterable[Mapping[AppProtocol, frozenset[str]]],
) -> Mapping[AppProtocol, frozenset[str]]:
    """Merges what several objects say of the public name of one revision."""
    parts = list(parts)
    return {
        protocol: frozenset[str]().union(*(part[protocol] for part in parts))
        for protocol in AppProtocol
    }
