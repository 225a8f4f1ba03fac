"""Reads class and flow of a request, which decide its place in the queue of its revision.

Everything here comes from clients. A class counts only if the revision trusts its clients. A forged
flow gets its sender a queue of its own, so the ingress should set the header.
"""

from __future__ import annotations

from typing import Final

from activator.proxy.exchange.request_key import ClientAddresses, bounded
from activator.proxy.http2.hpack import line
from activator.proxy.http2.section import forwarded
from activator.proxy.message.fields import PRIORITY
from activator.proxy.message.request import Request
from throttler.model import FlowKey, QueueOrder
from throttler.request_policies import HIGH, LOW, NORMAL
from throttler.ticket import Ticket

_CLASSES: Final[dict[bytes, int]] = {b"high": HIGH, b"normal": NORMAL, b"low": LOW}
_LINE_START: Final = b"\r\nActivator-Priority: "


def set_place(
    ticket: Ticket, order: QueueOrder, request: Request, peer: bytes, clients: ClientAddresses
) -> None:
    """Set class and flow of a request that has no pod yet.

    Arguments:
        ticket: its ticket.
        order: of the queue of its revision.
        request: the client's request.
        peer: the IP address at the other end of the connection.
        clients: finds the addresses of clients.
    """
    if order.has_classes:
        ticket.priority = priority_of(request, order)
    if order.fair_by is not None:
        ticket.flow = flow_of(request, order.fair_by, peer, clients)


def priority_of(request: Request, order: QueueOrder) -> int:
    """Return the class of a request, see throttler.request_policies.

    A field that is absent, repeated with another value, or unknown means the class of the revision.
    """
    if not order.trusts_header or PRIORITY not in request.fields:
        return order.priority
    value = request.fields[PRIORITY].strip(b" \t").lower()
    return _CLASSES.get(value, order.priority)


def flow_of(request: Request, key: FlowKey, peer: bytes, clients: ClientAddresses) -> bytes:
    """Return the name of a request's flow; empty if it does not have the header field.

    Arguments:
        request: the client's request.
        key: the part of the request.
        peer: the IP address at the other end of the connection.
        clients: finds the addresses of clients.
    """
    if key.header:
        return bounded(request.value_of(key.header))
    return clients.client_of(request, peer)


def with_priority(request: Request, peer: bytes) -> Request:
    """Return a request whose field Activator-Priority the pod gets too.

    The activator removes this field from all other requests.

    Arguments:
        request: the client's request, which has the field.
        peer: the IP address at the other end of the connection.
    """
    value = request.fields[PRIORITY].strip(b" \t")
    section = request.section
    if section:
        end = forwarded(request.host, request.fields, peer)
        section = section.removesuffix(end) + line(PRIORITY, value) + end
    return request.copy(request.fields, request.lines + _LINE_START + value, section)
