"""The record of one pod: its life as a table, its evidence, its requests, and its limit.

Only its revision's throttler changes it, except ``last_response_at``, which the byte path sets.
Knative's counterpart: podTracker in pkg/activator/net/throttler.go.
"""

from __future__ import annotations

from enum import Enum
from math import inf
from typing import Final, NamedTuple, final

from throttler.capacity import (
    MAX_CAPACITY,
    RAISE_ANYWAY,
    SLOW_START,
    SLOW_START_END,
    SLOW_START_STEP,
    WORTH_RAISING,
)
from throttler.model import Endpoint, ReadinessRule, RevisionConfig, RevisionID

# The pods with a free slot: a set of their numbers that finds the next one quickly.
#
# Usually the given number itself is in the set, which one list shows. Otherwise the bits of words
# find the next one, with a summary that has one bit for each word that is not 0. Both are small
# integers, for 1 pod as for 1,000.

#: A word has 2**_SHIFT bits, so all integers for up to 1,024 pods are small.
_SHIFT: Final = 5
_MASK: Final = 31


@final
class FreePods:
    """A set of numbers below ``size``.

    Arguments:
        whole: a set that has ``part`` while this one is not empty; None without one.

    Attributes:
        summary: bit i is set while word i is not 0; so it is 0 while the set is empty.
        after: where a policy that takes pods in turn continues.
    """

    __slots__ = ("_has", "_part", "_size", "_whole", "_words", "after", "summary")

    def __init__(self, size: int, whole: FreePods | None = None, part: int = 0) -> None:
        self._size = size
        self._whole = whole
        self._part = part
        self.after = 0
        self._has = [False] * size
        self._words = [0] * ((size >> _SHIFT) + 1)
        self.summary = 0

    def add(self, number: int) -> None:
        """Add a number; no error if the set has it."""
        word = number >> _SHIFT
        self._has[number] = True
        self._words[word] |= 1 << (number & _MASK)
        if self._whole is not None and not self.summary:
            self._whole.add(self._part)
        self.summary |= 1 << word

    def discard(self, number: int) -> None:
        """Remove a number; no error if the set lacks it."""
        word = number >> _SHIFT
        self._has[number] = False
        left = self._words[word] & ~(1 << (number & _MASK))
        self._words[word] = left
        if not left:
            self.summary &= ~(1 << word)
            if self._whole is not None and not self.summary:
                self._whole.discard(self._part)

    def take(self, pod: PodTracker, number: int) -> None:
        """Give a pod a number of this set, and add it if the pod has a free slot."""
        pod.free_pods, pod.number = self, number
        if pod.in_flight < pod.limit:
            self.add(number)

    def has(self, number: int) -> bool:
        """Return whether the set has a number."""
        return self._has[number]

    def next(self, number: int) -> int:
        """Return the first number from ``number`` on, else the lowest.

        The caller has checked ``summary``: the set is not empty.
        """
        if number >= self._size:
            number = 0
        if self._has[number]:
            return number
        word = number >> _SHIFT
        ahead = self._words[word] >> (number & _MASK)
        if ahead:
            return number + _lowest(ahead)
        later = self.summary >> (word + 1)
        word = word + 1 + _lowest(later) if later else _lowest(self.summary)
        return (word << _SHIFT) + _lowest(self._words[word])


def _lowest(bits: int) -> int:
    """Return the number of the lowest bit that is set."""
    return (bits & -bits).bit_length() - 1


# Slow start: when a pod without a limit of its own may have more requests in flight.
#
# The limit of such a pod begins low and doubles as long as requests are queued
# (throttler/capacity.py). Knative has no counterpart: there the first pod gets all queued
# requests at once.


@final
class Ramp:
    """The effect of the last doubling of one pod's limit.

    Attributes:
        finished: requests that the pod ended while others were queued, since the last step.
    """

    __slots__ = ("_finished_before", "_steps_kept", "finished")

    def __init__(self) -> None:
        self.finished = self._finished_before = self._steps_kept = 0

    def restart(self) -> None:
        """Discard the counts of an earlier limit."""
        self.finished = self._finished_before = self._steps_kept = 0

    def next_limit(self, limit: int) -> int:
        """Return twice the limit, or the same limit if the last doubling gained nothing.

        If a pod with twice the limit ends no more requests than before, it is busy. More requests
        would wait inside it, on connections that cost both sides. After RAISE_ANYWAY such steps,
        the limit is raised once more, to try. The constants are in throttler.capacity.

        Arguments:
            limit: requests in flight that the pod may have.
        """
        finished, before = self.finished, self._finished_before
        self.finished, self._finished_before = 0, finished
        if before and finished < WORTH_RAISING * before and self._steps_kept < RAISE_ANYWAY:
            self._steps_kept += 1
            return limit
        self._steps_kept = 0
        return limit * 2 if limit < SLOW_START_END else MAX_CAPACITY


@final
class SlowStart:
    """The next doubling of one revision's limits.

    Arguments:
        due: the armed slow starts of all revisions; this one adds and removes itself.

    Attributes:
        revision: the revision of these limits.
        at: when the limits double, seconds on the caller's clock; None while no request is queued
            for it.
    """

    __slots__ = ("_due", "at", "revision")

    def __init__(self, revision: RevisionID, due: set[SlowStart]) -> None:
        self.revision = revision
        self.at: float | None = None
        self._due = due

    def arm(self, now: float, step: float = SLOW_START_STEP) -> None:
        """Schedule the next doubling, unless an earlier one is scheduled.

        Arguments:
            step: seconds until then.
        """
        if self.at is None or now + step < self.at:
            self.at = now + step
            self._due.add(self)

    def disarm(self) -> None:
        """Remove the schedule: the caller raises the limits, or no request is queued."""
        self.at = None
        self._due.discard(self)


# The life of a pod as a table, and the delay until its next probe.
#
# *Ready* is Kubernetes' word; *healthy* means that a pod passed a probe of the activator, or needs
# none. A new epoch makes the results of older probes void. Knative's counterpart: healthyPods in
# pkg/activator/net/revision_backends.go, which has neither table nor epoch.


class PodState(Enum):
    """The state of a pod, as far as the activator knows.

    PROBING: not usable yet, or not any more. HEALTHY: passed its last probe, or needs none.
    DRAINING: delisted, with requests in flight. GONE: delisted, without requests.
    """

    PROBING = "probing"
    HEALTHY = "healthy"
    DRAINING = "draining"
    GONE = "gone"


class PodEvent(Enum):
    """The events of a pod, in the past tense.

    LISTED: Kubernetes lists a draining pod again. DELISTED: Kubernetes no longer lists it.
    BECAME_NOT_READY: Kubernetes lists it, but no longer as ready. CONNECT_FAILED: it could not get
    a request, or closed before a byte of its response. EJECTED: outlier ejection, see
    throttler.backends. TRUSTED: Kubernetes lists it as ready, and no probe is needed, see
    throttler.model. BYPASSED: a setting sends all requests to the ClusterIP, so results of probes
    no longer count. IDLE: a draining pod has no request left.
    """

    LISTED = "listed"
    DELISTED = "delisted"
    BECAME_NOT_READY = "became-not-ready"
    PROBE_PASSED = "probe-passed"
    PROBE_FAILED = "probe-failed"
    CONNECT_FAILED = "connect-failed"
    EJECTED = "ejected"
    TRUSTED = "trusted"
    BYPASSED = "bypassed"
    IDLE = "idle"


#: Events that remove a pod from use on purpose. After any other event, the pod may recover soon.
WITHDRAWN: Final = frozenset((PodEvent.DELISTED, PodEvent.BECAME_NOT_READY, PodEvent.BYPASSED))


class Transition(NamedTuple):
    """The next state, and whether results of older probes become void."""

    state: PodState
    new_epoch: bool = False


_P, _H, _D = PodState.PROBING, PodState.HEALTHY, PodState.DRAINING

#: The whole life of a pod. A pair that is absent cannot happen; if it does, that is a bug. GONE is
#: final: an address that Kubernetes lists again after that is a new pod.
TRANSITIONS: Final[dict[tuple[PodState, PodEvent], Transition]] = {
    (_P, PodEvent.DELISTED): Transition(_D),
    (_P, PodEvent.BECAME_NOT_READY): Transition(_P),
    (_P, PodEvent.PROBE_PASSED): Transition(_H),
    (_P, PodEvent.PROBE_FAILED): Transition(_P),
    (_P, PodEvent.CONNECT_FAILED): Transition(_P),
    (_P, PodEvent.TRUSTED): Transition(_H),
    (_P, PodEvent.BYPASSED): Transition(_P, new_epoch=True),
    (_H, PodEvent.DELISTED): Transition(_D),
    (_H, PodEvent.BECAME_NOT_READY): Transition(_P, new_epoch=True),
    (_H, PodEvent.PROBE_PASSED): Transition(_H),
    (_H, PodEvent.PROBE_FAILED): Transition(_P, new_epoch=True),
    (_H, PodEvent.CONNECT_FAILED): Transition(_P, new_epoch=True),
    (_H, PodEvent.EJECTED): Transition(_P, new_epoch=True),
    (_H, PodEvent.BYPASSED): Transition(_P, new_epoch=True),
    (_D, PodEvent.LISTED): Transition(_P, new_epoch=True),
    (_D, PodEvent.PROBE_PASSED): Transition(_D),
    (_D, PodEvent.PROBE_FAILED): Transition(_D),
    (_D, PodEvent.CONNECT_FAILED): Transition(_D),
    (_D, PodEvent.IDLE): Transition(PodState.GONE),
}


def transition(state: PodState, event: PodEvent) -> Transition:
    """Return the transition for ``event`` in ``state``.

    Raises:
        LookupError: the table has no such pair; the text names both.
    """
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise LookupError(f"a pod that is {state.value} cannot have {event.value}") from None


#: Seconds between the starts of two probes of a pod while requests are queued. A refused probe
#: costs about 0.5 ms of CPU. On average, half of the interval adds to a cold start. Knative: 200
#: ms.
DELAY_WANTED: Final = 0.005
#: The same after WANTED_LONG_AFTER and WANTED_VERY_LONG_AFTER seconds of failures. A start that
#: takes this long is not noticeably longer by 20 or 100 ms.
DELAY_WANTED_LONG: Final = 0.02
DELAY_WANTED_VERY_LONG: Final = 0.1
WANTED_LONG_AFTER: Final = 10.0
WANTED_VERY_LONG_AFTER: Final = 60.0
#: Seconds between probes of a pod while no request is queued. They double with each failure, up to
#: the maximum. A queued request causes a probe at once, so these probes only give a head start.
DELAY_UNWANTED: Final = 0.2
DELAY_UNWANTED_MAX: Final = 30.0
#: The maximum while other pods of the revision have requests: a pod that recovers should share
#: them.
DELAY_UNWANTED_BUSY: Final = 2.0
#: Seconds between probes of a healthy pod without traffic, while its revision has requests.
DELAY_HEALTHY: Final = 30.0
#: The same while its revision has none. Kubernetes checks the pod meanwhile, and the first request
#: finds a failure soon. With 30 s, 11,000 pods at rest took 7 % of a core.
DELAY_HEALTHY_IDLE: Final = 150.0
#: Seconds between probes of a ClusterIP that fails. It works only if the pods behind it do, and the
#: activator probes these as well. Knative: 200 ms.
DELAY_SERVICE: Final = 0.2
#: Seconds until the next probe after a time-out. The pod had the whole time-out to respond. Probing
#: an address that drops all packets again at once gains nothing, and delays the probe of another
#: pod.
DELAY_AFTER_TIMEOUT: Final = 0.05
#: Seconds between probes of a pod whose TLS handshake fails, doubling up to the maximum.
#: Certificates and roots change within seconds at best, and a handshake costs twenty times a
#: refusal.
DELAY_AFTER_TLS: Final = 0.05
DELAY_AFTER_TLS_MAX: Final = 1.0
#: Seconds between probes of a pod that responds "not ready", doubling up to the maximum:
#: queue-proxy checks the application for each probe. The maximum is Knative's probe interval.
DELAY_NOT_READY: Final = 0.025
DELAY_NOT_READY_MAX: Final = 0.2
#: The first delay is at least this many durations of the probe, so that probes use at most a
#: twentieth of the pod's time.
DELAY_NOT_READY_DURATIONS: Final = 20.0


def probe_delay(
    *,
    healthy: bool,
    wanted_for: float | None,
    timed_out: bool,
    failures: int,
    busy: bool = False,
    unwanted: float = DELAY_UNWANTED,
    bypassed_for: float | None = None,
    is_service: bool = False,
) -> float:
    """Return the seconds until a pod's next probe.

    Arguments:
        healthy: whether the pod passed its last probe.
        wanted_for: seconds of failed probes while requests are queued; None if none is queued.
        timed_out: whether the last probe got no response in time (rather than a refusal).
        failures: failed probes since the last passed one.
        busy: whether the revision has requests, so that this pod may be needed soon.
        unwanted: seconds to wait after the first failure while no request is queued.
        bypassed_for: seconds since the ClusterIP is in use because no pod was reachable; None if it
            is not in use. The delay grows with this time, whether requests are queued or not. A pod
            that was only late for a moment is found soon, and pods behind a mesh get few vain
            probes.
        is_service: whether the ClusterIP is probed.
    """
    if healthy:
        return DELAY_HEALTHY if busy else DELAY_HEALTHY_IDLE
    if bypassed_for is not None and not is_service:
        return min(max(bypassed_for, DELAY_WANTED), DELAY_UNWANTED_MAX)
    if is_service and wanted_for is not None:
        return DELAY_SERVICE
    if wanted_for is None:
        longest = DELAY_UNWANTED_BUSY if busy else DELAY_UNWANTED_MAX
        return min(unwanted * 2.0 ** min(max(failures - 1, 0), 10), longest)
    if wanted_for > WANTED_VERY_LONG_AFTER:
        return DELAY_WANTED_VERY_LONG
    if timed_out:
        return DELAY_AFTER_TIMEOUT
    return DELAY_WANTED_LONG if wanted_for > WANTED_LONG_AFTER else DELAY_WANTED


def delay_after_tls(failures: int) -> float:
    """Return the seconds without a probe after a failed TLS handshake, even if requests are queued.

    Arguments:
        failures: failed handshakes in a row; 0 if the last probe failed in another way, or passed.
    """
    if not failures:
        return 0.0
    return min(DELAY_AFTER_TLS * 2.0 ** min(failures - 1, 10), DELAY_AFTER_TLS_MAX)


def delay_after_not_ready(responses: int, took: float, least: float = DELAY_NOT_READY) -> float:
    """Return the seconds without a probe after "not ready" responses, even if requests are queued.

    The maximum overrides the duration. So a pod with a slow probe still gets its first request at
    most 200 ms after it is ready, as with Knative's activator.

    Arguments:
        responses: "not ready" responses in a row; 0 if the last probe got none.
        took: seconds from the start of the last probe to its response.
        least: the first delay is at least this long.
    """
    if not responses:
        return 0.0
    first = max(least, DELAY_NOT_READY_DURATIONS * took)
    return min(first * 2.0 ** min(responses - 1, 10), DELAY_NOT_READY_MAX)


# The evidence about a pod: the results of its probes, and its responses to requests.
#
# Records only; ``throttler.backends`` writes both.


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
    """The bad responses of a pod, and the ejection that followed; see ``throttler.backends``.

    Attributes:
        active: whether the pod is ejected; ``ProbeRecord.error`` is the response that caused it.
        consecutive_errors: error responses since the last good one.
        half_open: whether the pod is usable again after queue-proxy's own response ejected it, but
            gets one request more than it has. That ends with its next response that does not eject
            it, or ``SLOW_START_STEP`` after its probe if requests wait.
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


NO_PROBE: Final = ReadinessRule.NO_PROBE
_PROBING, _HEALTHY = PodState.PROBING, PodState.HEALTHY


class PodTracker:
    """One pod of one revision.

    Attributes:
        config: the settings in force for its revision.
        endpoint: its address and uid; address: ``ip:port``, IPv6 in brackets.
        is_service: whether this is no pod, but the ClusterIP of the revision's Service, or another
            activator: it chooses the pod.
        ready: whether Kubernetes lists it in ``addresses`` (False: in ``notReadyAddresses``).
        taken_by: the revision that its address moved to, see throttler.throttler; None if none.
        listed_at: when Kubernetes first listed it, seconds on the caller's clock.
        state: see PodState; state_since: when that state began.
        epoch: grows when results of earlier probes become void.
        was_used: it has been usable, and no event of ``WITHDRAWN`` has followed.
        probe: the results of its probes; ejection: the results of its responses.
        last_response_at: when it last began a response to a request.
        in_flight: its requests in flight from this activator; limit: how many it may have.
        ramp: raises that limit if the revision sets none.
        in_share: whether it is in the activator's share.
        free_pods: the set that has its number while it has a free slot, see FreePods;
            None while it gets no requests. number: its index among the pods of that set.
    """

    __slots__ = (
        "address",
        "config",
        "ejection",
        "endpoint",
        "epoch",
        "free_pods",
        "in_flight",
        "in_share",
        "is_service",
        "last_response_at",
        "limit",
        "listed_at",
        "number",
        "probe",
        "ramp",
        "ready",
        "state",
        "state_since",
        "taken_by",
        "was_used",
    )

    def __init__(
        self,
        config: RevisionConfig,
        endpoint: Endpoint,
        ready: bool,
        now: float,
        is_service: bool = False,
    ) -> None:
        self.config = config
        self.endpoint = endpoint
        self.address = endpoint.address
        self.is_service = is_service
        self.ready = ready
        self.taken_by: RevisionID | None = None
        self.listed_at = self.state_since = self.last_response_at = now
        self.state = PodState.PROBING
        self.epoch = 0
        self.was_used = False
        self.probe = ProbeRecord(now)
        self.ejection = Ejection()
        self.in_flight = 0
        self.limit = config.revision.container_concurrency
        self.ramp = Ramp()
        self.number = 0
        self.in_share = False
        self.free_pods: FreePods | None = None

    @property
    def zone(self) -> str:
        """The zone in which it runs; empty if that is unknown."""
        return self.config.zones.get(self.address, "")

    @property
    def in_use(self) -> bool:
        """Whether it gets requests."""
        return self.free_pods is not None

    @property
    def proves_reach(self) -> bool:
        """Whether this pod proves that pods are reachable at their own addresses.

        It has passed a probe since Kubernetes listed it, and its probes have not failed for
        ``throttler.model.PROOF_LASTS`` since then.
        """
        return self.probe.reached_until > -inf

    @property
    def is_trusted(self) -> bool:
        """Whether Kubernetes' list is enough to use the pod without a probe."""
        return self.config.reach.trusted and self.ready and not self.is_service

    @property
    def is_reachable(self) -> bool:
        """Whether results of probes count; for pods they do not while a setting bypasses pods."""
        return self.config.reach.pods or self.is_service

    @property
    def wants_probe(self) -> bool:
        """Whether to probe it again when the time has come."""
        if self.state is _HEALTHY and self.is_trusted:
            return False
        if self.config.revision.readiness is NO_PROBE and not self.ready:
            return False  # Kubernetes alone decides when it is used
        return self.state in (_PROBING, _HEALTHY) and self.is_reachable

    def apply(self, event: PodEvent, now: float) -> None:
        """Move to the state that follows ``event``.

        Raises:
            LookupError: the table has no transition for the pair.
        """
        before = self.state
        self.state, new_epoch = transition(before, event)
        if self.state is not before:
            self.state_since = now
        if event in WITHDRAWN:
            self.was_used = False
        if new_epoch:
            self.epoch += 1
            self.probe.mesh_like = None

    def set_limit(self) -> None:
        """Set the revision's limit; without one, begin slow start above the requests in flight.

        A half-open pod gets at most one request more than it has. If that fails, no other does.
        """
        self.limit = self.config.revision.container_concurrency or self.in_flight + SLOW_START
        if self.ejection.half_open:
            self.limit = min(self.limit, self.in_flight + 1)
        self.ramp.restart()

    def raise_limit(self) -> None:
        """Double the limit of slow start, unless the last doubling gained nothing."""
        self.limit = self.ramp.next_limit(self.limit)

    def __repr__(self) -> str:
        return f"<pod {self.address} {self.state.value} {self.in_flight}/{self.limit}>"
