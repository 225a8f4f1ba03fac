"""The DNS of the cluster: names of Services, over UDP. Kubernetes' counterpart: CoreDNS."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Mapping
from typing import Any, Final

from tests.cluster.network import Object

_DOMAIN: Final = ".svc.cluster.local"
_A: Final = 1  # the type of a record with an IPv4 address
#: Flags of a response (RFC 1035, section 4.1.1): it is authoritative, and has no error or NXDOMAIN.
_OK: Final = 0x8580
_NO_SUCH_NAME: Final = 0x8583
_SAME_NAME: Final = 0xC00C  # points to the name in the query (RFC 1035, section 4.1.4)


class Names:
    """The names of all Services: a ClusterIP, or the ready addresses of a headless Service."""

    def __init__(self, services: Mapping[str, Object], slices: Mapping[str, Object]) -> None:
        """
        Arguments:
            services, slices: by uid; read with each query.
        """
        self._services = services
        self._slices = slices

    async def listen(self, address: str) -> None:
        """Respond to queries on port 53 of an address."""
        loop = asyncio.get_running_loop()
        await loop.create_datagram_endpoint(lambda: _Server(self), (address, 53))

    def find(self, name: str) -> list[str] | None:
        """Return the addresses of a name, or None if there is no such Service."""
        if not name.endswith(_DOMAIN):
            return None
        service, _, namespace = name.removesuffix(_DOMAIN).rpartition(".")
        service = service.rpartition(".")[2]
        for found in self._services.values():
            metadata = found["metadata"]
            if (metadata["name"], metadata["namespace"]) == (service, namespace):
                address = found["spec"].get("clusterIP", "None")
                return self._ready(service, namespace) if address == "None" else [address]
        return None

    def _ready(self, service: str, namespace: str) -> list[str]:
        return [
            address
            for found in self._slices.values()
            if found["metadata"]["namespace"] == namespace
            and found["metadata"]["labels"].get("kubernetes.io/service-name") == service
            for endpoint in found.get("endpoints") or ()
            if (endpoint.get("conditions") or {}).get("ready") is not False
            for address in endpoint["addresses"]
        ]


class _Server(asyncio.DatagramProtocol):
    def __init__(self, names: Names) -> None:
        self._names = names
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self._transport.sendto(respond(data, self._names), addr)


def respond(query: bytes, names: Names) -> bytes:
    """Return the response to a query (RFC 1035, section 4.1)."""
    labels, place = [], 12
    while length := query[place]:
        labels.append(query[place + 1 : place + 1 + length].decode())
        place += 1 + length
    end = place + 5
    (kind,) = struct.unpack("!H", query[place + 1 : place + 3])
    found = names.find(".".join(labels).lower())
    addresses = found if found and kind == _A else []
    status = _NO_SUCH_NAME if found is None else _OK
    head = query[:2] + struct.pack("!HHHHH", status, 1, len(addresses), 0, 0)
    records = [
        struct.pack("!HHHIH", _SAME_NAME, _A, 1, 5, 4) + socket.inet_aton(address)
        for address in addresses
    ]
    return head + query[12:end] + b"".join(records)
