"""The evidence about a pod: the results of its probes, and its responses to requests.

Records only; ``throttler.backends`` writes the first, ``throttler.outliers`` the second.
"""

from __future__ import annotations

from math import inf
from typing import final


@final
class ProbeRecord:
    """The results of probes of a pod, and of failed connections for requests.

    Attributes:
        at: when a probe last passed or failed; None before the first.
        status: of the last probe's response; None if there was none.
        error: why the last probe or connection failed, or the response that ejected the pod; empty
            after a success.
        failures: failures since the last success; failing_since: when the first of them was.
        mesh_like: whether a mesh may have caused the failure of the last probe; None without a
            result since Kubernetes listed the pod as it does now.
        reached_until: a probe that fails after this time ends the pod's proof that pods are
            reachable. Infinite if the last probe passed, minus infinity without a proof.
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

    def record_success(self, now: float, status: int | None) -> None:
        """Record a passed probe, which proves that the pod is reachable."""
        self.at = now
        self.status = status
        self.error = ""
        self.failures = 0
        self.mesh_like = False
        self.reached_until = inf

    def record_failure(self, error: str, now: float) -> None:
        """Record one more failure; ``error`` is for people."""
        if not self.failures:
            self.failing_since = now
        self.failures += 1
        self.error = error


@final
class Ejection:
    """The bad responses of a pod, and the ejection that followed; see ``throttler.outliers``.

    Attributes:
        active: whether the pod is ejected; ``ProbeRecord.error`` is the response that caused it.
        consecutive_errors: error responses since the last good one.
        half_open: whether the pod is usable again after an ejection, but gets few requests until it
            has responded well to one.
        until: a passed probe ends the ejection only after this time.
        count: recent ejections of the pod.
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
