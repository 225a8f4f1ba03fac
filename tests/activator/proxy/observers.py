"""A tracer and a request log that record their calls."""

from __future__ import annotations

from activator.proxy.exchange.observers import RequestRecord
from throttler.model import Revision


class Traces:
    """A tracer, its only trace, and all calls of both."""

    trace_id = "ab" * 16

    def __init__(self) -> None:
        self.told: list[tuple[object, ...]] = []
        self.secure: list[bool] = []
        self.origins: list[str] = []

    def begin(
        self, method: bytes, target: bytes, host: bytes, minor: int, block: bytes, secure: bool
    ) -> Traces:
        self.secure.append(secure)
        self.told.append(("begin", method, target, host, minor, b"traceparent" in block))
        return self

    def found(self, revision: Revision) -> None:
        self.told.append(("found", str(revision.id)))

    def no_pod(self, reason: str) -> None:
        self.told.append(("no-pod", reason))

    def assigned(self, address: str) -> None:
        self.told.append(("assigned",))

    def waiting(self) -> None:
        self.told.append(("waiting",))

    def sending(self, origin: str) -> bytes:
        self.told.append(("sending",))
        self.origins.append(origin)
        return b"traceparent: ours\r\ntracestate: ours\r\n"

    def responded(self, status: int) -> None:
        self.told.append(("responded", status))

    def failed(self, error: str) -> None:
        self.told.append(("failed",))

    def ended(self, status: int, outcome: str) -> None:
        self.told.append(("ended", status, outcome))


class Records(list[RequestRecord]):
    """A request log."""

    def ended(self, record: RequestRecord) -> None:
        self.append(record)


def steps_of_a_get(target: bytes, *, minor: int) -> list[tuple[object, ...]]:
    """Return the calls of a trace for a GET with a traceparent that is served at once."""
    return [
        ("begin", b"GET", target, b"example.com", minor, True),
        ("found", "ns/rev"),
        ("assigned",),
        ("sending",),
        ("responded", 200),
        ("ended", 200, "served"),
    ]
