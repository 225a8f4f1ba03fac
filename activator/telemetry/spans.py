"""Makes OpenTelemetry's spans of the recorded steps of a request, in the exporter's thread.

The tree of spans equals the tree of Knative's activator. A server span has the method as its name.
Its children are ``throttler_try`` for each wait and ``activator_proxy`` for each pod. The latter
has a client span for each attempt. Attributes follow OpenTelemetry's semantic conventions for HTTP.
Spans leave out queries, which may contain secrets. Sources: Knative
pkg/activator/handler/handler.go; https://opentelemetry.io/docs/specs/semconv/http/http-spans/.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import getrandbits
from typing import Final

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState

from activator import __version__
from activator.knative.words import http_version
from activator.telemetry.families import ACTIVATOR_SCOPE
from activator.telemetry.tracing import RecordedTrace, TraceStep, What

_SCOPE: Final = InstrumentationScope(ACTIVATOR_SCOPE, __version__)
_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)
_UNSET: Final = Status(StatusCode.UNSET)
#: The methods that OpenTelemetry names; other methods have an attribute of their own.
_METHODS: Final = frozenset(
    ("CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE")
)
#: Outcomes that are no failure: the client got a response, or cancelled the request.
_NO_FAILURE: Final = ("served", "admitted", "cancelled", "unknown-revision")

Attributes = dict[str, str | int]


def spans_of(trace: RecordedTrace, resource: Resource) -> list[ReadableSpan]:
    """Return the spans of a request that has ended, in the order of their ends."""
    return _Spans(trace, resource).all()


def _failed(text: str) -> Status:
    return Status(StatusCode.ERROR, text)


class _Spans:
    """Walks through the steps of one request; keeps the state of open spans."""

    def __init__(self, trace: RecordedTrace, resource: Resource) -> None:
        self._trace = trace
        self._resource = resource
        self._done: list[ReadableSpan] = []
        state = trace.parent.state.decode() if trace.parent is not None else ""
        self._state = TraceState.from_header([state]) if state else None
        self._server = self._context(trace.span_id)
        self._path = trace.head.target.partition(b"?")[0].decode("utf-8", "replace")
        # The starts of the open spans of a wait, a pod and an attempt; 0 for none.
        self._wait_since = self._pod_since = self._sent_since = 0
        self._reasons: list[Event] = []
        self._reason = ""
        self._pod = self._server
        self._address = self._origin = ""
        self._client = self._server
        self._status = 0
        self._error = ""

    def all(self) -> list[ReadableSpan]:
        for step in self._trace.steps:
            _ON[step.what](self, step)
        self._end(self._trace.ended_at, self._trace.outcome)
        return self._done

    # -- steps ----------------------------------------------------------------------------------

    def found(self, step: TraceStep) -> None:
        self._wait_since = step.at

    def no_pod(self, step: TraceStep) -> None:
        self._reason = str(step.detail)
        self._reasons.append(
            Event("waiting", {"activator.reason": self._reason}, timestamp=self._wall(step.at))
        )

    def assigned(self, step: TraceStep) -> None:
        self._end_wait(step.at, _UNSET)
        self._address = str(step.detail)
        if not self._pod_since:
            self._pod_since = step.at
            self._pod = self._context(getrandbits(64) or 1)

    def sending(self, step: TraceStep) -> None:
        self._sent_since = step.at
        self._origin = step.origin
        self._status = 0
        self._error = ""
        self._client = self._context(int(step.detail))

    def responded(self, step: TraceStep) -> None:
        self._status = int(step.detail)

    def failed(self, step: TraceStep) -> None:
        self._error = str(step.detail)
        self._end_sending(step.at, self._error)

    def waiting(self, step: TraceStep) -> None:
        self._end_pod(step.at)
        self._wait_since = step.at

    # -- spans ----------------------------------------------------------------------------------

    def _end_wait(self, at: int, status: Status) -> None:
        if not self._wait_since:
            return
        attributes: Attributes = {"activator.reason": self._reason} if self._reasons else {}
        self._add(
            "throttler_try",
            *(self._context(getrandbits(64) or 1), self._server),
            *(self._wait_since, at),
            attributes,
            status=status,
            events=self._reasons,
        )
        self._wait_since = 0
        self._reasons = []

    def _end_sending(self, at: int, error: str) -> None:
        if not self._sent_since:
            return
        head = self._trace.head
        method = head.method.decode("latin-1")
        host, _, port = self._origin.partition("://")[2].rpartition(":")
        attributes = self._method()
        attributes |= {
            "url.full": f"{self._origin}{self._path}",
            "server.address": host.strip("[]"),
            "server.port": int(port) if port.isdigit() else 0,
            "network.protocol.version": http_version(head.minor or 1),
        }
        if self._status:
            attributes["http.response.status_code"] = self._status
        if not error and self._status >= 400:
            attributes["error.type"] = str(self._status)
        elif error:
            attributes["error.type"] = "_OTHER"
        status = _failed(error) if error or self._status >= 400 else _UNSET
        name = f"{method if method in _METHODS else 'HTTP'} {self._path}"
        self._add(
            name,
            *(self._client, self._pod),
            *(self._sent_since, at),
            attributes,
            kind=SpanKind.CLIENT,
            status=status,
        )
        self._sent_since = 0

    def _end_pod(self, at: int) -> None:
        if not self._pod_since:
            return
        status = _failed(self._error) if self._error else _UNSET
        self._add(
            "activator_proxy",
            *(self._pod, self._server),
            *(self._pod_since, at),
            {"server.address": self._address.rpartition(":")[0].strip("[]")},
            status=status,
        )
        self._pod_since = 0

    def _end(self, at: int, outcome: str) -> None:
        broken = "" if outcome in ("served", "admitted", "unknown-revision") else outcome
        self._end_wait(at, _failed(outcome))
        if broken and not self._error:
            self._error = broken
        self._end_sending(at, broken)
        self._end_pod(at)
        self._end_server(at)

    def _end_server(self, at: int) -> None:
        trace, head = self._trace, self._trace.head
        attributes = self._method()
        attributes |= {
            "url.scheme": "https" if head.secure else "http",
            "url.path": self._path,
            "network.protocol.version": http_version(head.minor),
            "http.response.status_code": trace.status,
            "activator.outcome": trace.outcome,
        }
        attributes |= _host(head.host.decode("latin-1"))
        if head.user_agent:
            attributes["user_agent.original"] = head.user_agent.decode("utf-8", "replace")
        if self._reason:
            attributes["activator.reason"] = self._reason
        if trace.revision is not None:
            attributes |= {
                "kn.service.name": trace.revision.service,
                "kn.configuration.name": trace.revision.configuration,
                "kn.revision.name": trace.revision.id.name,
                "k8s.namespace.name": trace.revision.id.namespace,
            }
        status = _UNSET
        if trace.status >= 500 or trace.outcome not in _NO_FAILURE:
            status = _failed("" if trace.outcome in _NO_FAILURE else trace.outcome)
            attributes["error.type"] = str(trace.status)
        method = str(attributes["http.request.method"])
        parent = None
        if trace.parent is not None:
            parent = self._context(trace.parent.span_id, is_remote=True)
        self._add(
            "HTTP" if method == "_OTHER" else method,
            *(self._server, parent),
            *(trace.began, at),
            attributes,
            kind=SpanKind.SERVER,
            status=status,
        )

    def _method(self) -> Attributes:
        method = self._trace.head.method.decode("latin-1")
        if method in _METHODS:
            return {"http.request.method": method}
        return {"http.request.method": "_OTHER", "http.request.method_original": method}

    def _context(self, span_id: int, is_remote: bool = False) -> SpanContext:
        return SpanContext(self._trace.number, span_id, is_remote, _SAMPLED, self._state)

    def _wall(self, at: int) -> int:
        """Return nanoseconds since 1970.

        The wall clock is read once for each request, since it may be set during a request.
        """
        return self._trace.wall + at - self._trace.began

    def _add(
        self,
        name: str,
        context: SpanContext,
        parent: SpanContext | None,
        since: int,
        until: int,
        attributes: Attributes,
        *,
        kind: SpanKind = SpanKind.INTERNAL,
        status: Status = _UNSET,
        events: list[Event] | None = None,
    ) -> None:
        self._done.append(
            ReadableSpan(
                name,
                context,
                parent,
                self._resource,
                attributes,
                events or (),
                kind=kind,
                status=status,
                start_time=self._wall(since),
                end_time=self._wall(until),
                instrumentation_scope=_SCOPE,
            )
        )


#: The method for each kind of step.
_ON: Final[Mapping[What, Callable[[_Spans, TraceStep], None]]] = {
    What.FOUND: _Spans.found,
    What.NO_POD: _Spans.no_pod,
    What.ASSIGNED: _Spans.assigned,
    What.SENDING: _Spans.sending,
    What.RESPONDED: _Spans.responded,
    What.FAILED: _Spans.failed,
    What.WAITING: _Spans.waiting,
}


def _host(host: str) -> Attributes:
    """Return the attributes of a Host field: the address, and the port if the field has one."""
    name, colon, port = host.rpartition(":")
    if not colon or not port.isdigit() or host.endswith("]"):
        return {"server.address": host} if host else {}
    return {"server.address": name, "server.port": int(port)}
