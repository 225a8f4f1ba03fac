"""Responds to admission requests: a proxy asks for a pod, and sends the client's request to it.

An admission request is an exchange without a pod's side. It is queued, counted, logged and ended as
any other request. Only its response is the activator's own, and names the pod. The ticket ends with
the response, so the slot is free again before the pod gets the client's request. Knative has no
counterpart.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from activator.proxy.exchange.lookup import Admission
from activator.proxy.exchange.states import DONE
from activator.proxy.message import own_responses
from activator.proxy.message.described import described, without_body
from activator.proxy.message.error_forms import negotiate
from activator.proxy.message.grammar import FramingError
from activator.proxy.message.own_responses import OwnResponse
from throttler.pod import PodTracker

if TYPE_CHECKING:
    from activator.proxy.exchange.exchange import Exchange

_POD: Final = b"\r\nActivator-Pod: "


def read(exchange: Exchange, admission: Admission) -> bool:
    """Replace a proxy's request by the request that it describes.

    Arguments:
        exchange: the exchange of the admission request.
        admission: how the port reads it.

    Returns:
        Whether the description is well-formed. If not, the proxy has its error response.
    """
    request = exchange.request
    try:
        exchange.request = described(request, admission.prefix, admission.longest)
    except FramingError as error:
        exchange.state = DONE
        exchange.request = without_body(request)
        exchange.services.counters.bad_requests += 1
        refused = own_responses.refused(error.status, str(error))
        exchange.client.send_own_response(negotiate(refused, request.lines))
        return False
    return True


def respond(exchange: Exchange, pod: PodTracker, now: float) -> None:
    """Send the response that names the pod, and end the exchange.

    A queued admission request gets it in the next turn of the loop. The end of one request assigns
    the slot to the next one in the queue. Without the turn, thousands of calls would be nested.

    Arguments:
        exchange: the exchange of the admission request; its state is CONNECTING.
        pod: the assigned pod.
        now: seconds.
    """
    if exchange.trace is not None:
        exchange.trace.assigned(pod.address)
    if exchange.wait is None:
        _respond(exchange, pod, now)
    else:
        asyncio.get_running_loop().call_soon(_respond, exchange, pod, now)


def _respond(exchange: Exchange, pod: PodTracker, now: float) -> None:
    if exchange.state is DONE:
        return
    lines = exchange.added_lines
    if exchange.wait is not None:
        lines += exchange.wait.responded(pod, now)
    response = OwnResponse(200, _POD + pod.address.encode() + lines)
    exchange.client.base.idle_since = now
    exchange.end("admitted", response.status, 0, now)
    exchange.client.send_own_response(response)
