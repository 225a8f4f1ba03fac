"""Reads Endpoints, EndpointSlices and private Services, and merges the addresses of a revision."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple, TypeVar

from activator.knative.words import is_private, is_public, revision_of
from activator.objects.fields import Field, ObjectKey, host, ip_of, port_named, root
from throttler.model import HTTP_PROTOCOLS, AppProtocol, Endpoint, ListedEndpoints, RevisionID

# -- core/v1 Endpoints --------------------------------------------------------------------------
#
# Knative's counterpart: pkg/activator/net/helpers.go (endpointsToDests) and the two Endpoints
# handlers of pkg/activator/net/revision_backends.go and throttler.go.


def parse(obj: object) -> PrivateEndpoints | PublicEndpoints | None:
    """Return the addresses of an Endpoints object.

    Arguments:
        obj: the object as decoded from JSON or YAML.

    Returns:
        The pods or the activators of a revision; None if the labels name neither, and the caller
        must ignore the object.

    Raises:
        ManifestError: the object belongs to a revision and a field of it is wrong.
    """
    endpoints = root(obj, "Endpoints")
    if is_private(endpoints):
        listed = {protocol: _endpoints(endpoints, protocol) for protocol in HTTP_PROTOCOLS}
        return PrivateEndpoints(revision_of(endpoints), listed, is_truncated(endpoints))
    if is_public(endpoints):
        addresses = {protocol: _public(endpoints, protocol) for protocol in HTTP_PROTOCOLS}
        return PublicEndpoints(revision_of(endpoints), addresses, is_truncated(endpoints))
    return None


def _endpoints(endpoints: Field, protocol: AppProtocol) -> ListedEndpoints:
    ready: dict[str, Endpoint] = {}
    not_ready: dict[str, Endpoint] = {}
    for subset in endpoints["subsets"].items():
        port = port_named(subset["ports"], protocol.port_name)
        if port:
            _collect(subset["addresses"], port, ready)
            _collect(subset["notReadyAddresses"], port, not_ready)
    return without_duplicates(ready, not_ready)


def _public(endpoints: Field, protocol: AppProtocol) -> frozenset[str]:
    found: set[str] = set()
    for subset in endpoints["subsets"].items():
        if port_named(subset["ports"], protocol.port_name):
            found.update(ip_of(address["ip"]) for address in subset["addresses"].items())
    return frozenset(found)


def _collect(addresses: Field, port: int, into: dict[str, Endpoint]) -> None:
    """Add each pod by its ``ip:port``; of two entries for one address the first stays."""
    for index, entry in enumerate(addresses.sequence()):
        # Objects with 1,000 addresses are common: only an error needs the slow Field.
        if not isinstance(entry, dict):
            addresses.item(index, entry).expected("an object")
        ip = entry.get("ip")
        known = host(ip) if type(ip) is str else ""
        address = f"{known or host(ip_of(addresses.item(index, entry)['ip']))}:{port}"
        into.setdefault(address, Endpoint(address, _uid(addresses, index, entry)))


def _uid(addresses: Field, index: int, entry: Mapping[str, object]) -> str:
    target = entry.get("targetRef")
    if target is None:
        return ""
    uid = target.get("uid", "") if isinstance(target, dict) else None
    if type(uid) is str:
        return uid
    return addresses.item(index, entry)["targetRef"]["uid"].text()


# -- discovery.k8s.io/v1 EndpointSlices ---------------------------------------------------------
#
# A slice has the labels that Kubernetes copies: those on the Service, or on the Endpoints that the
# slice mirrors. Knative has no counterpart: it reads only Endpoints. Source:
# https://kubernetes.io/docs/concepts/services-networking/endpoint-slices/ and the API reference.


def parse_slice(obj: object) -> PrivateEndpoints | PublicEndpoints | None:
    """Return the addresses of an EndpointSlice.

    Arguments:
        obj: the object as decoded from JSON or YAML.

    Returns:
        Pods or activators of a revision; None if the labels name neither, and the caller must
        ignore the object.

    Raises:
        ManifestError: the object belongs to a revision and a field of it is wrong.
    """
    slice_ = root(obj, "EndpointSlice")
    private = is_private(slice_)
    if not private and not is_public(slice_):
        return None
    family = _family(slice_["addressType"])
    ports = {p: port_named(slice_["ports"], p.port_name) for p in HTTP_PROTOCOLS}
    present = list(_present(slice_["endpoints"]))
    if private:
        listed = {protocol: _slice_endpoints(present, port) for protocol, port in ports.items()}
        return PrivateEndpoints(revision_of(slice_), listed, is_truncated(slice_), family)
    ready = frozenset(each.ip for each in present if each.ready)
    addresses = {protocol: ready if port else frozenset() for protocol, port in ports.items()}
    return PublicEndpoints(
        revision_of(slice_), addresses, is_truncated(slice_), family, is_original(slice_)
    )


class _Entry(NamedTuple):
    ip: str
    uid: str
    ready: bool
    zone: str


def _family(field: Field) -> IpFamily:
    for family in (IpFamily.IPV4, IpFamily.IPV6):
        if field.value == family.value:
            return family
    # No controller of Kubernetes uses the third type, FQDN.
    field.expected("IPv4 or IPv6")


def _slice_endpoints(present: Iterable[_Entry], port: int) -> ListedEndpoints:
    ready: dict[str, Endpoint] = {}
    not_ready: dict[str, Endpoint] = {}
    zones: dict[str, str] = {}
    for each in present if port else ():
        address = f"{host(each.ip)}:{port}"
        (ready if each.ready else not_ready).setdefault(address, Endpoint(address, each.uid))
        if each.zone:
            zones[address] = each.zone
    return replace(without_duplicates(ready, not_ready), zones=zones)


def _present(endpoints: Field) -> Iterator[_Entry]:
    """Yield the endpoints that do not terminate.

    Kubernetes leaves terminating pods out of Endpoints as well. The queue-proxy of such a pod
    finishes its requests, and must get no new request and no probe. The activator drains a delisted
    pod, so requests in flight finish. kube-proxy sends traffic to a terminating pod if there is no
    other, since the traffic would be lost. Here the request waits, and the autoscaler gets a
    report. So ``serving`` does not matter: it differs from ``ready`` only for terminating pods.
    """
    for index, value in enumerate(endpoints.sequence()):
        match value:
            # The form of almost all entries. Reading it by Field would cost more than the rest.
            case {
                "addresses": [str(ip), *_],
                "conditions": {"ready": bool(ready), "terminating": False},
                "targetRef": {"uid": str(uid)},
            } if host(ip) and isinstance(value, dict) and type(value.get("zone", "")) is str:
                yield _Entry(ip, uid, ready, value.get("zone", ""))
            case _:
                yield from _one(endpoints.item(index, value))


def _one(entry: Field) -> Iterator[_Entry]:
    conditions = entry["conditions"]
    # By the API, an entry without a condition is ready and does not terminate.
    ready = conditions["ready"].boolean(default=True)
    if not conditions["terminating"].boolean(default=False):
        uid, zone = entry["targetRef"]["uid"].text(), entry["zone"].text()
        yield _Entry(_ip(entry["addresses"]), uid, ready, zone)


def _ip(addresses: Field) -> str:
    """Return the first address; by the API, clients ignore further ones."""
    for address in addresses.items():
        return ip_of(address)
    addresses.expected("at least one address")


# -- private Services ---------------------------------------------------------------------------
#
# The ClusterIP leads to all pods. Knative's counterpart: getPrivateServiceDest of
# pkg/activator/net/revision_backends.go.


def parse_private_service(obj: object) -> Mapping[AppProtocol, str]:
    """Return the addresses of a private Service.

    Arguments:
        obj: the object as decoded from JSON or YAML.

    Returns:
        ``ip:port`` by protocol, for the protocols whose port has their name. Empty for a Service
        without ClusterIP: it is headless, or an alias for a name.

    Raises:
        ManifestError: a field of it is wrong.
    """
    spec = root(obj, "Service")["spec"]
    cluster_ip = spec["clusterIP"]
    if cluster_ip.text() in ("", "None"):
        return {}
    # If there are two families, this field has the first one, which is the cluster's own.
    ip = host(ip_of(cluster_ip))
    ports = {p: port_named(spec["ports"], p.port_name) for p in HTTP_PROTOCOLS}
    return {protocol: f"{ip}:{port}" for protocol, port in ports.items() if port}


# Chooses between the Endpoints and the EndpointSlices of a revision, and merges their addresses.
#
# Knative's counterpart: pkg/activator/net/helpers.go (endpointsToDests). It reads only Endpoints,
# which Kubernetes truncates at 1,000 addresses.

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


class IpFamily(Enum):
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
    family: IpFamily = IpFamily.ANY

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
    family: IpFamily = IpFamily.ANY
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
    endpoints: Sequence[Part],
    slices: Sequence[Part],
    source: EndpointsSource,
    family: IpFamily,
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
    truncated, of_slices = (any(part.truncated for part in each) for each in (endpoints, slices))
    lacking = not endpoints or (slices and truncated and not of_slices)
    if source is EndpointsSource.AUTO and not lacking:
        return endpoints
    preferred = [part for part in slices if part.family is family]
    return preferred if not all(part.empty for part in preferred) else slices


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
    for protocol in HTTP_PROTOCOLS:
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
        for protocol in HTTP_PROTOCOLS
    }
