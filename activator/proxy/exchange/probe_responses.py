"""Responds to probes of the activator, and to requests that name two revisions.

The order is that of Knative's handler chain (cmd/activator/main.go): kubelet's probe, ingress's
probe, autoscaler's probe. A probe may have any method, path and port.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from activator.knative.control_fields import KUBELET_PROBE, NETWORK_HASH, NETWORK_PROBE
from activator.knative.probes import AUTOSCALER, INGRESS, KUBELET_AGENT
from activator.proxy.exchange.lookup import contradiction
from activator.proxy.exchange.sides import Port
from activator.proxy.message import own_responses
from activator.proxy.message.request import Request

_KUBELET = re.compile(rb"\r\n[Uu](?i:ser-agent):[ \t]*" + re.escape(KUBELET_AGENT))


def may_be_kubelet(block: bytes) -> bool:
    """Return whether header fields may belong to kubelet's probe; False for nearly all requests."""
    return block.find(KUBELET_AGENT) >= 0  # not `in`, see lookup._COMMA


def probe_response(
    request: Request, port: Port, unhealthy: Callable[[], str]
) -> own_responses.OwnResponse | None:
    """Return the response to a probe of kubelet, ingress or autoscaler; None for other requests.

    A request that names two revisions gets 400. All requests on the port of a plain Service are for
    its pods.

    Arguments:
        request: any request of a client.
        port: the port that the client has connected to.
        unhealthy: returns why the activator is not ready; empty while it is ready.
    """
    if port.service:
        return None
    fields = request.fields
    may_be = may_be_kubelet(request.section or request.lines)
    if fields.get(KUBELET_PROBE) or (may_be and _KUBELET.search(request.lines)):
        why = unhealthy()
        return own_responses.unhealthy(why) if why else own_responses.HEALTHY
    probe = fields.get(NETWORK_PROBE, b"").rstrip(b" \t")
    if not probe:
        wrong = contradiction(fields)
        return own_responses.refused(400, wrong) if wrong else None
    if probe == INGRESS:
        return own_responses.network_probe(fields.get(NETWORK_HASH, b"").rstrip(b" \t"))
    if probe == AUTOSCALER:
        return own_responses.ACTIVATOR_PROBE
    return own_responses.unexpected_probe(probe)
