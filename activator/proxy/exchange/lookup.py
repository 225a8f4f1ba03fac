"""Finds the revision of a request.

A port that belongs to one plain Service decides alone: any client may reach it. On other ports, the
two control fields name a revision of Knative, and the field ``Activator-Service`` a plain Service;
the ingress sets them. Without them, the host decides. Knative:
pkg/activator/handler/context_handler.go.
"""

from __future__ import annotations

from activator.knative.words import NAMESPACE, REVISION
from activator.proxy.exchange.client_side import ClientSide
from activator.proxy.exchange.port import Port
from activator.proxy.exchange.request_key import ClientAddresses
from activator.proxy.message.fields import SERVICE
from activator.proxy.message.request import Request
from activator.records.entries import Entries, Entry
from throttler.errors import RevisionNotFound

#: A number, since CPython tests ``bytes in bytes`` by way of an exception, which takes 0.6 µs.
_COMMA = ord(",")


def find(
    entries: Entries, request: Request, port: Port, side: ClientSide, namers: ClientAddresses | None
) -> Entry:
    """Return the entry of the revision that a request names.

    Arguments:
        entries: the entries of all revisions.
        request: the client's request.
        port: the port that the client has connected to.
        side: of the client.
        namers: know which clients may name a Service; None if all may.

    Raises:
        RevisionNotFound: the request names no revision, or an unknown one.
    """
    service = port.service
    if service:
        return entries.find_service(service)
    fields = request.fields
    if not fields:
        return entries.find_host(request.host)
    namespace = fields.get(NAMESPACE, b"")
    name = fields.get(REVISION, b"")
    if namespace and name:
        if _COMMA in name or _COMMA in namespace:  # a repeated name, see ``contradiction``
            namespace, name = namespace.partition(b",")[0], name.partition(b",")[0]
        return entries.find(namespace.strip(b" \t"), name.strip(b" \t"))
    if SERVICE in fields:
        service, client = fields[SERVICE].partition(b",")[0].strip(b" \t"), side.address()
        if namers is None or namers.trusts(client) or _is_peer(entries, service, client):
            return entries.find_service(service)
    return entries.find_host(request.host, name.partition(b",")[0].strip(b" \t"))


def _is_peer(entries: Entries, service: bytes, client: bytes) -> bool:
    """Return whether a client is another activator of a Service: throttler.backends sends to it."""
    try:
        addresses = entries.find_service(service).throttler.share.addresses
    except RevisionNotFound:
        return False
    return client.decode("latin-1") in (each.rpartition(":")[0].strip("[]") for each in addresses)


def contradiction(fields: dict[bytes, bytes]) -> str:
    """Return an error text if a request names two revisions; empty otherwise.

    That happens if an ingress appends its control field to one of the client. A repeated name is
    no error.

    Arguments:
        fields: the handled fields of the request, by name in lower case.
    """
    if (
        _COMMA in fields.get(REVISION, b"")
        or _COMMA in fields.get(NAMESPACE, b"")
        or _COMMA in fields.get(SERVICE, b"")
    ):
        return _one_each(fields)
    return ""


def _one_each(fields: dict[bytes, bytes]) -> str:
    for name in (REVISION, NAMESPACE, SERVICE):
        first, *others = [part.strip(b" \t") for part in fields.get(name, b"").split(b",")]
        if any(other != first for other in others):
            return f"{name.decode()} occurs twice with different values"
    return ""
