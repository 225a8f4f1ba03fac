"""What is known of a pod from two sources: its probes, and its responses to requests.

Records only; ``throttler.backends`` writes the one, ``throttler.outliers`` the other.
"""

from __future__ import annotations

from math import inf
from typing import final


@final
class ProbeRecord:
    """What our probes of a pod, and connections for requests, found.

    Attributes:
        at: when a probe last passed or failed; None before the first.
        status: of the last probe's response; None if there was none.
        error: why the last probe or connection failed, or the response for which the pod is
            ejected; empty after a success.
        failures: failures since the last success; failing_since: when the first of them was.
        mesh_like: whether the last probe failed in a way that a mesh might be the cause of; None
            without a response since the pod was listed as it is.
        reached_until: a probe that fails after this time ends the pod's proof that pods can be
            reached. Infinite while its last probe passed, minus infinity without a proof.
    """

    __slots__ = (
        "at",
        "error",
        "failing_since",
        "failures",
        "mesh_like",
        "reached_until",
        "status",
    )

    def __init__(self, now: float) -> None:
        self.at: float | None = None
        self.status: int | None = None
        self.error = ""
        self.failures = 0
        self.failing_since = now
        self.mesh_like: bool | None = None
        self.reached_until = -inf

    def record_failure(self, error: str, now: float) -> None:
        """Record one more failure; ``error`` is for people."""
        if not self.failures:
            self.failing_since = now
        self.failures += 1
        self.error = error


@final
class Ejection:
    """What a pod's responses to requests say against it, see ``throttler.outliers``.

    Attributes:
        active: the pod is ejected; ``ProbeRecord.error`` is the response that caused it.
        consecutive_errors: bad responses since the last good one.
        half_open: the pod was ejected and is in use again; it gets few requests before it has
            responded well to one.
        until: no probe brings the pod back before this time.
        count: how often the pod was ejected of late.
        recovered_at: when it first responded well after the last ejection; infinite before.
    """

    __slots__ = ("active", "consecutive_errors", "count", "half_open", "recovered_at", "until")

    def __init__(self) -> None:
        self.active = False
        self.consecutive_errors = 0
        self.half_open = False
        self.until = -inf
        self.count = 0
        self.recovered_at = -inf
