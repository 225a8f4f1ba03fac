"""Responds to probes of the activator, to requests that name two revisions, and to loops.

The order is that of Knative's handler chain (cmd/activator/main.go): kubelet's probe, ingress's
probe, autoscaler's probe. A probe may have any method, path and port.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from activator.knative.words import (
    AUTOSCALER,
    INGRESS,
    KUBELET_AGENT,
    KUBELET_PROBE,
    NETWORK_HASH,
    NETWORK_PROBE,
    REVISION,
)
from activator.proxy.exchange.lookup import contradiction
from activator.proxy.exchange.port import Port
from activator.proxy.message import own_responses
from activator.proxy.message.request import Request

_FORWARDED_FOR: Final = b"x-forwarded-for"
#: From this number of addresses in X-Forwarded-For on, a request is in a loop.
_MOST_HOPS: Final = 32
#: So many addresses, of the shortest form ``::1``, have at least as many bytes.
_SHORTEST: Final = 4 * _MOST_HOPS - 1

_KUBELET = re.compile(rb"\r\n[Uu](?i:ser-agent):[ \t]*" + re.escape(KUBELET_AGENT))


def probe_response(
    request: Request, port: Port, unhealthy: Callable[[], str]
) -> own_responses.OwnResponse | None:
    """Return the response to a probe of kubelet, ingress or autoscaler; None for other requests.

    A request that names two revisions gets 400, one in a loop 508. All other requests on the port
    of a plain Service are for its pods. On the admission port, probes are requests like others: a
    proxy would take a response 200 as permission to send them to a service that sleeps.

    Arguments:
        request: any request of a client.
        port: the port that the client has connected to.
        unhealthy: returns why the activator is not ready; empty while it is ready.
    """
    fields = request.fields
    if port.service:
        return _loop(fields)
    probe = b""
    if port.admission is None:
        block = request.section or request.lines
        may_be = block.find(KUBELET_AGENT) >= 0  # not `in`, see lookup._COMMA
        if not (fields or may_be):
            return None
        if fields.get(KUBELET_PROBE) or (may_be and _KUBELET.search(request.lines)):
            why = unhealthy()
            return own_responses.unhealthy(why) if why else own_responses.HEALTHY
        probe = fields.get(NETWORK_PROBE, b"").rstrip(b" \t")
    if not probe:
        wrong = contradiction(fields)
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
