"""Observes requests: traces, and the request log.

Traces and the request log are usually off; then a request costs one test of an attribute that is
None. ``telemetry`` implements both. Knative's counterparts: the otelhttp handler of
cmd/activator/main.go and pkg/http/request_log.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from activator.proxy.message.fields import without_named
from activator.proxy.message.request import Request
from throttler.model import Revision

if TYPE_CHECKING:
    from activator.runtime import RequestTrace, RequestTracer


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """An ended request, for the request log. It is made only while the log is on.

    Attributes:
        method, target, host: as the client sent them.
        minor: 1 for HTTP/1.1, 0 for HTTP/1.0, 2 for HTTP/2.
        headers: all header fields except Host, each preceded by its CRLF. The names of fields that
            the activator handles are in lower case.
        content_length: 0 without a body, -1 for an unknown length (chunked).
        status: the status of the final response. 101 for a connection that changed its protocol,
            499 if the client left before a response began.
        response_size: bytes of the response's body that were passed on.
        latency: seconds from the request's head to its end.
        client: the client's ``ip:port``.
        revision: the revision of the request.
        trace_id: 32 hexadecimal digits; empty if the request is not traced.
        why: the Activator-Reason of the activator's own response; empty if a pod responded.
    """

    method: bytes
    target: bytes
    host: bytes
    minor: int
    headers: bytes
    content_length: int
    status: int
    response_size: int
    latency: float
    client: str
    revision: Revision
    trace_id: str
    why: str = ""


#: Client fields that the activator's own trace context replaces.
_CONTEXT_FIELDS = (b"traceparent", b"tracestate")


def begin_trace(tracer: RequestTracer, request: Request, secure: bool) -> RequestTrace:
    """Begin the trace of a request.

    Arguments:
        tracer: makes the trace.
        request: the client's request.
        secure: whether the client's connection is encrypted.
    """
    head = request.method, request.target, request.host
    return tracer.begin(*head, request.version, request.lines, secure)


def lines_to_send(request: Request, *, traced: bool) -> bytes:
    """Return a request's lines for a pod, without the client's trace context if it is traced.

    Arguments:
        request: the client's request.
        traced: whether the activator traces it.
    """
    return without_named(request.lines, _CONTEXT_FIELDS) if traced else request.lines
