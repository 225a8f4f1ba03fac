"""How long a request may take beyond its one deadline, and which limit it was that ended it.

A revision bounds a request's whole duration, the time until its answer begins, and the silence
of its pod. The first two are the ticket's deadline, before and after the answer has begun. This
is the third, together with the wait for a pod's 100. Knows no socket; ``now`` is an argument.
Knative's counterpart: pkg/http/handler/timeout.go.
"""

from __future__ import annotations

from math import inf

from throttler.model import Revision

#: Seconds that a client waits for the pod's 100 before it gets ours (Go's transport: 1).
CONTINUE_AFTER = 1.0


def answer_within(revision: Revision, idle_from_arrival: bool) -> float:
    """Return within how many seconds after its arrival a request must get an answer, or the
    beginning of one.

    Arguments:
        idle_from_arrival: whether silence counts from the arrival, as in Knative, where a cold
            start can use up all of it; else it counts from when a pod has the request.
    """
    limits = [revision.timeout]
    if revision.response_start_timeout:
        limits.append(revision.response_start_timeout)
    if revision.idle_timeout and idle_from_arrival:
        limits.append(revision.idle_timeout)
    return min(limits)


class TimeLimits:
    """The limits of one request that move; requests of most revisions have none."""

    __slots__ = ("_active_at", "_continue_at", "_idle_timeout")

    def __init__(self, revision: Revision) -> None:
        self._idle_timeout = revision.idle_timeout or inf
        self._active_at = inf
        self._continue_at = inf

    def sent(self, now: float, expects_continue: bool) -> None:
        """A pod has the request; a wait for a connection was no silence of its own."""
        self._active_at = now
        self._continue_at = now + CONTINUE_AFTER if expects_continue else inf

    def touch(self, now: float) -> None:
        """Bytes pass, or could pass: silence begins anew."""
        self._active_at = now

    def continued(self) -> None:
        """The client waits for no 100 any more."""
        self._continue_at = inf

    def next(self) -> float:
        """Return when to look again, infinite for not at all."""
        return min(self._active_at + self._idle_timeout, self._continue_at)

    def is_idle(self, now: float) -> bool:
        """Whether the pod has been silent for too long."""
        return now >= self._active_at + self._idle_timeout

    def wants_continue(self, now: float) -> bool:
        """Whether the client has waited for a 100 for long enough."""
        return now >= self._continue_at


def name_of(revision: Revision, *, idle: bool) -> str:
    """Return the field of the Revision, with its value, that ended an unanswered request."""
    if idle:
        return f"idleTimeoutSeconds {revision.idle_timeout:g}"
    if 0 < revision.response_start_timeout < revision.timeout:
        return f"responseStartTimeoutSeconds {revision.response_start_timeout:g}"
    return f"timeoutSeconds {revision.timeout:g}"
