"""Decides what to do about one Service: its replicas, its takeover slice, its state for KEDA.

Pure: one call per tick, and one for each event. The caller carries the plan out, and passes what it
sees then with the next call. So a plan that could not be carried out is made again.

With the routes ``takeover`` and ``front`` a workload sleeps in two steps. While it *closes*, its
pods stay, and the activators become endpoints of the Service. The last pod goes when all proxies
have these endpoints, and no request came meanwhile.
"""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field
from enum import Enum
from math import ceil
from typing import Final, NamedTuple, final

from activator.kpa.decision import Autoscaler, Observation, Why
from activator.plain.annotations import Annotations, Owner, Route
from activator.scale.reasons import ScaleReason

#: Seconds until every proxy of a cluster has a changed slice: kube-proxy collects changes for 1 s.
PROPAGATION: Final = 2.0
#: Seconds in which a slice is usually written; a longer time needs a reason.
SLICE_WRITTEN: Final = 5.0
#: Seconds for which the activators watch for requests before the last pod goes, at most. While
#: pods are ready, clients connect to them, and no activator counts their requests.
OBSERVATION: Final = 60.0
#: Seconds after which Kubernetes no longer lists pods as ready that it ends, also if it is slow.
PODS_END: Final = 10.0
#: Seconds between two attempts to scale a workload that stays at 0.
RETRY_COLD_START: Final = 2.0
#: Seconds for which a Service counts as active after a cold start's pods are ready, and after each
#: request. KEDA's default ``pollingInterval``: a shorter time could pass between two of its polls.
ACTIVATION_LEASE: Final = 30.0


#: The routes for which the scaler writes slices.
WITH_SLICES: Final = frozenset(route for route in Route if route.has_slices)

#: One object for all: thousands of Services have these times.
NEVER: Final = float("-inf")
FOREVER: Final = float("inf")


class WorkloadPhase(Enum):
    """Where a workload is between asleep and awake; the value is what people read.

    ASLEEP: no replicas. STARTING: replicas, and no pod is ready. AWAKE: pods are ready.
    CLOSING: pods are ready, and stay until the activators have taken over.
    """

    ASLEEP = "asleep"
    STARTING = "starting"
    AWAKE = "awake"
    CLOSING = "closing"


class Observed(NamedTuple):
    """What is known of a Service and its workload.

    Attributes:
        current: requests in flight or queued, over all activators.
        stable, panic: mean load of the two windows.
        last_busy: when a report last had a request.
        frozen: why no replicas of any workload may be removed; None if they may.
        replicas: how many the workload asks for.
        ready: pods that Kubernetes lists as ready.
        other_owner: an HPA or ScaledObject of the same workload, as in ``HPA shop/hello``; empty
            if there is none, or if the annotation names it as the owner.
        slice_since: with the routes ``takeover`` and ``front``: since when the activators have been
            endpoints of the Service, as the API server has confirmed; None if they are not.
        lease: seconds for which the Service counts as active after a cold start and after each
            request.
        decides: whether its rules decide about the workload: the oldest of its Services decides.
            The others scale it only from zero, for a request.
        paused: whether the ScaledObject that owns the workload must not add replicas.
        rate, panic_rate: mean requests per second of the two windows.
        marks: whether the Service has the asleep mark while its workload sleeps.
        is_marked: whether all Services of the workload have it.
        wakers_differ: whether ``other_owner`` is a Service with another waker.
        awake: whether the Service has awake hours now.
        awake_until: when that may change.
        called: whether ``current`` is a request to a Service that wakes this one, too.
    """

    current: float
    stable: float
    panic: float
    last_busy: float
    frozen: ScaleReason | None
    replicas: int
    ready: int
    other_owner: str = ""
    slice_since: float | None = None
    lease: float = ACTIVATION_LEASE
    decides: bool = True
    paused: bool = False
    rate: float = 0.0
    panic_rate: float = 0.0
    marks: bool = False
    is_marked: bool = False
    wakers_differ: bool = False
    awake: bool = False
    awake_until: float = FOREVER
    called: bool = False

    @property
    def waiting(self) -> int:
        """Requests to the Service itself that wait if it has no pod."""
        return 0 if self.called else ceil(self.current)


class Plan(NamedTuple):
    """What to do now.

    Attributes:
        replicas: how many the workload is to have; None to leave them as they are.
        why: the rule that wants the number of replicas, also if the workload has them already; None
            where another owner decides.
        hold: why the replicas stay although a rule wants others; None if nothing prevents it.
        takes_over: whether the activators are endpoints of the Service. If not, route ``front``
            lists the pods, and route ``takeover`` nothing.
        active: whether KEDA and HPA must keep the workload awake. If requests bypass the
            activators, these first observe for a while that no request comes.
        phase: see WorkloadPhase.
        next: when to decide again at the latest, in seconds.
        marked: whether the Service must have the asleep mark, so that no pod gets a request.
    """

    replicas: int | None
    why: Why | None
    hold: ScaleReason | None
    takes_over: bool
    active: bool
    phase: WorkloadPhase
    next: float
    marked: bool = False


@final
@dataclass(slots=True, eq=False)
class Planner:
    """The plans for one Service.

    Arguments:
        now: seconds, monotonic.
        ready: pods that are ready at the start.

    Attributes:
        wanted: the replicas that a rule wanted at the last decision, also if something holds the
            change; None where another owner decides.
    """

    now: InitVar[float]
    ready: InitVar[int] = 0
    wanted: int | None = None
    _autoscaler: Autoscaler = field(init=False)
    _cold_start_at: float = NEVER
    _ready_since: float | None = None
    _closing_since: float | None = None
    _marked_since: float | None = None
    _ending_until: float = NEVER
    _lease_until: float = NEVER

    def __post_init__(self, now: float, ready: int) -> None:
        self._autoscaler = Autoscaler(now, ready)
        self._ready_since = now if ready else None

    def decide(self, asks: Annotations, seen: Observed, now: float) -> Plan:
        """Return the plan for a Service.

        Arguments:
            asks: what its annotations ask for.
            seen: what is known of it.
            now: seconds, as for the constructor; never less than in an earlier call.
        """
        self._note(seen, now)
        wanted, why, hold = self._wanted(asks, seen, now)
        self.wanted = wanted
        self._close(asks, seen, wanted if hold is None else None, now)
        if self._closing_since is not None and now < self._closes_at(asks, seen):
            lacks_slice = asks.route in WITH_SLICES and seen.slice_since is None
            is_late = lacks_slice and now >= self._closing_since + SLICE_WRITTEN
            hold = ScaleReason.TAKEOVER_NOT_IN_PLACE if is_late else ScaleReason.TAKING_OVER
        changes = wanted is not None and wanted != seen.replicas and hold is None
        if changes and not seen.replicas:
            self._cold_start_at = now
        return Plan(
            wanted if changes else None,
            why,
            hold,
            self._takes_over(asks, now),
            self._is_active(asks, seen, wanted, now),
            self._phase(seen),
            self._next(asks, seen, now),
            seen.marks and (self.is_closing or not seen.replicas),
        )

    @property
    def is_closing(self) -> bool:
        """Whether the workload is about to sleep."""
        return self._closing_since is not None

    def idle_at(self, asks: Annotations) -> float:
        """Return when a workload without requests has been idle for long enough to sleep."""
        return self._autoscaler.last_busy + asks.scale.idle

    # -- what was seen -----------------------------------------------------------------------------

    def _note(self, seen: Observed, now: float) -> None:
        """Record since when pods are ready, and how long a cold start counts as active.

        Pods that are still ready at 0 replicas are about to end, also if a request comes then.
        """
        if not seen.is_marked:
            self._marked_since = None
        elif self._marked_since is None:
            self._marked_since = now
        if not seen.ready:
            self._ready_since, self._ending_until = None, NEVER
        elif not seen.replicas:
            if self._ready_since is not None:
                self._ready_since, self._ending_until = None, now + PODS_END
        elif self._ready_since is None and now >= self._ending_until:
            self._ready_since = now
            self._lease_until = max(self._lease_until, now + seen.lease)
        if seen.current > 0 and not seen.ready:
            self._lease_until = now + seen.lease

    def _is_active(self, asks: Annotations, seen: Observed, wanted: int | None, now: float) -> bool:
        """Return whether KEDA and HPA must keep the workload awake."""
        if seen.current > 0 or seen.awake or (wanted != 0 and self._is_leased(seen, now)):
            return True
        is_observed = self._closing_since is not None and now < self._closes_at(asks, seen)
        return _reads_load(asks) and is_observed

    def _is_leased(self, seen: Observed, now: float) -> bool:
        """Return whether the last request, or its cold start, still counts as active."""
        return now < max(self._lease_until, seen.last_busy + seen.lease)

    def _phase(self, seen: Observed) -> WorkloadPhase:
        if seen.replicas == 0:
            return WorkloadPhase.ASLEEP
        if self._ready_since is None:
            return WorkloadPhase.STARTING
        return WorkloadPhase.AWAKE if self._closing_since is None else WorkloadPhase.CLOSING

    # -- replicas ----------------------------------------------------------------------------------

    def _wanted(
        self, asks: Annotations, seen: Observed, now: float
    ) -> tuple[int | None, Why | None, ScaleReason | None]:
        """Return the replicas that a rule wants, the rule, and the hold on it."""
        if seen.last_busy > self._autoscaler.last_busy:
            self._autoscaler.busy(seen.last_busy)
        if asks.owner is not Owner.SELF:
            return self._cold_start_only(asks, seen, now)
        observed = Observation(
            *(seen.stable, seen.panic, seen.current, seen.ready, seen.replicas),
            *(seen.rate, seen.panic_rate, seen.awake, seen.called),
        )
        decision = self._autoscaler.decide(asks.scale, observed, now)
        wanted, why = decision.replicas, decision.why
        hold = None
        if wanted < seen.replicas:
            if seen.other_owner:
                hold = ScaleReason.TWO_OWNERS
            elif why is not Why.MAX_SCALE:
                hold = seen.frozen
        elif wanted > seen.replicas and not (
            seen.decides or (not seen.replicas and seen.current > 0)
        ):
            hold = ScaleReason.TWO_OWNERS
        elif wanted > seen.replicas == 0 and now < self._cold_start_at + RETRY_COLD_START:
            hold = ScaleReason.WAITING_TO_RETRY
        return wanted, why, hold

    def _cold_start_only(
        self, asks: Annotations, seen: Observed, now: float
    ) -> tuple[int | None, Why | None, ScaleReason | None]:
        if seen.replicas or seen.current <= 0:
            return None, None, None
        wanted = max(asks.scale.first, asks.scale.min_scale)
        if asks.scale.max_scale:
            wanted = min(wanted, asks.scale.max_scale)
        why = Why.WAKE_WITH if seen.called else Why.COLD_START
        if seen.paused:
            return wanted, why, ScaleReason.SCALED_OBJECT_PAUSED
        is_early = now < self._cold_start_at + RETRY_COLD_START
        return wanted, why, ScaleReason.WAITING_TO_RETRY if is_early else None

    # -- takeover ----------------------------------------------------------------------------------

    def _close(self, asks: Annotations, seen: Observed, wanted: int | None, now: float) -> None:
        """Begin or end to close: before the last pod goes, no request reaches it any more.

        A pod that is not ready stays as well: no request wakes a workload without a slice.
        """
        has_pods = seen.replicas > 0 or seen.ready > 0
        is_idle = wanted == 0 or (_reads_load(asks) and self._is_unused(asks, seen, now))
        closes = is_idle and has_pods and (asks.route in WITH_SLICES or seen.marks)
        if not closes:
            if self._closing_since is not None and seen.current > 0 and _reads_load(asks):
                # Other requests bypass the activators: the next observation is later.
                self._lease_until = now + max(seen.lease, asks.scale.idle)
            self._closing_since = None
        elif self._closing_since is None:
            self._closing_since = now

    def _is_unused(self, asks: Annotations, seen: Observed, now: float) -> bool:
        """Return whether pods are ready, and the activators have seen no request for a while."""
        is_blind = self._ready_since is not None and asks.is_bypassed
        return is_blind and not (seen.current or seen.awake) and not self._is_leased(seen, now)

    def _closes_at(self, asks: Annotations, seen: Observed) -> float:
        """Return when the workload has closed: slice and mark are known, and no request came.

        Pods that are not ready get no requests of proxies, so they may go as soon as the slice is
        in place. But an activator may use a pod before Kubernetes lists it as ready.
        """
        assert self._closing_since is not None
        needed = [seen.slice_since] if asks.route in WITH_SLICES else []
        needed += [self._marked_since] if seen.marks else []
        times = [at for at in needed if at is not None]
        if len(times) < len(needed):
            return FOREVER
        if not seen.ready and not seen.marks:
            return max(times)
        wait = min(asks.scale.idle, OBSERVATION) if asks.is_bypassed else 0.0
        begins = max(self._closing_since, *times)
        return max(begins, self._ready_since or begins) + max(wait, PROPAGATION)

    def _takes_over(self, asks: Annotations, now: float) -> bool:
        """Return whether the activators are endpoints of the Service.

        They stay for a moment after pods are ready: the proxies may not have the pods yet.
        """
        if asks.route not in WITH_SLICES:
            return False
        if not asks.is_bypassed or self._closing_since is not None:
            return True
        return self._ready_since is None or now < self._ready_since + PROPAGATION

    def _next(self, asks: Annotations, seen: Observed, now: float) -> float:
        """Return when something may change without a report or an event."""
        found, closing = FOREVER, now
        if self._closing_since is not None:
            closing = self._closes_at(asks, seen)
            if closing == FOREVER:
                closing = self._closing_since + SLICE_WRITTEN  # then its delay needs a reason
        for at in (
            self._cold_start_at + RETRY_COLD_START,
            max(self._lease_until, seen.last_busy + seen.lease),
            self._ending_until if self._ready_since is None else self._ready_since + PROPAGATION,
            closing,
            seen.awake_until,
        ):
            if now < at < found:
                found = at
        return found


def _reads_load(asks: Annotations) -> bool:
    """Return whether the owner of a workload scales it to zero by the load that is published."""
    return asks.owner in (Owner.KEDA, Owner.HPA)
