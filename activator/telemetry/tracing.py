"""Records the steps of traced requests on the byte path, for spans that a thread makes.

A span of OpenTelemetry's SDK costs 20 µs to make and 30 µs to encode, and a request has four. So
a request only records a few times here, which takes 3 µs in all. When the request has ended, a
thread makes the spans, see ``spans``. An unsampled request records nothing, and sends the pod a
context of its own, as Go's non-recording spans do. The module knows neither OpenTelemetry's
packages nor any exporter. Knative's counterparts: otelhttp, pkg/activator/handler/handler.go
(spans) and tracing_handler.go.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from enum import Enum, auto
from random import getrandbits
from typing import Final, NamedTuple, Protocol

from activator.telemetry.sampling import Sampler
from activator.telemetry.trace_context import Parent, lines, parent_of
from throttler.model import Revision

#: Most bytes of a target, host or User-Agent in a span. They limit the memory of the queue.
MAX_TEXT: Final = 1024
#: Most recorded steps of one request. They limit the memory of a request with endless retries.
MAX_STEPS: Final = 64

_USER_AGENT = re.compile(rb"\r\nuser-agent:[ \t]*([^\r\n]*)", re.IGNORECASE)


class What(Enum):
    """The kinds of steps of a request, see ``proxy.exchange.observers.Trace``."""

    FOUND = auto()
    NO_POD = auto()
    ASSIGNED = auto()
    SENDING = auto()
    RESPONDED = auto()
    FAILED = auto()
    WAITING = auto()


class Step(NamedTuple):
    """One step of a request.

    Attributes:
        at: monotonic nanoseconds.
        detail: an address, a reason, an error, a status, or the id of the client span.
        origin: of a step SENDING.
    """

    what: What
    at: int
    detail: str | int
    origin: str = ""


class Head(NamedTuple):
    """The parts of a request head that a span shows, cut to ``MAX_TEXT``."""

    method: bytes
    target: bytes
    host: bytes
    minor: int
    user_agent: bytes
    secure: bool


class Queue(Protocol):
    """A queue of ended requests."""

    def put(self, trace: RecordedTrace) -> None:
        """Keep a request until its export, or drop it; must not block."""


def _new_id(bits: int) -> int:
    """Return a random number other than zero, which means no id."""
    return getrandbits(bits) or 1


class UnsampledTrace:
    """A request without spans. It still sends the pod a trace context."""

    __slots__ = ("_number", "_state")

    def __init__(self, trace_id: int, state: bytes) -> None:
        self._number = trace_id
        self._state = state

    @property
    def trace_id(self) -> str:
        """See proxy.exchange.observers.Trace."""
        return f"{self._number:032x}"

    def sending(self, origin: str) -> bytes:
        """See proxy.exchange.observers.Trace."""
        return lines(self._number, _new_id(64), False, self._state)

    def found(self, revision: Revision) -> None:
        """See proxy.exchange.observers.Trace."""

    def no_pod(self, reason: str) -> None:
        """See proxy.exchange.observers.Trace."""

    def assigned(self, address: str) -> None:
        """See proxy.exchange.observers.Trace."""

    def waiting(self) -> None:
        """See proxy.exchange.observers.Trace."""

    def responded(self, status: int) -> None:
        """See proxy.exchange.observers.Trace."""

    def failed(self, error: str) -> None:
        """See proxy.exchange.observers.Trace."""

    def ended(self, status: int, outcome: str) -> None:
        """See proxy.exchange.observers.Trace."""


class RecordedTrace:
    """The steps of one request, in order. After the end of the request nothing changes it.

    Attributes:
        number: the id of the trace; span_id: the id of the server span.
        parent: the parent of the server span; None if it has none.
        head: the request.
        began, ended_at: monotonic nanoseconds; wall: nanoseconds since 1970 of ``began``.
        revision: None if the request's revision does not exist.
        steps: the recorded steps.
        status, outcome: see proxy.exchange.observers.Trace.
    """

    __slots__ = (
        "_clock",
        "_queue",
        "began",
        "ended_at",
        "head",
        "number",
        "outcome",
        "parent",
        "revision",
        "span_id",
        "status",
        "steps",
        "wall",
    )

    def __init__(
        self,
        queue: Queue,
        clock: Callable[[], int],
        trace_id: int,
        parent: Parent | None,
        head: Head,
        wall: int,
    ) -> None:
        self._queue = queue
        self._clock = clock
        self.number = trace_id
        self.span_id = _new_id(64)
        self.parent = parent
        self.head = head
        self.wall = wall
        self.began = self.ended_at = clock()
        self.revision: Revision | None = None
        self.steps: list[Step] = []
        self.status = 0
        self.outcome = ""

    @property
    def trace_id(self) -> str:
        """See proxy.exchange.observers.Trace."""
        return f"{self.number:032x}"

    def _note(self, what: What, detail: str | int = 0, origin: str = "") -> None:
        if len(self.steps) < MAX_STEPS:
            self.steps.append(Step(what, self._clock(), detail, origin))

    def found(self, revision: Revision) -> None:
        """See proxy.exchange.observers.Trace."""
        self.revision = revision
        self._note(What.FOUND)

    def no_pod(self, reason: str) -> None:
        """See proxy.exchange.observers.Trace."""
        self._note(What.NO_POD, reason)

    def assigned(self, address: str) -> None:
        """See proxy.exchange.observers.Trace."""
        self._note(What.ASSIGNED, address)

    def sending(self, origin: str) -> bytes:
        """See proxy.exchange.observers.Trace."""
        span_id = _new_id(64)
        self._note(What.SENDING, span_id, origin)
        return lines(self.number, span_id, True, self.parent.state if self.parent else b"")

    def responded(self, status: int) -> None:
        """See proxy.exchange.observers.Trace."""
        self._note(What.RESPONDED, status)

    def failed(self, error: str) -> None:
        """See proxy.exchange.observers.Trace."""
        self._note(What.FAILED, error)

    def waiting(self) -> None:
        """See proxy.exchange.observers.Trace."""
        self._note(What.WAITING)

    def ended(self, status: int, outcome: str) -> None:
        """See proxy.exchange.observers.Trace."""
        self.status = status
        self.outcome = outcome
        self.ended_at = self._clock()
        self._queue.put(self)


class RequestTracer:
    """Begins the traces of requests.

    Arguments:
        sampler: decides which requests are recorded.
        queue: gets the recorded requests when they have ended.
        clock: monotonic nanoseconds; wall: nanoseconds since 1970.
    """

    def __init__(
        self,
        sampler: Sampler,
        queue: Queue,
        clock: Callable[[], int] = time.monotonic_ns,
        wall: Callable[[], int] = time.time_ns,
    ) -> None:
        self._sampler = sampler
        self._queue = queue
        self._clock = clock
        self._wall = wall

    def begin(
        self, method: bytes, target: bytes, host: bytes, minor: int, block: bytes, secure: bool
    ) -> RecordedTrace | UnsampledTrace:
        """Return the trace of a request whose head has arrived. Probes are not traced.

        Arguments:
            method, target, host: as the client sent them; host without a default.
            minor: 1 for HTTP/1.1, 0 for HTTP/1.0, 2 for HTTP/2.
            block: the header fields that the activator does not handle, each preceded by its CRLF.
                ``traceparent``, ``tracestate`` and ``baggage`` are among them.
            secure: whether the client's connection is encrypted.
        """
        parent = parent_of(block)
        trace_id = parent.trace_id if parent is not None else _new_id(128)
        if not self._sampler(parent, trace_id):
            return UnsampledTrace(trace_id, parent.state if parent is not None else b"")
        agent = _USER_AGENT.search(block)
        head = Head(
            method,
            target[:MAX_TEXT],
            host[:MAX_TEXT],
            minor,
            agent[1][:MAX_TEXT] if agent is not None else b"",
            secure,
        )
        return RecordedTrace(self._queue, self._clock, trace_id, parent, head, self._wall())
