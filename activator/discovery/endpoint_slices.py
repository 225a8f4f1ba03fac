"""Turns a discovery.k8s.io/v1 EndpointSlice into some of the pods, or activators, of one revision.

Pure: an object goes in, a value or ``ManifestError`` comes out. It must not know the other slices
of the same Service.
Slices are known by the labels that Kubernetes copies: from the Service to the slices that it
fills itself, and from Endpoints to the slices that mirror them.
Knative has no counterpart: it reads Endpoints alone. Source of the meanings:
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
    without_doubles,
)
from activator.knative.labels import is_private, is_public, revision_of
from activator.objects.addresses import host, ip_of, port_named
from activator.objects.fields import Field, root
from throttler.model import AppProtocol, Endpoint, ListedEndpoints


def parse(obj: object) -> PrivateEndpoints | PublicEndpoints | None:
    """Reads an EndpointSlice.

    Arguments:
        obj: the object as decoded from JSON or YAML.

    Returns:
        Pods of a revision, activators of a revision, or None where the object is neither and is
        to be ignored.

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


class _Endpoint(NamedTuple):
    ip: str
    uid: str
    ready: bool


def _family(field: Field) -> Family:
    for family in (Family.IPV4, Family.IPV6):
        if field.value == family.value:
            return family
    # The third type, FQDN, is filled by no controller of Kubernetes.
    field.expected("IPv4 or IPv6")


def _endpoints(present: Iterable[_Endpoint], port: int) -> ListedEndpoints:
    ready: dict[str, Endpoint] = {}
    not_ready: dict[str, Endpoint] = {}
    for each in present if port else ():
        address = f"{host(each.ip)}:{port}"
        (ready if each.ready else not_ready).setdefault(address, Endpoint(address, each.uid))
    return without_doubles(ready, not_ready)


def _present(endpoints: Field) -> Iterator[_Endpoint]:
    """The endpoints that are not about to go.

    A pod that terminates is left out, as Kubernetes leaves it out of Endpoints: its queue-proxy
    has been told to finish what it has, so neither new requests nor probes are for it. What runs
    there finishes, since a pod that is listed no more is drained. Kubernetes' last resort, a
    terminating pod that still serves while there is no other, is for traffic that would be lost;
    here it waits, and the autoscaler hears of it.
    Because of this ``serving`` says nothing new: it differs from ``ready`` for such pods alone.
    """
    for index, value in enumerate(endpoints.sequence()):
        match value:
            # As Kubernetes writes nearly all of them: fields cost more than the rest together.
            case {
                "addresses": [str(ip), *_],
                "conditions": {"ready": bool(ready), "terminating": False},
                "targetRef": {"uid": str(uid)},
            } if host(ip):
                yield _Endpoint(ip, uid, ready)
            case _:
                yield from _one(endpoints.item(index, value))


def _one(entry: Field) -> Iterator[_Endpoint]:
    conditions = entry["conditions"]
    # Unknown is ready, and stays: so says the API.
    ready = conditions["ready"].boolean(default=True)
    if not conditions["terminating"].boolean(default=False):
        yield _Endpoint(_ip(entry["addresses"]), entry["targetRef"]["uid"].text(), ready)


def _ip(addresses: Field) -> str:
    """The first address; the API tells its readers to leave further ones alone."""
    for address in addresses.items():
        return ip_of(address)
    addresses.expected("at least one address")
