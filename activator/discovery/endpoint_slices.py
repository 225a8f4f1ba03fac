"""Parses a discovery.k8s.io/v1 EndpointSlice: some of the pods, or activators, of one revision.

Pure: the result is a value or ``ManifestError``. It must not know the other slices of the same
Service. A slice has the labels that Kubernetes copies: those on the Service, or on the Endpoints
that the slice mirrors. Knative has no counterpart: it reads only Endpoints. Source:
https://kubernetes.io/docs/concepts/services-networking/endpoint-slices/ and the API reference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from activator.discovery.destinations import (
    Family,
    PrivateEndpoints,
    PublicEndpoints,
    is_original,
    is_truncated,
    without_duplicates,
)
from activator.knative.labels import is_private, is_public, revision_of
from activator.objects.addresses import host, ip_of, port_named
from activator.objects.fields import Field, root
from throttler.model import AppProtocol, Endpoint, ListedEndpoints


def parse(obj: object) -> PrivateEndpoints | PublicEndpoints | None:
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
    ports = {p: port_named(slice_["ports"], p.port_name) for p in AppProtocol}
    present = list(_present(slice_["endpoints"]))
    if private:
        listed = {protocol: _endpoints(present, port) for protocol, port in ports.items()}
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


def _family(field: Field) -> Family:
    for family in (Family.IPV4, Family.IPV6):
        if field.value == family.value:
            return family
    # No controller of Kubernetes uses the third type, FQDN.
    field.expected("IPv4 or IPv6")


def _endpoints(present: Iterable[_Entry], port: int) -> ListedEndpoints:
    ready: dict[str, Endpoint] = {}
    not_ready: dict[str, Endpoint] = {}
    for each in present if port else ():
        address = f"{host(each.ip)}:{port}"
        (ready if each.ready else not_ready).setdefault(address, Endpoint(address, each.uid))
    return without_duplicates(ready, not_ready)


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
            } if host(ip):
                yield _Entry(ip, uid, ready)
            case _:
                yield from _one(endpoints.item(index, value))


def _one(entry: Field) -> Iterator[_Entry]:
    conditions = entry["conditions"]
    # By the API, an entry without a condition is ready and does not terminate.
    ready = conditions["ready"].boolean(default=True)
    if not conditions["terminating"].boolean(default=False):
        yield _Entry(_ip(entry["addresses"]), entry["targetRef"]["uid"].text(), ready)


def _ip(addresses: Field) -> str:
    """Return the first address; by the API, clients ignore further ones."""
    for address in addresses.items():
        return ip_of(address)
    addresses.expected("at least one address")
