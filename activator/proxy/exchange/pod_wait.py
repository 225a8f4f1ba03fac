"""One request's wait for a pod, as its cold start and its client are told of it.

Made for a request that has to wait, and for no other. Knows neither connections nor who decides.
Sources: Server Timing (https://www.w3.org/TR/server-timing/); KEDA's X-KEDA-HTTP-Cold-Start for
the other field. Knative has no counterpart.
"""

from __future__ import annotations

from activator.records.cold_starts import ColdStart, ColdStarts, Phase
from activator.records.entries import Entry
from throttler.pod import PodTracker

#: Whether an answer waited for a pod to start.
WARM = b"\r\nActivator-Cold-Start: false"
COLD = b"\r\nActivator-Cold-Start: true"


class PodWait:
    """One request's wait, or waits, where its pod was lost.

    Arguments:
        cold_starts: the cold starts of revisions.
        arrived: when it was admitted.
        server_timing: whether its response says how long it waited.

    Attributes:
        cold_start: what it waits or waited for; None if that was room in a pod.
        assigned_at: when it last got a pod; None before.
    """

    __slots__ = ("_arrived", "_server_timing", "assigned_at", "cold_start", "cold_starts")

    def __init__(self, cold_starts: ColdStarts, arrived: float, *, server_timing: bool) -> None:
        self.cold_starts = cold_starts
        self._server_timing = server_timing
        self._arrived = arrived
        self.cold_start: ColdStart | None = None
        self.assigned_at: float | None = None

    def assigned(self, now: float) -> None:
        """Record that the request got a pod."""
        self.assigned_at = now

    def answered(self, pod: PodTracker, now: float) -> bytes:
        """Record the first byte of its response; return as ``fields``."""
        if self.cold_start is not None and self.assigned_at is not None:
            self.cold_starts.responded(self.cold_start, self.assigned_at, pod.endpoint, now)
        return self.fields(now)

    def ended(self, outcome: str, now: float) -> None:
        """Record how it ended."""
        if self.cold_start is not None:
            self.cold_starts.request_ended(self.cold_start, outcome, now)

    def fields(self, now: float) -> bytes:
        """Return the field lines that an answer begun now gets for it; empty where none are set."""
        return self._timing(now) if self._server_timing else b""

    def _timing(self, now: float) -> bytes:
        """Return the field Server-Timing, preceded by its CRLF.

        ``queue`` is the time without a pod, with what is known of it: ``scale`` until Kubernetes
        listed a pod, ``probe`` from then until one passed. ``pod`` is the rest, until ``now``.
        """
        assigned_at = self.assigned_at
        waited = (now if assigned_at is None else assigned_at) - self._arrived
        start = b"warm" if self.cold_start is None else b"cold"
        metrics = [b"queue;" + _dur(waited), b'start;desc="%b"' % start]
        if self.cold_start is not None:
            before = self._arrived
            for name, phase in ((b"scale", Phase.ADDRESS), (b"probe", Phase.PROBE_PASSED)):
                when = self.cold_start.seen.get(phase, before)
                if when > before:
                    metrics.append(name + b";" + _dur(when - before))
                    before = when
        if assigned_at is not None:
            metrics.append(b"pod;" + _dur(now - assigned_at))
        return b"\r\nServer-Timing: " + b", ".join(metrics)


def join_cold_start(wait: PodWait, entry: Entry, notes: bytes, now: float) -> bytes:
    """Record that a request begins to wait, perhaps once more; return its notes.

    Arguments:
        notes: field lines of ours for its response, so far.
    """
    if wait.cold_start is None or wait.cold_start.ended is not None:
        cold_start = wait.cold_starts.join(entry.throttler, entry.counters.cold_starts, now)
        if cold_start is not None:
            wait.cold_start = cold_start
            return notes.replace(WARM, COLD)
    return notes


def _dur(seconds: float) -> bytes:
    """Return a duration as the field has it: milliseconds."""
    return b"dur=%.1f" % (1000 * seconds)
