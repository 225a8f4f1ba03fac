"""The schedule of one pod's probes: the next time-out, and when the pod may be probed again.

Pure: the time is an argument. ``prober`` sends the probes of all pods.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from activator.probing.probe import NOT_READY, Probe
from throttler.model import ProbeKind
from throttler.pod import PodState, PodTracker, delay_after_not_ready, delay_after_tls

#: The longest time-out of a slow pod's probe, in seconds. queue-proxy delays its response for up to
#: 10 s while it polls its container. A longer time-out means fewer probes.
MAX_TIMEOUT = 5.0
#: The least time-out, in seconds, for a healthy pod with requests. It responds more slowly than the
#: idle pod on which its time-out was measured, and a failed probe ejects it.
MIN_TIMEOUT_BUSY = 1.0
#: A response is late after so many times the mean observed round trip.
ROUND_TRIPS = 4.0


class Schedule:
    """The probes of one pod, past and next (activator.process.timers.Timed).

    Arguments:
        default_timeout: of the first probe, in seconds, if the revision has none.
        come_due: called when the next probe is due.

    Attributes:
        due: when the next probe is due; infinite if that is not known.
        tls_failures: consecutive probes that failed because the pod's TLS was wrong.
        not_ready: consecutive probes with a "not ready" response, since the last call of ``probe``
            for this pod.
        quiet_until: time before which the prober does not probe the pod, even if requests wait.
        page_until: time before which it does not request the pod's health page, whatever happens;
            -inf for other probes.
    """

    __slots__ = (
        "_default_timeout",
        "armed",
        "come_due",
        "due",
        "not_ready",
        "page_until",
        "pod",
        "probe",
        "quiet_until",
        "round_trip",
        "started",
        "timeout",
        "tls_failures",
    )

    def __init__(
        self, pod: PodTracker, default_timeout: float, come_due: Callable[[Schedule, float], None]
    ) -> None:
        self.pod = pod
        self.come_due = come_due
        self.due = inf
        self.armed = inf
        self.probe: Probe | None = None
        self.started = 0.0
        self.round_trip = 0.0
        self._default_timeout = default_timeout
        self.timeout = self.least_timeout
        self.tls_failures = 0
        self.not_ready = 0
        self.quiet_until = -inf
        self.page_until = -inf

    def on_time(self, now: float) -> float:
        """See Timed."""
        if self.due <= now:
            self.come_due(self, now)
        return self.due

    @property
    def least_timeout(self) -> float:
        """The least time-out of the pod's probes, in seconds."""
        return self.pod.config.revision.probe.timeout or self._default_timeout

    @property
    def next_timeout(self) -> float:
        """The time-out of the next probe, in seconds."""
        busy = self.pod.in_flight > 0 and self.pod.state is PodState.HEALTHY
        return max(self.timeout, MIN_TIMEOUT_BUSY) if busy else self.timeout

    def note_page(self, probe: Probe) -> None:
        """Record when the application's health page may be requested again, after this probe."""
        revision = self.pod.config.revision
        if revision.probe.kind is ProbeKind.HTTP and not revision.behind_queue_proxy:
            self.page_until = probe.sent_at + revision.probe.least_interval

    def ended(self, kind: str, now: float) -> None:
        """Record the result of a probe: the next time-out, and the time without a further probe.

        Arguments:
            kind: the failure, as in ``Probe``; empty if the probe passed.
            now: seconds, on the driver's clock.
        """
        self._adapt(kind, now)
        self._back_off(kind, now)

    def _adapt(self, kind: str, now: float) -> None:
        """Adapt the time-out to the round trips of a slow or distant pod."""
        least = self.least_timeout
        most = max(MAX_TIMEOUT, least)
        if not kind:
            seen = now - self.started
            before = self.round_trip or seen
            self.round_trip = before + 0.25 * (seen - before)
            self.timeout = min(max(least, ROUND_TRIPS * self.round_trip), most)
        elif kind in ("timeout", "connect-timeout"):
            self.timeout = min(2 * self.timeout, most)

    def _back_off(self, kind: str, now: float) -> None:
        """Set ``quiet_until`` after a probe."""
        self.tls_failures = self.tls_failures + 1 if kind == "tls-failed" else 0
        self.not_ready = self.not_ready + 1 if kind in NOT_READY else 0
        least = self.pod.config.revision.probe.least_interval
        self.quiet_until = now + max(
            delay_after_tls(self.tls_failures),
            delay_after_not_ready(self.not_ready, now - self.started, least),
            self.page_until - now,
        )
