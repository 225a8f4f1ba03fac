"""Traced requests without a byte path: the test sets the clock; a list replaces the queue."""

from __future__ import annotations

from activator.telemetry.tracing import RecordedTrace, RequestTracer, Sampler, always
from throttler.model import Revision, RevisionID

REVISION = Revision(
    RevisionID("shop", "cart-00001"), uid="u", service="cart", configuration="cart-cfg"
)
WALL = 1_700_000_000_000_000_000


class Requests:
    """Make traces.

    Attributes:
        now: monotonic nanoseconds; ended: the traces that were handed over.
    """

    def __init__(self, sampler: Sampler = always) -> None:
        self.now = 5_000
        self.ended: list[RecordedTrace] = []
        self.tracer = RequestTracer(sampler, self.ended.append, lambda: self.now, lambda: WALL)

    def begin(
        self,
        method: bytes = b"POST",
        target: bytes = b"/buy?card=1234",
        host: bytes = b"cart.example.com",
        block: bytes = b"",
        secure: bool = False,
        minor: int = 1,
    ) -> RecordedTrace:
        trace = self.tracer.begin(method, target, host, minor, block, secure)
        assert isinstance(trace, RecordedTrace)
        return trace

    def later(self, nanoseconds: int = 1_000) -> int:
        self.now += nanoseconds
        return self.now

    def served(self, status: int = 200) -> RecordedTrace:
        """A request that got a pod at once, and a response from it."""
        trace = self.begin()
        trace.found(REVISION)
        trace.assigned("10.0.0.1:8012")
        trace.sending("http://10.0.0.1:8012")
        self.later()
        trace.responded(status)
        trace.ended(status, "served")
        return trace
