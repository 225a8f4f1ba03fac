"""Who may watch requests on their way: traces and the request log.

Both are off as a rule; then a request pays one look at an attribute that is None. They are of
other packages, so that the byte path knows them by what it calls, and no more. Knative's
counterparts: the otelhttp handler of cmd/activator/main.go and pkg/http/request_log.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from activator.proxy.message.fields import without_named
from activator.proxy.message.request import Request
from throttler.model import Revision


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """A request that has ended, for the request log; made only while that is on.

    Attributes:
        method, target, host: as they came.
        minor: 1 for HTTP/1.1, 0 for HTTP/1.0, 2 for HTTP/2.
        headers: all header fields but Host, each preceded by its CRLF; of those that mean
            something to us the name is in lower case.
        content_length: 0 without body, -1 where it is unknown (chunked).
        status: of the final answer; 101 for a connection that changed its protocol, 499 where
            the client left before there was one.
        response_size: bytes of the answer's body that were passed on.
        latency: seconds from the request's head to its end.
        client: the client's ``ip:port``.
        trace_id: 32 hexadecimal digits; empty where nothing is traced.
        why: the Activator-Reason of an answer of ours; empty where a pod answered.
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


class RequestLog(Protocol):
    """Is told of each request of a known revision; probes are none."""

    def ended(self, record: RequestRecord) -> None:
        """The request is over. Called from the byte path: must neither block nor raise."""


class Trace(Protocol):
    """The spans of one request. None of its methods may block or raise.

    Attributes:
        trace_id: 32 hexadecimal digits.
    """

    @property
    def trace_id(self) -> str:
        """See above."""

    def found(self, revision: Revision) -> None:
        """The request has a place with this revision, and waits for a pod (``throttler_try``)."""

    def held(self, reason: str) -> None:
        """It has to wait, or the answer is ours; ``reason`` is a throttler.reason.Reason."""

    def assigned(self, address: str) -> None:
        """It has a pod, to which a connection is taken or opened (``activator_proxy``)."""

    def waiting(self) -> None:
        """It has lost its pod and waits once more."""

    def sending(self, origin: str) -> bytes:
        """A pod has the request; each attempt is told.

        Arguments:
            origin: where it was sent, as ``scheme://ip:port``.

        Returns:
            The header lines that carry the context to the pod, each with its CRLF. What the
            client sent of ``traceparent`` and ``tracestate`` is taken out.
        """

    def answered(self, status: int) -> None:
        """The head of the pod's final answer is here."""

    def failed(self, error: str) -> None:
        """The pod failed with the request in its hands."""

    def ended(self, status: int, outcome: str) -> None:
        """The request is over.

        Arguments:
            status: what the client got; 499 if it left before.
            outcome: one of activator.records.counters.OUTCOMES, or ``unknown-revision``.
        """


class Tracer(Protocol):
    """Makes traces."""

    def begin(
        self, method: bytes, target: bytes, host: bytes, minor: int, block: bytes, secure: bool
    ) -> Trace:
        """A request's head is read; probes are not traced.

        Arguments:
            method, target, host: as they came; host without a default.
            minor: 1 for HTTP/1.1, 0 for HTTP/1.0.
            block: the header fields that mean nothing to us, each preceded by its CRLF; among
                them ``traceparent``, ``tracestate`` and ``baggage``.
            secure: whether it came over TLS.
        """


#: What a traced request's own context replaces.
_CONTEXT_FIELDS = (b"traceparent", b"tracestate")


def begin_trace(tracer: Tracer, request: Request, secure: bool) -> Trace:
    """Begin the trace of a request.

    Arguments:
        secure: whether it came over TLS.
    """
    head = request.method, request.target, request.host
    return tracer.begin(*head, request.version, request.lines, secure)


def lines_to_send(request: Request, *, traced: bool) -> bytes:
    """Return a request's lines as a pod gets them: the context of our own trace replaces another.

    Arguments:
        traced: whether it has a trace.
    """
    return without_named(request.lines, _CONTEXT_FIELDS) if traced else request.lines


def record_of(
    request: Request,
    status: int,
    size: int,
    latency: float,
    client: str,
    revision: Revision,
    trace_id: str,
    why: str,
) -> RequestRecord:
    """Return what the request log gets of a request that ends.

    Arguments:
        size: bytes of the response's body; latency: seconds.
        client: its ``ip:port``; trace_id, why: as in the record.
    """
    return RequestRecord(
        *(request.method, request.target, request.host, request.version),
        request.own_lines() + lines_to_send(request, traced=trace_id != ""),
        request.length,
        status,
        size,
        latency,
        client,
        revision,
        trace_id,
        why,
    )
