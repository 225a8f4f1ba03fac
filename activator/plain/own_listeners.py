"""Knows which addresses lead back to this activator. It must not use one of them as a pod.

A folder of manifests may list any address, such as 127.0.0.1:8012. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import Final, NamedTuple


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
