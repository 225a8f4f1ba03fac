"""Responds to admission requests: a proxy asks for a pod, and sends the client's request to it.

The proxy describes the client's request in one of three forms. nginx's ``auth_request`` sends
X-Original-URL and X-Original-Method, as the how-to configures it. Forward authentication of Traefik
and Caddy sends X-Forwarded-Method, X-Forwarded-Host and X-Forwarded-Uri. Envoy's ``ext_authz``
sends the request itself, its path behind a prefix.

An admission request is an exchange without a pod's side. It is queued, counted, logged and ended as
any other request. Only its response is the activator's own, and names the pod. The ticket ends with
the response, so the slot is free again before the pod gets the client's request. Knative has no
counterpart.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Final

from activator.proxy.exchange.sides import DONE
from activator.proxy.message import own_responses
from activator.proxy.message.error_forms import negotiate
from activator.proxy.message.fields import HTTP_2
from activator.proxy.message.grammar import FramingError
from activator.proxy.message.own_responses import OwnResponse
from activator.proxy.message.request import HOST, METHOD, Request
from throttler.pod import PodTracker

if TYPE_CHECKING:
    from activator.proxy.client.connection import Admission
    from activator.proxy.exchange.exchange import Exchange


_ORIGINAL_URL: Final = b"x-original-url"
_ORIGINAL_METHOD: Final = b"x-original-method"
_FORWARDED_URI: Final = b"x-forwarded-uri"
_FORWARDED_METHOD: Final = b"x-forwarded-method"
_FORWARDED_HOST: Final = b"x-forwarded-host"
#: No value has a space, so a repeated field, whose values are joined by ``, ``, is malformed.
_TARGET: Final = re.compile(rb'/[!"$-~\x80-\xff]*|\*')
_URL: Final = re.compile(rb'(?i:https?)://([^/?#\s]*)([!"$-~\x80-\xff]*)')
_TOO_LONG: Final = 414


#: The start of a request: its method, its host, and its target in origin form.
Line = tuple[bytes, bytes, bytes]


def described(request: Request, prefix: bytes, longest: int) -> Request:
    """Return the request that a proxy describes, see ``without_body``.

    Arguments:
        request: the request of the proxy.
        prefix: stands before the path of a request without fields that describe another one.
        longest: bytes of the longest target.

    Raises:
        FramingError: the description is malformed, or two descriptions differ. ``status`` is the
            status of the error response.
    """
    method, host, target = line = _line(request, prefix)
    if len(target) > longest:
        raise FramingError("the described target is too long", _TOO_LONG)
    if METHOD.fullmatch(method) is None:
        raise FramingError("malformed method in the description")
    if _TARGET.fullmatch(target) is None:
        raise FramingError("malformed target in the description")
    if host and (HOST.fullmatch(host) is None or b"," in host):
        raise FramingError("malformed host in the description")
    return without_body(request, line)


def without_body(request: Request, line: Line | None = None) -> Request:
    """Return a request with the fields of a proxy's request, but without its body.

    In HTTP/2 it is no gRPC request. A gRPC response has status 200, which the proxy would take for
    permission.

    Arguments:
        request: the request of the proxy.
        line: the start of the returned request; None for that of the proxy's request.
    """
    method, host, target = line or (request.method, request.host, request.target)
    fields, lines = request.fields, None
    if request.version is not HTTP_2:
        lines = request.lines
    elif b"content-type" in fields:
        fields = {name: value for name, value in fields.items() if name != b"content-type"}
    return Request(method, target, request.version, host, fields, lines)


def _line(request: Request, prefix: bytes) -> Line:
    """Return the line that the fields of a request describe; without these fields, its own line."""
    value_of = request.value_of
    url, method = value_of(_ORIGINAL_URL), value_of(_ORIGINAL_METHOD)
    uri, forwarded_method = value_of(_FORWARDED_URI), value_of(_FORWARDED_METHOD)
    original = _original(request, url, method) if url or method else None
    if not (uri or forwarded_method):
        return _own(request, prefix) if original is None else original
    host = value_of(_FORWARDED_HOST) or request.host
    forwarded = forwarded_method or request.method, host, uri or request.target
    if original is not None and original != forwarded:
        # One of them may be the client's. The activator cannot know which one.
        raise FramingError("X-Original-URL and X-Forwarded-Uri describe different requests")
    return forwarded


def _original(request: Request, url: bytes, method: bytes) -> Line:
    """Return the line that X-Original-URL and X-Original-Method describe."""
    method = method or request.method
    if not url or url[:1] == b"/":
        return method, request.host, url or request.target
    parts = _URL.fullmatch(url)
    if parts is None or not parts[1]:
        raise FramingError("malformed X-Original-URL")
    target = parts[2]
    return method, parts[1], target if target[:1] == b"/" else b"/" + target


def _own(request: Request, prefix: bytes) -> Line:
    """Return the line of a request itself, without the prefix."""
    target = request.target
    if prefix:
        if not target.startswith(prefix) or target[len(prefix) :][:1] not in (b"/", b"?", b""):
            raise FramingError(f"the path does not begin with {prefix.decode()}")
        target = target[len(prefix) :]
        if target[:1] != b"/":
            target = b"/" + target
    return request.method, request.host, target


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
