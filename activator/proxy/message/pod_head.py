"""Writes the head of a request in HTTP/1, as the pod gets it. Pure.

Sources: RFC 9110, RFC 9112; Knative pkg/activator/handler (control headers), pkg/http/proxy.go.
"""

from __future__ import annotations

from typing import Final

from activator.knative.control_fields import ORIGINAL_HOST, ORIGINAL_HOST_START
from activator.proxy.message.fields import clean_trailers, tokens
from activator.proxy.message.request import Request

#: The start of the line with the client's host, for a pod without queue-proxy.
PLAIN_HOST_START: Final = b"Host: "


def pod_head(
    request: Request,
    client: bytes,
    lines: bytes | None = None,
    host_start: bytes = ORIGINAL_HOST_START,
) -> tuple[bytes, bytes]:
    """Return the head of a request for a pod, without the fields that depend on the pod.

    Arguments:
        request: the client's request.
        client: the client's IP address.
        lines: replaces ``request.lines`` if the request is traced.
        host_start: the start of the line with the client's host: ``ORIGINAL_HOST_START`` or
            ``PLAIN_HOST_START``.

    Returns:
        The start line with its CRLF, and the rest with the empty line. The caller puts the fields
        that depend on the pod between them, each with its CRLF: ``Host`` and ``K-Proxy-Request``.
        A pod without queue-proxy has none.
    """
    fields = request.fields
    start = b"%b %b HTTP/1.1\r\n" % (request.method, request.target)
    original_host = request.host
    forwarded_for = client
    trailing = b"\r\n\r\n"
    if fields or request.upgrade:
        # The client's field wins: for a mapped domain, the ingress has already rewritten Host.
        if host_start is ORIGINAL_HOST_START:
            original_host = fields.get(ORIGINAL_HOST) or original_host
        if before := fields.get(b"x-forwarded-for", b"").strip(b" \t"):
            forwarded_for = before + b", " + client
        trailing = _connection_lines(request) + b"\r\n\r\n"
    if request.has_body:
        trailing = _framing_line(request) + trailing
    elif request.length == 0 and request.method in (b"POST", b"PUT", b"PATCH"):
        trailing = b"\r\nContent-Length: 0" + trailing
    return start, b"%b%b\r\nX-Forwarded-For: %b%b%b" % (
        host_start,
        original_host,
        forwarded_for,
        request.lines if lines is None else lines,
        trailing,
    )


def _framing_line(request: Request) -> bytes:
    expect = b"\r\nExpect: 100-continue" if request.expects_continue else b""
    if request.length < 0:
        return b"\r\nTransfer-Encoding: chunked" + expect
    return b"\r\nContent-Length: %d%b" % (request.length, expect)


def _connection_lines(request: Request) -> bytes:
    """Return the hop-by-hop fields that the activator sends to the pod on its own behalf."""
    lines = b""
    if b"te" in request.fields and b"trailers" in tokens(request.fields[b"te"]):
        lines += b"\r\nTE: trailers"
    if b"trailer" in request.fields and request.length < 0:
        named = clean_trailers(
            b"".join(name + b":\r\n" for name in tokens(request.fields[b"trailer"]))
        )
        if names := named.replace(b":\r\n", b", ")[:-2]:
            lines += b"\r\nTrailer: " + names
    if request.upgrade:
        lines += b"\r\nConnection: Upgrade\r\nUpgrade: " + request.upgrade
    return lines


def wants_trailers(request: Request) -> bool:
    """Return whether the pod gets the client's trailers.

    It does if the client announced trailers, or accepts them as every gRPC client does.
    """
    fields = request.fields
    return b"trailer" in fields or b"trailers" in tokens(fields.get(b"te", b""))
