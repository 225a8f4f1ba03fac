"""Decides when each pod is probed: each pod has a schedule of its own.

There are no rounds and no common deadline, so a pod that does not respond delays no other pod,
except at a limit. Two limits hold: probes in flight, and probes per second. At a limit,
``ProbeQueue`` orders the probes that are due. ``throttler.pod.probe_delay`` gives the pause between
two probes of a pod. Queued requests do not shorten ``delay_after_not_ready``, ``delay_after_tls``.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable
from math import inf
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from activator.driver import Driver
from activator.probing.probe import NOT_READY, Probe
from activator.process.timers import Timers
from throttler.model import ProbeKind
from throttler.pod import (
    DELAY_HEALTHY,
    DELAY_SERVICE,
    DELAY_UNWANTED,
    PodState,
    PodTracker,
    delay_after_not_ready,
    delay_after_tls,
    probe_delay,
)
from throttler.revision import RevisionThrottler

if TYPE_CHECKING:
    from activator.runtime import ProbePools

Key = TypeVar("Key", bound=Hashable)
#: Ranks double: 0, 1, 2-3, 4-7, ... failures. Each rank is first in, first out.
_RANKS: Final = 17
#: One turn in so many is for pods without queued requests, while other pods have some.
SHARE: Final = 8
#: The longest time-out of a slow pod's probe, in seconds. queue-proxy delays its response for up to
#: 10 s while it polls its container. A longer time-out means fewer probes.
MAX_TIMEOUT = 5.0
#: The least time-out, in seconds, for a healthy pod with requests. It responds more slowly than the
#: idle pod on which its time-out was measured, and a failed probe ejects it.
MIN_TIMEOUT_BUSY = 1.0
#: A response is late after so many times the mean observed round trip.
ROUND_TRIPS = 4.0
#: Probes per second in the long run, and in one burst. A probe costs 0.07 to 0.5 ms. Without
#: this limit, one queued request for 500 pods that refuse took 64 % of a core. A burst begins in
#: one turn of the loop, and delays requests by about 5 ms.
MAX_RATE = 1000.0
BURST = 64.0
#: Seconds until the prober checks again whether the rate allows more probes.
REFILL = 0.005
#: Seconds after a request for which a revision counts as busy. Most requests are shorter than the
#: time between two requests, so the number in flight at one moment proves little.
BUSY_FOR = 30.0
#: Share of a healthy pod's interval by which the prober varies it, so that probes spread out.
JITTER = 0.2


class ProbeQueue(Generic[Key]):
    """The keys of due probes, in the order in which they are sent.

    Pods of revisions with queued requests are first. Among them, pods with fewer failures are
    first: an unreachable pod is behind a pod without a probe so far. All other pods have a small
    share of the turns. So a revision whose pods all refuse does not delay the probes of other pods
    without end. Each operation is O(1) in the length of the queue.
    """

    def __init__(self) -> None:
        # One lane per rank; the fewest failures first.
        self._wanted = [OrderedDict[Key, None]() for _ in range(_RANKS)]
        self._others = [OrderedDict[Key, None]() for _ in range(_RANKS)]
        self._lane: dict[Key, OrderedDict[Key, None]] = {}
        self._turns = 0

    def __len__(self) -> int:
        return len(self._lane)

    def __contains__(self, key: Key) -> bool:
        return key in self._lane

    def put(self, key: Key, *, wanted: bool, failures: int) -> bool:
        """Queue a key. A key that is already in the right lane keeps its turn.

        Arguments:
            wanted: whether a request waits for it.
            failures: consecutive failures so far.

        Returns:
            Whether the key entered the lane now.
        """
        lanes = self._wanted if wanted else self._others
        lane = lanes[min(failures.bit_length(), _RANKS - 1)]
        if self._lane.get(key) is lane:
            return False
        self.discard(key)
        self._lane[key] = lane
        lane[key] = None
        return True

    def discard(self, key: Key) -> None:
        """Remove a key, if it is in the queue."""
        if (lane := self._lane.pop(key, None)) is not None:
            del lane[key]

    def clear(self) -> None:
        """Remove all keys."""
        for key in list(self._lane):
            self.discard(key)

    def first(self) -> Key | None:
        """Return the key whose turn it is; None if the queue is empty."""
        if not self._lane:
            return None
        both = (self._wanted, self._others)
        for lanes in both[::-1] if self._turns % SHARE == SHARE - 1 else both:
            for lane in lanes:
                if lane:
                    return next(iter(lane))
        return None

    def take(self) -> None:
        """Remove the key that is ``first``, and count its turn."""
        if (key := self.first()) is not None:
            self.discard(key)
            self._turns += 1


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
        quiet_until: time before which only ``probe`` probes the pod, even if requests wait.
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


class PodProber:
    """Probes all pods (activator.driver.Prober).

    Arguments:
        timeout: seconds until a pod's first response is late; later it follows the round trips.
        max_in_flight: most probes at a time.
        random: returns numbers in [0, 1).
        frequency: seconds between the first probes of a pod for which no request waits.

    Attributes:
        attempts: number of probes sent; failures: number of failed probes, by kind.
    """

    def __init__(
        self,
        driver: Driver,
        pools: ProbePools,
        timeout: float,
        max_in_flight: int,
        random: Callable[[], float],
        frequency: float = DELAY_UNWANTED,
    ) -> None:
        self._frequency = frequency
        self._driver = driver
        self._pools = pools
        self._timeout = timeout
        self._max_in_flight = max_in_flight
        self._random = random
        self._schedules: dict[PodTracker, Schedule] = {}
        self._timers = Timers(driver.clock)
        # Probes that are due.
        self._queue = ProbeQueue[Schedule]()
        self._tokens = BURST
        self._tokens_at = driver.clock()
        self._refill: asyncio.TimerHandle | None = None
        self._held = False
        self.in_flight = 0
        self.attempts = 0
        self.failures: dict[str, int] = {}

    # -- for the driver -------------------------------------------------------------------------

    def probe(self, pod: PodTracker) -> None:
        """Probe a pod now, or as soon as it may be probed.

        A probe in flight is cancelled, since it began before the change. The backoff after "not
        ready" responses begins again: Kubernetes lists the pod differently, or a request failed.
        """
        schedule = self._schedules.get(pod)
        if schedule is None:
            schedule = self._schedules[pod] = Schedule(pod, self._timeout, self._come_due)
        self._cancel(schedule)
        schedule.not_ready = 0
        earliest = max(pod.ejection.until, schedule.page_until)
        if earliest > self._driver.clock():
            self._queue.discard(schedule)
            self._at(schedule, earliest)
        else:
            self._probe_now(schedule)

    def hurry(self, throttler: RevisionThrottler) -> None:
        for pod in throttler.backends.unhealthy():
            schedule = self._schedules.get(pod)
            if schedule is None or schedule.probe is not None:
                continue
            if schedule in self._queue:
                self._enqueue(schedule)  # among the pods that requests wait for
                continue
            when = max(schedule.quiet_until, pod.ejection.until)
            if pod.is_service:
                when = max(when, schedule.started + DELAY_SERVICE)
            if when <= self._driver.clock():
                self._probe_now(schedule)
            elif when < schedule.due:
                self._at(schedule, when)

    def forget(self, pod: PodTracker) -> None:
        schedule = self._schedules.pop(pod, None)
        if schedule is not None:
            schedule.due = inf
            self._timers.disarm(schedule)
            self._queue.discard(schedule)
            self._cancel(schedule)

    def hold(self) -> None:
        """Send no probes until ``go_on``, because it is not known yet how to probe pods."""
        self._held = True

    def go_on(self) -> None:
        """Send the probes that are queued since ``hold``."""
        self._held = False
        self._start_queued()

    def close(self) -> None:
        """Stop probing."""
        self._queue.clear()  # else each cancelled probe would start another
        for pod in list(self._schedules):
            self.forget(pod)
        self._timers.close()
        if self._refill is not None:
            self._refill.cancel()
            self._refill = None

    # -- one probe ------------------------------------------------------------------------------

    def _probe_now(self, schedule: Schedule) -> None:
        """Send a probe now, or as soon as the limits allow one."""
        schedule.due = inf
        if not self._queue and schedule.pod.wants_probe and self._may_start():
            self._start(schedule)
            return
        self._enqueue(schedule)
        self._start_queued()

    def _enqueue(self, schedule: Schedule) -> bool:
        """Queue a probe; return whether its place in the queue changed."""
        pod = schedule.pod
        throttler = self._driver.throttler.of(pod.config)
        wanted = throttler is not None and throttler.queued.waiting > 0
        return self._queue.put(schedule, wanted=wanted, failures=pod.probe.failures)

    def _may_start(self) -> bool:
        """Return whether the limits allow one more probe; if so, count it against the rate."""
        if self._held or self.in_flight >= self._max_in_flight:
            return False
        now = self._driver.clock()
        earned = (now - self._tokens_at) * MAX_RATE
        self._tokens = min(self._tokens + earned, BURST)
        self._tokens_at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def _await_rate(self) -> None:
        """If only the rate delays probes, continue when it allows the next few."""
        if self._held or self._refill is not None:
            return
        if self._queue and self.in_flight < self._max_in_flight:
            loop = asyncio.get_running_loop()
            self._refill = loop.call_later(REFILL, self._refilled)

    def _refilled(self) -> None:
        self._refill = None
        self._start_queued()

    def _start(self, schedule: Schedule) -> None:
        self.in_flight += 1
        self.attempts += 1
        pod, timeout = schedule.pod, schedule.next_timeout
        schedule.started = self._driver.clock()
        pool = self._pools.of(pod)
        self._driver.cold_starts.probe_started(pod, schedule.started)
        schedule.probe = Probe(pod, pool, timeout, self._done)
        schedule.probe.start()

    def _cancel(self, schedule: Schedule) -> None:
        if (probe := schedule.probe) is not None:
            probe.cancel()
            schedule.note_page(probe)
            schedule.probe = None
            self._release_place()

    def _release_place(self) -> None:
        """Count the end of a probe in flight; start the next one in the queue."""
        self.in_flight -= 1
        self._start_queued()

    def _start_queued(self) -> None:
        queue = self._queue
        while (schedule := queue.first()) is not None:
            if not schedule.pod.wants_probe:
                queue.discard(schedule)
            elif not self._enqueue(schedule):  # it is in the right lane
                if not self._may_start():
                    break
                queue.take()
                self._start(schedule)
        self._await_rate()

    def _done(self, probe: Probe, kind: str, text: str) -> None:
        pod = probe.pod
        schedule = self._schedules[pod]
        schedule.probe = None
        schedule.note_page(probe)
        self._release_place()
        schedule.ended(kind, self._driver.clock())
        if kind:
            self.failures[kind] = self.failures.get(kind, 0) + 1
            self._driver.probe_failed(pod, probe.epoch, text, probe.status, probe.responded)
        else:
            self._driver.probe_passed(pod, probe.epoch, probe.status)
        # The driver may have called ``probe`` or ``forget`` for this pod meanwhile.
        if not self._is_pending(schedule) and pod in self._schedules:
            self._plan(schedule, kind)

    def _is_pending(self, schedule: Schedule) -> bool:
        """Return whether a probe is in flight or queued."""
        return schedule.probe is not None or schedule in self._queue

    # -- the schedule ---------------------------------------------------------------------------

    def _plan(self, schedule: Schedule, kind: str) -> None:
        """Set when the pod is probed again; ``kind`` is empty if its last probe passed."""
        pod = schedule.pod
        if not pod.wants_probe:
            return
        now = self._driver.clock()
        throttler = self._driver.throttler.of(pod.config)
        assert throttler is not None
        bypassed_since = throttler.backends.service.used_since
        healthy = pod.state is PodState.HEALTHY
        oldest = throttler.queued.oldest()
        timed_out = kind in ("timeout", "connect-timeout")
        delay = probe_delay(
            healthy=healthy,
            wanted_for=now - max(oldest.arrived, pod.probe.failing_since) if oldest else None,
            timed_out=timed_out,
            failures=pod.probe.failures,
            busy=throttler.slots.in_flight > 0 or now - throttler.last_release < BUSY_FOR,
            unwanted=self._frequency,
            bypassed_for=None if bypassed_since is None else now - bypassed_since,
            is_service=pod.is_service,
        )
        if healthy:
            delay *= 1 + JITTER * (self._random() - 0.5)
        # While a request waits, the delay counts from the start of the last probe. Else the time
        # that a refusal takes would delay each probe.
        since = schedule.started if oldest and not timed_out else now
        self._at(schedule, max(since + delay, now, schedule.quiet_until, pod.ejection.until))

    def _at(self, schedule: Schedule, when: float) -> None:
        schedule.due = when
        if schedule.armed > when:
            self._timers.arm(schedule, when)

    def _come_due(self, schedule: Schedule, now: float) -> None:
        """Probe the pod, unless responses to requests have proved it healthy since."""
        pod = schedule.pod
        if not pod.wants_probe:
            schedule.due = inf
            return
        fresh_until = pod.last_response_at + DELAY_HEALTHY * (1 - JITTER)
        if pod.state is PodState.HEALTHY and fresh_until > now:
            self._at(schedule, fresh_until)
        else:
            self._probe_now(schedule)
