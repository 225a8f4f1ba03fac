"""Records one request's wait for a pod, for its cold start and for fields of its response.

Only a request that waits has this record. Sources: Server Timing
(https://www.w3.org/TR/server-timing/); KEDA's X-KEDA-HTTP-Cold-Start for the other field. Knative
has no counterpart.
"""

from __future__ import annotations

from math import inf

from activator.records.cold_starts import ColdStart, ColdStarts, Phase
from activator.records.entries import Entry
from throttler.pod import PodTracker
from throttler.request_policies import WaitMode

#: Field lines that state whether a response waited for a pod to start, each behind its CRLF.
WARM = b"\r\nActivator-Cold-Start: false"
COLD = b"\r\nActivator-Cold-Start: true"


class PodWait:
    """The waits of one request: one, and another for each requeue.

    Arguments:
        cold_starts: the cold starts of all revisions.
        arrived: when the request was admitted, seconds.
        server_timing: whether the response gets the field Server-Timing.

    Attributes:
        cold_start: the cold start that the request waits or waited for; None if it waited for a
            free slot.
        assigned_at: when the request was last assigned a pod, seconds; None before.
        mode: what the client gets while the request waits, see ``waiting_client``.
        step_at: when that mode acts next, seconds; infinite for never.
    """

    __slots__ = (
        "_arrived",
        "_counts",
        "_server_timing",
        "assigned_at",
        "cold_start",
        "cold_starts",
        "mode",
        "step_at",
    )

    def __init__(self, cold_starts: ColdStarts, arrived: float, *, server_timing: bool) -> None:
        self.cold_starts = cold_starts
        self._server_timing = server_timing
        self._arrived = arrived
        self.cold_start: ColdStart | None = None
        self.assigned_at: float | None = None
        self.mode = WaitMode.HOLD
        self.step_at = inf
        self._counts: dict[str, int] | None = None

    def follow(self, mode: WaitMode, step_at: float, counts: dict[str, int]) -> None:
        """Set what the client gets, and count the request while it waits.

        Arguments:
            mode: what the client gets.
            step_at: when the mode acts first, seconds.
            counts: waiting requests of the revision by mode; without HOLD.
        """
        self.leave()
        self.mode, self.step_at = mode, step_at
        if mode is not WaitMode.HOLD:
            self._counts = counts
            counts[mode.value] = counts.get(mode.value, 0) + 1

    def leave(self) -> None:
        """Record that the request does not wait any more, if it was counted."""
        counts, self._counts = self._counts, None
        if counts is not None:
            counts[self.mode.value] -= 1

    def assigned(self, now: float) -> None:
        """Record that the request is assigned a pod."""
        self.assigned_at = now
        self.leave()

    def responded(self, pod: PodTracker, now: float) -> bytes:
        """Record that the response begins; return its field lines, see ``fields``."""
        if self.cold_start is not None and self.assigned_at is not None:
            self.cold_starts.responded(self.cold_start, self.assigned_at, pod.endpoint, now)
        return self.fields(now)

    def ended(self, outcome: str, now: float) -> None:
        """Record the end of the request; ``outcome`` is one of ``counters.OUTCOMES``."""
        self.leave()
        if self.cold_start is not None:
            self.cold_starts.request_ended(self.cold_start, outcome, now)

    def fields(self, now: float) -> bytes:
        """Return the field lines for a response that begins now; empty if they are off."""
        return self._timing(now) if self._server_timing else b""

    def _timing(self, now: float) -> bytes:
        """Return the field Server-Timing, preceded by its CRLF.

        ``queue`` is the time without a pod. Two phases of it follow if they are known: ``scale``
        until Kubernetes listed a pod, and ``probe`` until a pod passed a probe. ``pod`` is
        the time from the assignment until ``now``.
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


def join_cold_start(wait: PodWait, entry: Entry, added_lines: bytes, now: float) -> bytes:
    """Add a request that begins to wait to the cold start of its revision, if there is one.

    Arguments:
        wait: the wait of the request.
        entry: the entry of its revision.
        added_lines: the field lines that the activator adds to its response, so far.
        now: the time, seconds.

    Returns:
        The field lines. They say that the response waited for a cold start if it does.
    """
    if wait.cold_start is None or wait.cold_start.ended is not None:
        cold_start = wait.cold_starts.join(entry.throttler, entry.counters.cold_starts, now)
        if cold_start is not None:
            wait.cold_start = cold_start
            return added_lines.replace(WARM, COLD)
    return added_lines


def _dur(seconds: float) -> bytes:
    """Return a duration in the form of the field: milliseconds."""
    return b"dur=%.1f" % (1000 * seconds)
