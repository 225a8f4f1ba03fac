"""Finds requests that are for no revision: probes, contradictions and loops. Describes ports."""

from __future__ import annotations

import re
from collections.abc import Callable
from http import HTTPStatus
from typing import Final, final

from activator.knative.words import (
    AUTOSCALER,
    INGRESS,
    KUBELET_AGENT,
    KUBELET_PROBE,
    NAMESPACE,
    NETWORK_HASH,
    NETWORK_PROBE,
    REVISION,
)
from activator.proxy.message import own_responses
from activator.proxy.message.fields import SERVICE
from activator.proxy.message.request import Request

#: A number, since CPython tests ``bytes in bytes`` by way of an exception, which takes 0.6 µs.
_COMMA = ord(",")
_FORWARDED_FOR: Final = b"x-forwarded-for"
#: From this number of addresses in X-Forwarded-For on, a request is in a loop.
_MOST_HOPS: Final = 32
#: So many addresses, of the shortest form ``::1``, have at least as many bytes.
_SHORTEST: Final = 4 * _MOST_HOPS - 1
_KUBELET = re.compile(rb"\r\n[Uu](?i:ser-agent):[ \t]*" + re.escape(KUBELET_AGENT))


@final
class Admission:
    """How the admission port reads the requests that proxies describe.

    Attributes:
        prefix: stands before the path of a request without fields that describe another one.
        longest: bytes of the longest target.
    """

    __slots__ = ("longest", "prefix")

    def __init__(self, prefix: bytes, longest: int) -> None:
        self.prefix: Final = prefix
        self.longest: Final = longest


@final
class ClientPort:
    """A port on which the activator accepts clients; all its connections share this record.

    Attributes:
        admission: set on the admission port, whose clients are proxies that ask for a pod.
        service: ``namespace/name`` of the plain Service to which the port belongs; empty if it is
            for all revisions.
        reconnect: whether new connections would reach the pods of that Service directly. Then each
            response is the last on its connection; in HTTP/2, GOAWAY follows it.
        insists: whether HTTP/2 connections that are never idle get GOAWAY too.
    """

    __slots__ = ("admission", "insists", "reconnect", "service")

    def __init__(self, service: bytes = b"", admission: Admission | None = None) -> None:
        self.admission: Final = admission
        self.service: Final = service
        self.reconnect = self.insists = False


#: The ports for all revisions.
SHARED: Final = ClientPort()


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


def probe_response(
    request: Request, port: ClientPort, unhealthy: Callable[[], str], *, may_be_kubelet: bool
) -> own_responses.OwnResponse | None:
    """Return the response to a probe of kubelet, ingress or autoscaler; None for other requests.

    A request that names two revisions gets 400, one in a loop 508. All other requests on the port
    of a plain Service are for its pods. On the admission port, probes are requests like others: a
    proxy would take a response 200 as permission to send them to a service that sleeps.

    Arguments:
        request: any request of a client.
        port: the port that the client has connected to.
        unhealthy: returns why the activator is not ready; empty while it is ready.
        may_be_kubelet: whether the head has ``KUBELET_AGENT`` anywhere.
    """
    fields = request.fields
    if port.service:
        return _loop(fields)
    probe, wrong = b"", contradiction(fields) if fields else ""
    if port.admission is None:
        if not (fields or may_be_kubelet):
            return None
        if fields.get(KUBELET_PROBE) or (may_be_kubelet and _KUBELET.search(request.lines)):
            why = unhealthy()
            return own_responses.unhealthy(why) if why else own_responses.HEALTHY
        probe = fields.get(NETWORK_PROBE, b"").rstrip(b" \t")
    if not probe:
        if wrong:
            return own_responses.refused(400, wrong)
        return _loop(fields) if len(fields.get(_FORWARDED_FOR, b"")) >= _SHORTEST else None
    if probe == INGRESS:
        return own_responses.network_probe(fields.get(NETWORK_HASH, b"").rstrip(b" \t"))
    if probe == AUTOSCALER:
        return own_responses.ACTIVATOR_PROBE
    return own_responses.unexpected_probe(probe)


def _loop(fields: dict[bytes, bytes]) -> own_responses.OwnResponse | None:
    """Return the response to a request that passes the activator again and again; else None.

    The pods of a Service may be activators by mistake. Then each round adds an address to
    X-Forwarded-For, and takes two connections. Requests with the header of Knative's ingress are
    exempt: their Endpoints list pods with queue-proxy.

    Arguments:
        fields: the handled fields of the request, by name in lower case.
    """
    forwarded_for = fields.get(_FORWARDED_FOR, b"")
    if len(forwarded_for) < _SHORTEST or REVISION in fields:
        return None
    hops = forwarded_for.count(b",") + 1
    if hops < _MOST_HOPS:
        return None
    text = f"X-Forwarded-For has {hops} addresses: the request passes the activator again and again"
    return own_responses.refused(HTTPStatus.LOOP_DETECTED, text)
