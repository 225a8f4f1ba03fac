"""Reads IP addresses and ports of objects, and writes them in the form for a connection.

The module is pure. It must not know which process has an address.
"""

from __future__ import annotations

import ipaddress
from functools import lru_cache

from activator.objects.fields import Field

# Checking an address costs a microsecond, and an event repeats all unchanged addresses.
_CHECKED_ADDRESSES = 16_384

_MAX_PORT = 65_535


@lru_cache(maxsize=_CHECKED_ADDRESSES)
def host(ip: str) -> str:
    """Return the address in its form before a port: IPv6 in brackets; empty for no address."""
    try:
        ipaddress.ip_address(ip)
    except ValueError:
        return ""
    return f"[{ip}]" if ":" in ip else ip


@lru_cache(maxsize=_CHECKED_ADDRESSES)
def may_be_pod(ip: str) -> bool:
    """Return whether a text is an IP address that a pod can have.

    The API server refuses unspecified, link-local and multicast addresses in EndpointSlices, and
    loopback addresses too. Pods of a folder may have loopback addresses. Source:
    ValidateNonSpecialIP in Kubernetes pkg/apis/core/validation.
    """
    if not host(ip):
        return False
    address = ipaddress.ip_address(ip)
    # The kernel sends a mapped address to the IPv4 address in it.
    known = getattr(address, "ipv4_mapped", None) or address
    return not (known.is_unspecified or known.is_link_local or known.is_multicast)


def ip_of(field: Field) -> str:
    """Return the IP address unchanged, since all activators must sort the same strings.

    Raises:
        ManifestError: the field has no IP address.
    """
    text = field.text()
    if not host(text):
        field.expected("an IP address")
    return text


def port_named(ports: Field, name: str) -> int:
    """Return the first port of a name, which Knative uses.

    Arguments:
        ports: a list of objects with ``name`` and ``port``.
        name: the name.

    Returns:
        Its number; 0 if no port has that name, or if the port has no number.

    Raises:
        ManifestError: the list, or a port up to that one, is wrong.
    """
    for port in ports.items():
        if port["name"].text() == name:
            return port["port"].whole(minimum=1, maximum=_MAX_PORT, default=0)
    return 0
