"""Parses a core/v1 Endpoints object: the pods, or the activators, of one revision.

Pure: the result is a value or ``ManifestError``. It must not know whether the revision exists, nor
the previous state.
Knative's counterpart: pkg/activator/net/helpers.go (endpointsToDests) and the two Endpoints
handlers of pkg/activator/net/revision_backends.go and throttler.go.
"""

from __future__ import annotations

from collections.abc import Mapping

from activator.discovery.destinations import (
    PrivateEndpoints,
    PublicEndpoints,
    is_truncated,
    without_duplicates,
)
from activator.knative.labels import is_private, is_public, revision_of
from activator.objects.addresses import host, ip_of, port_named
from activator.objects.fields import Field, root
from throttler.model import AppProtocol, Endpoint, ListedEndpoints


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
        listed = {protocol: _endpoints(endpoints, protocol) for protocol in AppProtocol}
        return PrivateEndpoints(revision_of(endpoints), listed, is_truncated(endpoints))
    if is_public(endpoints):
        addresses = {protocol: _public(endpoints, protocol) for protocol in AppProtocol}
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
