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
from collections.abc import Callable, Mapping
from enum import Enum, auto
from random import getrandbits
from typing import Final, NamedTuple

from throttler.model import Revision

# -- the context of a trace -----------------------------------------------------------------------

# W3C Trace Context: https://www.w3.org/TR/trace-context/ (level 1, sections 3.2, 3.3 and 4). Go's
# propagation.TraceContext does the same. The field ``baggage`` passes unchanged.

#: Most members of a tracestate (section 3.3.1.1). The activator drops a longer list.
MAX_MEMBERS: Final = 32
_SAMPLED: Final = 1

_FIELDS = re.compile(rb"\r\n(trace(?:parent|state)):[ \t]*([^\r\n]*)", re.IGNORECASE)
_PARENT = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.DOTALL)
_NO_TRACE: Final = b"0" * 32
_NO_SPAN: Final = b"0" * 16
_KEY: Final = (
    rb"(?:[a-z0-9][_0-9a-z*/-]{0,255}|[a-z0-9][_0-9a-z*/-]{0,240}@[a-z][_0-9a-z*/-]{0,13})"
)
_VALUE: Final = rb"[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]"
_MEMBER = re.compile(rb"(%b)=%b" % (_KEY, _VALUE))


class Parent(NamedTuple):
    """The parent span of a request.

    Attributes:
        trace_id, span_id: never zero.
        sampled: whether its spans are recorded.
        state: the tracestate for the pod, valid and unchanged; empty if there is none.
    """

    trace_id: int
    span_id: int
    sampled: bool
    state: bytes


def parent_of(block: bytes) -> Parent | None:
    """Return the parent span that a request head names.

    A malformed ``traceparent``, or more than one, counts as none, and then ``tracestate`` counts
    as none too (section 4.3). A malformed ``tracestate`` alone is left out (section 3.3).

    Arguments:
        block: header fields, each preceded by its CRLF.

    Returns:
        The parent; None if a new trace has to begin.
    """
    parents: list[bytes] = []
    states: list[bytes] = []
    for name, value in _FIELDS.findall(block):
        # Only these two names match, and their lengths differ: eleven and ten letters.
        (parents if len(name) == len(b"traceparent") else states).append(value)
    if len(parents) != 1:
        return None
    match = _PARENT.fullmatch(parents[0].rstrip(b" \t"))
    if match is None:
        return None
    version, trace_id, span_id, flags, more = match.groups()
    # A version above 00 adds fields at the end, which this code does not know (section 3.2.4).
    wrong_version = version == b"ff" or (version == b"00" and more is not None)
    if wrong_version or trace_id == _NO_TRACE or span_id == _NO_SPAN:
        return None
    state = _valid_state(b",".join(states)) if states else b""
    return Parent(int(trace_id, 16), int(span_id, 16), bool(int(flags, 16) & _SAMPLED), state)


def _valid_state(value: bytes) -> bytes:
    """Return the members of a tracestate; nothing if any member is malformed."""
    members = [member for each in value.split(b",") if (member := each.strip(b" \t"))]
    keys = {match[1] for each in members if (match := _MEMBER.fullmatch(each)) is not None}
    # A member that does not match and a key that comes twice both make the numbers differ.
    if len(members) > MAX_MEMBERS or len(keys) != len(members):
        return b""
    return b",".join(members)


def context_lines(trace_id: int, span_id: int, sampled: bool, state: bytes) -> bytes:
    """Return the fields for a pod in Go's spelling, each followed by its CRLF."""
    written = b"Traceparent: 00-%032x-%016x-%02x\r\n" % (trace_id, span_id, sampled)
    return b"%bTracestate: %b\r\n" % (written, state) if state else written


# -- samplers -------------------------------------------------------------------------------------

# Sources: OpenTelemetry's specification of OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG;
# Knative's knative.dev/pkg/observability/tracing.

#: A decision from the parent, if there is one, and the trace's id.
Sampler = Callable[[Parent | None, int], bool]

_LOW_HALF: Final = (1 << 64) - 1


def always(parent: Parent | None, trace_id: int) -> bool:
    """Trace each request."""
    return True


def never(parent: Parent | None, trace_id: int) -> bool:
    """Trace no request."""
    return False


def by_ratio(rate: float) -> Sampler:
    """Trace a share of all traces.

    The sampler compares the lower half of the trace's id, as Go does, so each hop decides the same.

    Arguments:
        rate: from 0 to 1.
    """
    bound = round(rate * (1 << 64))
    return lambda parent, trace_id: (trace_id & _LOW_HALF) < bound


def by_parent(root: Sampler) -> Sampler:
    """Follow the parent's decision; ``root`` decides for a request without a parent."""
    return lambda parent, trace_id: parent.sampled if parent is not None else root(parent, trace_id)


_BY_WORD: Final[Mapping[str, Callable[[float], Sampler]]] = {
    "always_on": lambda rate: always,
    "always_off": lambda rate: never,
    "traceidratio": by_ratio,
    "parentbased_always_on": lambda rate: by_parent(always),
    "parentbased_always_off": lambda rate: by_parent(never),
    "parentbased_traceidratio": lambda rate: by_parent(by_ratio(rate)),
}
SAMPLERS: Final = tuple(_BY_WORD)
"""The values of OTEL_TRACES_SAMPLER."""


def sampler_of(word: str, argument: float | None, rate: float) -> Sampler:
    """Return the configured sampler.

    Arguments:
        word: one of ``SAMPLERS``; empty if OTEL_TRACES_SAMPLER is not set.
        argument: the share of OTEL_TRACES_SAMPLER_ARG, from 0 to 1; None if it is not set.
        rate: the ConfigMap's ``tracing-sampling-rate``, which the environment overrides.
    """
    if word:
        return _BY_WORD[word](1.0 if argument is None else argument)
    share = rate if argument is None else argument
    if share >= 1:
        return always
    return never if share <= 0 else by_parent(by_ratio(share))


# -- steps of a request ---------------------------------------------------------------------------

#: Most bytes of a target, host or User-Agent in a span. They limit the memory of the queue.
MAX_TEXT: Final = 1024
#: Most recorded steps of one request. They limit the memory of a request with endless retries.
MAX_STEPS: Final = 64

_USER_AGENT = re.compile(rb"\r\nuser-agent:[ \t]*([^\r\n]*)", re.IGNORECASE)


class What(Enum):
    """The kinds of steps of a request, see ``RequestTrace``."""

    FOUND = auto()
    NO_POD = auto()
    ASSIGNED = auto()
    SENDING = auto()
    RESPONDED = auto()
    FAILED = auto()
    WAITING = auto()


class TraceStep(NamedTuple):
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


class TracedHead(NamedTuple):
    """The parts of a request head that a span shows, cut to ``MAX_TEXT``."""

    method: bytes
    target: bytes
    host: bytes
    minor: int
    user_agent: bytes
    secure: bool


def new_id(bits: int) -> int:
    """Return a random number other than zero, which means no id."""
    return getrandbits(bits) or 1


class RequestTrace:
    """The trace of a request without spans. It still sends the pod a trace context.

    The byte path calls its methods, which must neither block nor raise.
    """

    __slots__ = ("number", "state")

    def __init__(self, trace_id: int, state: bytes) -> None:
        self.number = trace_id
        self.state = state

    @property
    def trace_id(self) -> str:
        """32 hexadecimal digits."""
        return f"{self.number:032x}"

    def found(self, revision: Revision) -> None:
        """Record that the request's revision is found: it waits for a pod (``throttler_try``)."""

    def no_pod(self, reason: str) -> None:
        """Record why the request has no pod: it is queued, or gets the activator's own response.

        Arguments:
            reason: the value of a throttler.reason.Reason.
        """

    def assigned(self, address: str) -> None:
        """Record that a pod is assigned; the connection follows (``activator_proxy``).

        Arguments:
            address: the pod's ``ip:port``.
        """

    def waiting(self) -> None:
        """Record that the request is queued again."""

    def sending(self, origin: str) -> bytes:
        """Record that the request is sent to a pod; called for each attempt.

        Arguments:
            origin: where it is sent, as ``scheme://ip:port``.

        Returns:
            The header lines with the trace context for the pod, each with its CRLF. They replace
            the client's ``traceparent`` and ``tracestate``.
        """
        return context_lines(self.number, new_id(64), False, self.state)

    def responded(self, status: int) -> None:
        """Record that the head of the pod's final response has arrived."""

    def failed(self, error: str) -> None:
        """Record that an attempt failed; ``error`` is for people."""

    def ended(self, status: int, outcome: str) -> None:
        """Record the end of the request.

        Arguments:
            status: the status that the client got; 499 if it left before.
            outcome: one of activator.records.counters.OUTCOMES, or ``unknown-revision``.
        """


class RecordedTrace(RequestTrace):
    """The steps of one request, in order. After the end of the request nothing changes it.

    Attributes:
        number: the id of the trace; span_id: the id of the server span.
        parent: the parent of the server span; None if it has none.
        head: the request.
        began, ended_at: monotonic nanoseconds; wall: nanoseconds since 1970 of ``began``.
        revision: None if the request's revision does not exist.
        steps: the recorded steps.
        status, outcome: as in ``ended``.
    """

    __slots__ = (
        *("_clock", "_put", "began", "ended_at", "head", "outcome", "parent", "revision"),
        *("span_id", "status", "steps", "wall"),
    )

    def __init__(
        self,
        put: Callable[[RecordedTrace], None],
        clock: Callable[[], int],
        trace_id: int,
        parent: Parent | None,
        head: TracedHead,
        wall: int,
    ) -> None:
        super().__init__(trace_id, parent.state if parent is not None else b"")
        self._put = put
        self._clock = clock
        self.span_id = new_id(64)
        self.parent = parent
        self.head = head
        self.wall = wall
        self.began = self.ended_at = clock()
        self.revision: Revision | None = None
        self.steps: list[TraceStep] = []
        self.status = 0
        self.outcome = ""

    def _note(self, what: What, detail: str | int = 0, origin: str = "") -> None:
        if len(self.steps) < MAX_STEPS:
            self.steps.append(TraceStep(what, self._clock(), detail, origin))

    def found(self, revision: Revision) -> None:
        self.revision = revision
        self._note(What.FOUND)

    def no_pod(self, reason: str) -> None:
        self._note(What.NO_POD, reason)

    def assigned(self, address: str) -> None:
        self._note(What.ASSIGNED, address)

    def sending(self, origin: str) -> bytes:
        span_id = new_id(64)
        self._note(What.SENDING, span_id, origin)
        return context_lines(self.number, span_id, True, self.state)

    def responded(self, status: int) -> None:
        self._note(What.RESPONDED, status)

    def failed(self, error: str) -> None:
        self._note(What.FAILED, error)

    def waiting(self) -> None:
        self._note(What.WAITING)

    def ended(self, status: int, outcome: str) -> None:
        self.status = status
        self.outcome = outcome
        self.ended_at = self._clock()
        self._put(self)


class RequestTracer:
    """Begins the traces of requests.

    Arguments:
        sampler: decides which requests are recorded.
        put: gets each recorded request when it has ended; must not block.
        clock: monotonic nanoseconds; wall: nanoseconds since 1970.
    """

    def __init__(
        self,
        sampler: Sampler,
        put: Callable[[RecordedTrace], None],
        clock: Callable[[], int] = time.monotonic_ns,
        wall: Callable[[], int] = time.time_ns,
    ) -> None:
        self._sampler = sampler
        self._put = put
        self._clock = clock
        self._wall = wall

    def begin(
        self, method: bytes, target: bytes, host: bytes, minor: int, block: bytes, secure: bool
    ) -> RequestTrace:
        """Return the trace of a request whose head has arrived. Probes are not traced.

        Arguments:
            method, target, host: as the client sent them; host without a default.
            minor: 1 for HTTP/1.1, 0 for HTTP/1.0, 2 for HTTP/2.
            block: the header fields that the activator does not handle, each preceded by its CRLF.
                ``traceparent``, ``tracestate`` and ``baggage`` are among them.
            secure: whether the client's connection is encrypted.
        """
        parent = parent_of(block)
        trace_id = parent.trace_id if parent is not None else new_id(128)
        if not self._sampler(parent, trace_id):
            return RequestTrace(trace_id, parent.state if parent is not None else b"")
        agent = _USER_AGENT.search(block)
        head = TracedHead(
            method,
            target[:MAX_TEXT],
            host[:MAX_TEXT],
            minor,
            agent[1][:MAX_TEXT] if agent is not None else b"",
            secure,
        )
        return RecordedTrace(self._put, self._clock, trace_id, parent, head, self._wall())
