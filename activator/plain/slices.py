"""Reads EndpointSlices of plain Services: the pods behind each port, and their conditions.

The conditions of an endpoint mean, as seen on the controllers of Kubernetes 1.36: a pod that
terminates and still serves has ``serving: true, terminating: true``. With
``publishNotReadyAddresses`` such a pod is also ``ready: true``, so ``terminating`` counts first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from ipaddress import ip_address
from typing import Final, NamedTuple

from activator.objects.fields import Field, host, ip_of, may_be_pod, root

SERVICE_LABEL: Final = "kubernetes.io/service-name"
MANAGED_BY_LABEL: Final = "endpointslice.kubernetes.io/managed-by"
#: The manager of the slices that the activator itself writes.
OURS: Final = "activator.dev"

_MAX_PORT: Final = 65_535


class Condition(Enum):
    """What a pod may take.

    READY: requests. NOT_READY: probes. DRAINING: requests only while no pod is ready or not
    ready. ENDING: nothing; its requests in flight finish.
    """

    READY = "ready"
    NOT_READY = "not-ready"
    DRAINING = "draining"
    ENDING = "ending"


class ListedPod(NamedTuple):
    """One pod; ``uid`` and ``zone`` are empty where the slice names none."""

    ip: str
    uid: str
    condition: Condition
    zone: str = ""


# Names of this module: a member of an enum is slow to find.
READY: Final = Condition.READY
NOT_READY: Final = Condition.NOT_READY
DRAINING: Final = Condition.DRAINING


@dataclass(frozen=True, slots=True)
class Slice:
    """The pods of a Service in one EndpointSlice.

    Attributes:
        service: the name of the Service, in the namespace of the slice.
        is_ipv6: whether the addresses are IPv6; slices list each family on its own.
        ports: numbers by name; the name of a port without a name is empty.
    """

    service: str
    is_ipv6: bool
    ports: Mapping[str, int]
    endpoints: tuple[ListedPod, ...]


def parse(obj: object) -> Slice | None:
    """Return the pods that an EndpointSlice lists.

    Arguments:
        obj: the object as decoded from JSON or YAML.

    Returns:
        None where no Service has the slice, where the activator wrote it, or where it lists names
        instead of addresses.

    Raises:
        ManifestError: a field is wrong.
    """
    slice_ = root(obj, "EndpointSlice")
    metadata = slice_["metadata"]
    service = metadata["labels"].at(SERVICE_LABEL).text()
    if not service or is_takeover(metadata):
        return None
    family = slice_["addressType"].text()
    if family not in ("IPv4", "IPv6"):
        return None
    endpoints = tuple(_endpoints(slice_["endpoints"]))
    return Slice(service, family == "IPv6", _ports(slice_["ports"]), endpoints)


def is_takeover(metadata: Field) -> bool:
    """Return whether an EndpointSlice is a takeover slice.

    Arguments:
        metadata: of the slice.

    Raises:
        ManifestError: the label is no text.
    """
    return metadata["labels"].at(MANAGED_BY_LABEL).text() == OURS


def _ports(ports: Field) -> Mapping[str, int]:
    numbers = {
        port["name"].text(): port["port"].whole(maximum=_MAX_PORT, default=0)
        for port in ports.items()
    }
    return {name: number for name, number in numbers.items() if number}


def count_ready(endpoints: Field) -> int:
    """Return how many of a slice's pods take new requests.

    ``terminating`` counts first: with ``publishNotReadyAddresses`` such a pod is also ready.

    Arguments:
        endpoints: the list in an EndpointSlice.

    Raises:
        ManifestError: a field of a condition is wrong.
    """
    count = 0
    for index, value in enumerate(endpoints.sequence()):
        conditions = value.get("conditions") if type(value) is dict else None
        # As in _usual: nearly all endpoints have this form.
        if type(conditions) is dict and conditions.get("terminating", False) is False:
            ready = conditions.get("ready")
            if type(ready) is bool:
                count += ready
                continue
        fields = endpoints.item(index, value)["conditions"]
        if not fields["terminating"].boolean(default=False):
            count += fields["ready"].boolean(default=True)
    return count


def _endpoints(endpoints: Field) -> Iterator[ListedPod]:
    for index, value in enumerate(endpoints.sequence()):
        # Reading the fields of each of 1,000 endpoints would cost more than the rest of an event.
        yield _usual(value) or _endpoint(endpoints.item(index, value))


def _usual(value: object) -> ListedPod | None:
    """Return an endpoint as Kubernetes writes nearly all of them; None for any other form."""
    if type(value) is not dict:
        return None
    addresses, conditions = value.get("addresses"), value.get("conditions")
    target = value.get("targetRef")
    if not (type(addresses) is list and type(conditions) is dict and type(target) is dict):
        return None
    ready, uid = conditions.get("ready"), target.get("uid")
    if not addresses or type(uid) is not str or conditions.get("terminating", False) is not False:
        return None
    ip, zone = addresses[0], value.get("zone", "")
    if type(ready) is not bool or type(ip) is not str or not may_be_pod(ip):
        return None
    return ListedPod(ip, uid, READY if ready else NOT_READY, zone) if type(zone) is str else None


def _endpoint(entry: Field) -> ListedPod:
    addresses = list(entry["addresses"].items())
    if not addresses:
        entry["addresses"].expected("at least one address")
    uid = entry["targetRef"]["uid"].text()
    ip = ip_of(addresses[0])
    if not may_be_pod(ip):
        addresses[0].expected("the address of a pod: not unspecified, link-local or multicast")
    return ListedPod(ip, uid, condition_of(entry["conditions"]), entry["zone"].text())


def condition_of(conditions: Field) -> Condition:
    """Return what a pod may take; an absent condition reads as the API defines it.

    Arguments:
        conditions: of an endpoint.

    Raises:
        ManifestError: a condition is no boolean.
    """
    ready = conditions["ready"].boolean(default=True)
    serving = conditions["serving"].boolean(default=ready)
    if conditions["terminating"].boolean(default=False):
        return DRAINING if serving else Condition.ENDING
    return READY if ready else NOT_READY


def join(slices: Iterable[Slice], port: str, *, ipv6: bool) -> Mapping[str, ListedPod]:
    """Return the pods behind one port, over all slices of a Service.

    Arguments:
        port: the name of the Service port.
        ipv6: which addresses to use where pods have both; the others only where there are none.

    Returns:
        Pods by ``ip:port``, IPv6 in brackets. A pod with two addresses counts once. Of two
        conditions under one address the better one counts: the lists pass each other.
    """
    found: dict[bool, dict[str, ListedPod]] = {True: {}, False: {}}
    for each in slices:
        number = each.ports.get(port)
        if number is not None:
            _add(each, number, found[each.is_ipv6])
    preferred, others = found[ipv6], found[not ipv6]
    if not preferred or not others:
        return preferred or others
    uids = {endpoint.uid for endpoint in preferred.values()} - {""}
    rest = {at: one for at, one in others.items() if one.uid and one.uid not in uids}
    return {**preferred, **rest}


def _add(slice_: Slice, port: int, into: dict[str, ListedPod]) -> None:
    if not into:
        into.update({f"{host(each.ip)}:{port}": each for each in slice_.endpoints})
        if len(into) == len(slice_.endpoints):
            return  # nearly always: no address comes twice
        into.clear()
    for endpoint in slice_.endpoints:
        address = f"{host(endpoint.ip)}:{port}"
        known = into.setdefault(address, endpoint)
        if known is not endpoint and _order(endpoint) < _order(known):
            into[address] = endpoint


_RANK: Final = {condition: rank for rank, condition in enumerate(Condition)}


def _order(endpoint: ListedPod) -> tuple[int, str]:
    return _RANK[endpoint.condition], endpoint.uid


# Reads the port that is allotted to a Service, from the slice that the scaler writes for it.
#
# The program ``activator scale`` writes these slices, and every activator listens on the port.

# The ports of one Service at the activators: which is allotted, claimed, or leads back.

#: The annotation of a takeover slice that stores the allotted port.
PORT_ANNOTATION: Final = "activator.dev/port"


class Allotment(NamedTuple):
    """One takeover slice.

    Attributes:
        created: ``creationTimestamp`` of the slice; of two that claim a port the older has it.
        service: the name of the Service, in the namespace of the slice.
        port: where the activators listen for this Service alone; 0 if the annotation is wrong.
        is_empty: whether the slice lists no activator, so that new connections reach the pods.
            With route ``front`` it then lists the pods: each of them has a target.
    """

    created: str
    service: str
    port: int
    is_empty: bool


def parse_allotment(obj: object) -> Allotment | None:
    """Return the allotment that a takeover slice stores; None for any other slice.

    Arguments:
        obj: the object as decoded from JSON or YAML.

    Raises:
        ManifestError: a field is wrong.
    """
    slice_ = root(obj, "EndpointSlice")
    metadata = slice_["metadata"]
    if not is_takeover(metadata):
        return None
    return Allotment(
        metadata["creationTimestamp"].text(),
        metadata["labels"].at(SERVICE_LABEL).text(),
        port_of(metadata),
        all(each["targetRef"].value is not None for each in slice_["endpoints"].items()),
    )


def port_of(metadata: Field) -> int:
    """Return the port that a takeover slice stores; 0 if the annotation is missing or wrong.

    Raises:
        ManifestError: the annotation is no text.
    """
    text = metadata["annotations"].at(PORT_ANNOTATION).text()
    is_port = text.isascii() and text.isdigit() and len(text) <= 5 and 0 < int(text) <= _MAX_PORT
    return int(text) if is_port else 0


# Knows which addresses lead back to this activator. It must not use one of them as a pod.
#
# A folder of manifests may list any address, such as 127.0.0.1:8012.


class OwnListener(NamedTuple):
    """A port on which this process listens.

    Attributes:
        host: the IP address that it is bound to; ``0.0.0.0`` and ``::`` stand for all.
        port: its number.
        setting: the setting that chooses the port, for people.
    """

    host: str
    port: int
    setting: str


class OwnListeners:
    """The ports on which this process listens.

    Arguments:
        listeners: port 0 is left out: it stands for any free port.
        own_ip: the address of this process in the cluster; empty if it is unknown.
    """

    def __init__(self, listeners: Iterable[OwnListener] = (), own_ip: str = "") -> None:
        self._own_ip = own_ip
        self._by_port: dict[int, list[OwnListener]] = {}
        for each in listeners:
            if each.port:
                self._by_port.setdefault(each.port, []).append(each)

    def has_port(self, port: int) -> bool:
        """Return whether this process listens on a port at any address."""
        return port in self._by_port

    def among(self, addresses: Iterable[str]) -> Mapping[str, str]:
        """Return the addresses that lead back to this process, each with the port's setting.

        Arguments:
            addresses: each is ``ip:port``, IPv6 in brackets.
        """
        found = {}
        for address in addresses:
            ip, _, port = address.rpartition(":")
            for each in self._by_port.get(int(port), ()):
                if self._leads_to(each.host, ip.strip("[]")):
                    found[address] = each.setting
                    break
        return found

    def _leads_to(self, host: str, ip: str) -> bool:
        if host not in _ALL:
            return ip_address(host) == ip_address(ip)
        # No other process can listen on this port at one of this machine's addresses.
        return ip == self._own_ip or ip_address(ip).is_loopback


#: The addresses that stand for all addresses of a machine.
_ALL: Final = frozenset({"0.0.0.0", "::"})
#: No port is known.
NO_LISTENERS: Final = OwnListeners()
