"""Turns a core/v1 Endpoints object into the pods, or the activators, of one revision.

Pure: an object goes in, a value or ``ManifestError`` comes out. It must not know whether the
revision exists, nor what was there before.
Knative's counterpart: pkg/activator/net/helpers.go (endpointsToDests) and the two Endpoints
handlers of pkg/activator/net/revision_backends.go and throttler.go.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from activator.discovery.fields import Field, root
from throttler.model import AppProtocol, Dest, Dests, RevisionID

SERVICE_TYPE_LABEL = "networking.internal.knative.dev/serviceType"
REVISION_LABEL = "serving.knative.dev/revision"
REVISION_UID_LABEL = "serving.knative.dev/revisionUID"

# Kubernetes sets this annotation where it left out addresses beyond 1,000.
OVER_CAPACITY_ANNOTATION = "endpoints.kubernetes.io/over-capacity"

# Checking an address costs a microsecond, and an event repeats all those that did not change.
_CHECKED_ADDRESSES = 16_384

_MAX_PORT = 65_535


@dataclass(frozen=True, slots=True)
class PrivateEndpoints:
    """The pods of a revision.

    Attributes:
        dests: for each protocol the pods under the port of that protocol.
        truncated: Kubernetes left out pods because there were too many for one object.
    """

    revision_id: RevisionID
    dests: Mapping[AppProtocol, Dests]
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class PublicEndpoints:
    """The IP addresses that the revision's public name leads to: activators, or pods."""

    revision_id: RevisionID
    addresses: Mapping[AppProtocol, frozenset[str]]


def parse(obj: object) -> PrivateEndpoints | PublicEndpoints | None:
    """Reads an Endpoints object.

    Args:
        obj: the object as decoded from JSON or YAML.

    Returns:
        The pods of a revision, the activators of a revision, or None where the object is neither
        and is to be ignored.

    Raises:
        ManifestError: the object belongs to a revision and a field of it is wrong.
    """
    endpoints = root(obj, "Endpoints")
    labels = endpoints["metadata"]["labels"]
    service_type = labels.mapping().get(SERVICE_TYPE_LABEL)
    if service_type == "Private" and REVISION_UID_LABEL in labels.mapping():
        dests = {protocol: _dests(endpoints, protocol) for protocol in AppProtocol}
        return PrivateEndpoints(_revision_id(endpoints), dests, _truncated(endpoints))
    if service_type == "Public":
        addresses = {protocol: _public(endpoints, protocol) for protocol in AppProtocol}
        return PublicEndpoints(_revision_id(endpoints), addresses)
    return None


def join(parts: Sequence[Mapping[AppProtocol, Dests]]) -> dict[AppProtocol, Dests]:
    """Merges what several Endpoints objects say of one revision.

    Args:
        parts: what each object says; none at all means that the revision has no pods.

    Returns:
        For every protocol the union. An address is in one set only, once; ready wins.
    """
    merged = {}
    for protocol in AppProtocol:
        ready: dict[str, Dest] = {}
        not_ready: dict[str, Dest] = {}
        for part in parts:
            dests = part.get(protocol, Dests())
            # Sorted, so that of two uids under one address always the same one is taken.
            for dest in sorted(dests.ready):
                ready.setdefault(dest.address, dest)
            for dest in sorted(dests.not_ready):
                not_ready.setdefault(dest.address, dest)
        merged[protocol] = _without_doubles(ready, not_ready)
    return merged


def _without_doubles(ready: Mapping[str, Dest], not_ready: Mapping[str, Dest]) -> Dests:
    waiting = (dest for address, dest in not_ready.items() if address not in ready)
    return Dests(ready=frozenset(ready.values()), not_ready=frozenset(waiting))


def _revision_id(endpoints: Field) -> RevisionID:
    metadata = endpoints["metadata"]
    namespace = metadata["namespace"]
    return RevisionID(
        "default" if namespace.value is None else namespace.name(),
        metadata["labels"].at(REVISION_LABEL).name(),
    )


def _truncated(endpoints: Field) -> bool:
    annotations = endpoints["metadata"]["annotations"].mapping()
    return annotations.get(OVER_CAPACITY_ANNOTATION) == "truncated"


def _dests(endpoints: Field, protocol: AppProtocol) -> Dests:
    ready: dict[str, Dest] = {}
    not_ready: dict[str, Dest] = {}
    for subset in endpoints["subsets"].items():
        port = _port(subset, protocol)
        if port:
            _collect(subset["addresses"], port, ready)
            _collect(subset["notReadyAddresses"], port, not_ready)
    return _without_doubles(ready, not_ready)


def _public(endpoints: Field, protocol: AppProtocol) -> frozenset[str]:
    found: set[str] = set()
    for subset in endpoints["subsets"].items():
        if _port(subset, protocol):
            found.update(_ip(address) for address in subset["addresses"].items())
    return frozenset(found)


def _port(subset: Field, protocol: AppProtocol) -> int:
    """The first port of that name, as Knative picks it; 0 where the subset has none."""
    for port in subset["ports"].items():
        if port["name"].text() == protocol.port_name:
            return port["port"].whole(minimum=1, maximum=_MAX_PORT, default=0)
    return 0


def _collect(addresses: Field, port: int, into: dict[str, Dest]) -> None:
    """Adds each pod under its ``ip:port``; of two entries for one address the first stays."""
    for index, entry in enumerate(addresses.sequence()):
        # Objects of 1,000 addresses are common: fields are only built to report what is wrong.
        if not isinstance(entry, dict):
            addresses.item(index, entry).expected("an object")
        ip = entry.get("ip")
        host = _host(ip) if type(ip) is str else ""
        if not host:
            host = _bracketed(_ip(addresses.item(index, entry)))
        address = f"{host}:{port}"
        into.setdefault(address, Dest(address, _uid(addresses, index, entry)))


def _uid(addresses: Field, index: int, entry: Mapping[str, object]) -> str:
    target = entry.get("targetRef")
    if target is None:
        return ""
    uid = target.get("uid", "") if isinstance(target, dict) else None
    if type(uid) is str:
        return uid
    return addresses.item(index, entry)["targetRef"]["uid"].text()


def _ip(address: Field) -> str:
    """The address' ip as written; all activators must sort the same strings."""
    ip = address["ip"]
    if ip.value is None:
        ip.expected("an IP address")
    if not _host(ip.text()):
        ip.expected("an IP address")
    return ip.text()


@lru_cache(maxsize=_CHECKED_ADDRESSES)
def _host(ip: str) -> str:
    """The address as it stands before a port; empty where it is no IP address."""
    try:
        ipaddress.ip_address(ip)
    except ValueError:
        return ""
    return _bracketed(ip)


def _bracketed(ip: str) -> str:
    return f"[{ip}]" if ":" in ip else ip
