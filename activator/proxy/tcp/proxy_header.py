"""Writes the PROXY header, which names the client of a connection to its pod.

Source: https://www.haproxy.org/download/3.2/doc/proxy-protocol.txt, sections 2.1 and 2.2.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, Final

from throttler.request_policies import ProxyHeader

_SIGNATURE: Final = b"\r\n\r\n\0\r\nQUIT\n"
#: Version 2 with the command PROXY; TCP over either version of IP.
_COMMAND: Final = 0x21
_FAMILIES: Final = {4: 0x11, 6: 0x21}


def proxy_header(version: ProxyHeader, client: Any, server: Any) -> bytes:
    """Return the header of a connection.

    Arguments:
        version: of the header.
        client, server: the two addresses of the client's connection, as the socket module has them.
    """
    source, target = _ip(client[0]), _ip(server[0])
    ports = client[1], server[1]
    if version is ProxyHeader.V1:
        return b"PROXY TCP%d %b %b %d %d\r\n" % (
            *(source.version, str(source).encode(), str(target).encode()),
            *ports,
        )
    addresses = source.packed + target.packed + b"".join(port.to_bytes(2, "big") for port in ports)
    kind = bytes((_COMMAND, _FAMILIES[source.version]))
    return _SIGNATURE + kind + len(addresses).to_bytes(2, "big") + addresses


def _ip(text: str) -> IPv4Address | IPv6Address:
    """Return an address; a socket for both families shows IPv4 inside IPv6."""
    address = ip_address(text.partition("%")[0])
    return getattr(address, "ipv4_mapped", None) or address
