"""Reads IP addresses and ports as objects have them, and writes them as a connection needs them.

Pure. It must not know what is behind an address.
"""

from __future__ import annotations

import ipaddress
from functools import lru_cache

from activator.objects.fields import Field

# Checking an address costs a microsecond, and an event repeats all those that did not change.
_CHECKED_ADDRESSES = 16_384

_MAX_PORT = 65_535


@lru_cache(maxsize=_CHECKED_ADDRESSES)
def host(ip: str) -> str:
    """The address as it stands before a port: IPv6 in brackets; empty where it is no address."""
    try:
        ipaddress.ip_address(ip)
    except ValueError:
        return ""
    return f"[{ip}]" if ":" in ip else ip


def ip_of(field: Field) -> str:
    """The IP address as written, since all activators must sort the same strings.

    Raises:
        ManifestError: it is none.
    """
    text = field.text()
    if not host(text):
        field.expected("an IP address")
    return text


def port_named(ports: Field, name: str) -> int:
    """The first port of that name, as Knative picks it.

    Arguments:
        ports: a list of objects with ``name`` and ``port``.
        name: which one.

    Returns:
        Its number; 0 where there is none of that name, or it has no number.

    Raises:
        ManifestError: the list, or a port before that one, is wrong.
    """
    for port in ports.items():
        if port["name"].text() == name:
            return port["port"].whole(minimum=1, maximum=_MAX_PORT, default=0)
    return 0
