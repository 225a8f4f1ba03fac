"""The traces of requests: what happened when, noted on the byte path, made into spans elsewhere.

A span of OpenTelemetry's SDK costs 20 µs to make and 30 µs to encode, of which a request has
four. So a request only notes a few times here (3 µs in all), and a thread makes spans of them
when the request is over, see ``span_export``. What is not sampled notes nothing, and passes on a
context of its own, as Go's non-recording spans do. Knows neither OpenTelemetry's packages nor any
exporter. Knative's counterparts: otelhttp, pkg/activator/handler/handler.go (spans) and
tracing_handler.go.
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

#: Bytes of a target, host or User-Agent that a span shows: what waits for the thread is bounded.
MAX_TEXT: Final = 1024
#: Steps of one request that are noted; one that is sent again for ever must not grow for ever.
MAX_STEPS: Final = 64

_USER_AGENT = re.compile(rb"\r\nuser-agent:[ \t]*([^\r\n]*)", re.IGNORECASE)


class What(Enum):
    """What can happen to a request, see ``proxy.observers.Trace``."""

    FOUND = auto()
    HELD = auto()
    ASSIGNED = auto()
    SENDING = auto()
    ANSWERED = auto()
    FAILED = auto()
    WAITING = auto()


class Step(NamedTuple):
    """One thing that happened.

    Attributes:
        at: monotonic nanoseconds.
        detail: an address, a reason, an error, a status, or the id of the client span.
        origin: of SENDING.
    """

    what: What
    at: int
    detail: str | int
    origin: str = ""


class Head(NamedTuple):
    """What a span says of the request, cut to ``MAX_TEXT``."""

    method: bytes
    target: bytes
    host: bytes
    minor: int
    user_agent: bytes
    secure: bool


class Queue(Protocol):
    """Takes what has ended."""

    def put(self, trace: RecordedTrace) -> None:
        """Keep it until it is exported, or drop it; must not block."""


def _new_id(bits: int) -> int:
    """Return a random number that is not zero, which stands for none."""
    return getrandbits(bits) or 1


class UnsampledTrace:
    """A request whose spans nobody wants; its context passes on all the same."""

    __slots__ = ("_number", "_state")

    def __init__(self, trace_id: int, state: bytes) -> None:
        self._number = trace_id
        self._state = state

    @property
    def trace_id(self) -> str:
        """See proxy.observers.Trace."""
        return f"{self._number:032x}"

    def sending(self, origin: str) -> bytes:
        """See proxy.observers.Trace."""
        return lines(self._number, _new_id(64), False, self._state)

    def found(self, revision: Revision) -> None:
        """See proxy.observers.Trace."""

    def held(self, reason: str) -> None:
        """See proxy.observers.Trace."""

    def assigned(self, address: str) -> None:
        """See proxy.observers.Trace."""

    def waiting(self) -> None:
        """See proxy.observers.Trace."""

    def answered(self, status: int) -> None:
        """See proxy.observers.Trace."""

    def failed(self, error: str) -> None:
        """See proxy.observers.Trace."""

    def ended(self, status: int, outcome: str) -> None:
        """See proxy.observers.Trace."""


class RecordedTrace:
    """What happened to one request, in order. Once it has ended it does not change any more.

    Attributes:
        number: the trace's id; span_id: the server span's.
        parent: whose child the server span is, if anybody's.
        head: the request.
        began, ended_at: monotonic nanoseconds; wall: nanoseconds since 1970 of ``began``.
        revision: None where it was not found.
        steps: what happened in between.
        status, outcome: how it ended, see proxy.observers.Trace.
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
        """See proxy.observers.Trace."""
        return f"{self.number:032x}"

    def _note(self, what: What, detail: str | int = 0, origin: str = "") -> None:
        if len(self.steps) < MAX_STEPS:
            self.steps.append(Step(what, self._clock(), detail, origin))

    def found(self, revision: Revision) -> None:
        """See proxy.observers.Trace."""
        self.revision = revision
        self._note(What.FOUND)

    def held(self, reason: str) -> None:
        """See proxy.observers.Trace."""
        self._note(What.HELD, reason)

    def assigned(self, address: str) -> None:
        """See proxy.observers.Trace."""
        self._note(What.ASSIGNED, address)

    def sending(self, origin: str) -> bytes:
        """See proxy.observers.Trace."""
        span_id = _new_id(64)
        self._note(What.SENDING, span_id, origin)
        return lines(self.number, span_id, True, self.parent.state if self.parent else b"")

    def answered(self, status: int) -> None:
        """See proxy.observers.Trace."""
        self._note(What.ANSWERED, status)

    def failed(self, error: str) -> None:
        """See proxy.observers.Trace."""
        self._note(What.FAILED, error)

    def waiting(self) -> None:
        """See proxy.observers.Trace."""
        self._note(What.WAITING)

    def ended(self, status: int, outcome: str) -> None:
        """See proxy.observers.Trace."""
        self.status = status
        self.outcome = outcome
        self.ended_at = self._clock()
        self._queue.put(self)


class RequestTracer:
    """Begins the traces of requests (proxy.observers.Tracer).

    Arguments:
        sampler: decides which are recorded.
        queue: takes them when they have ended.
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
        """See proxy.observers.Tracer."""
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
