"""Reads the request that a proxy describes to the admission port. Pure.

Three forms are known. nginx's ``auth_request`` sends X-Original-URL and X-Original-Method, as the
how-to configures it. Forward authentication of Traefik and Caddy sends X-Forwarded-Method,
X-Forwarded-Host and X-Forwarded-Uri. Envoy's ``ext_authz`` sends the request itself, its path
behind a prefix. Knative has no counterpart.
"""

from __future__ import annotations

import re
from typing import Final

from activator.proxy.message.fields import HTTP_2
from activator.proxy.message.grammar import FramingError
from activator.proxy.message.request import HOST, METHOD, Request

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
