"""The ports of one Service at the activators: which is allotted, claimed, or leads back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import Final, NamedTuple

from activator.objects.fields import Field, root
from activator.plain.slices import SERVICE_LABEL, is_takeover

# Reads the port that is allotted to a Service, from the slice that the scaler writes for it.
#
# The program ``activator scale`` writes these slices, and every activator listens on the port.

#: The annotation of a takeover slice that stores the allotted port.
PORT_ANNOTATION: Final = "activator.dev/port"

_MAX_PORT: Final = 65_535


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


def parse(obj: object) -> Allotment | None:
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
# A folder of manifests may list any address, such as 127.0.0.1:8012. Pure.


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
