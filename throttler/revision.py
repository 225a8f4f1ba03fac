"""One revision's throttler: its pods, its queue, and which request gets which pod.

Every entry point keeps one promise: when it returns, no request is queued while a pod in reach has
a free slot, except one that waits for its sticky pod. The call that frees a slot also assigns it to
the next queued request. So a new request that finds a free slot overtakes no other. Single-
threaded; knows no clock (``now`` is an argument). Knative's counterpart: revisionThrottler in
pkg/activator/net/throttler.go, where queue and slots are two gates with a re-enqueue loop between
them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Final

from throttler.backends import Backends, PeerBackend, by_endpoint
from throttler.balancing import adaptive_mode, key_for
from throttler.capacity import (
    ActivatorShare,
    CapacityTerms,
    revision_capacity,
)
from throttler.forecast import retry_after
from throttler.model import (
    DEFAULT_REACH,
    Endpoint,
    ListedEndpoints,
    Reach,
    Revision,
    RevisionConfig,
    Taken,
)
from throttler.pod import PodState, PodTracker
from throttler.queue import Deadlines, Queue, QueuedTickets
from throttler.request_policies import QueueBudget, SharedBudget
from throttler.slots import Silence, Slots
from throttler.ticket import (
    ASSIGNED,
    FAILED,
    NEUTRAL,
    QUEUED,
    RELEASED,
    SERVED,
    TIMED_OUT,
    Changes,
    Outcome,
    Ticket,
)

_NOTHING: Final[Mapping[Endpoint, Taken]] = {}
#: From this many usable pods on, pods that pass a probe are added together every MANY_EVERY
#: seconds, unless a request needs one. An addition costs O(pods): one by one, 5,000 pods took 11 s
#: of CPU.
MANY_PODS: Final = 256
MANY_EVERY: Final = 0.02


@dataclass(frozen=True, slots=True)
class Statistics:
    """A revision's state; see RevisionThrottler.

    Attributes:
        queued_bytes: buffered bytes of queued requests.
        oldest_arrival: arrival of the first queued request, seconds on the caller's clock; or None.
        pods: all known pods, and pods whose address moved to another revision.
        service: the record of the ClusterIP while it is needed; else None. Requests go there only
            while its ``PodTracker.in_use`` is true.
        start, turnover: seconds, see throttler.forecast; None if unknown.
    """

    waiting: int
    queued_bytes: int
    oldest_arrival: float | None
    in_flight: int
    capacity: int
    capacity_terms: CapacityTerms
    queue_depth: int
    healthy: int
    in_reach: int
    share: ActivatorShare
    pods: tuple[PodTracker, ...]
    service: PodTracker | None = None
    start: float | None = None
    turnover: float | None = None


class RevisionThrottler:
    """Admission to one revision.

    Arguments:
        revision: its specification.
        own: its budget of queued requests; total: the budget of all revisions together.
        deadlines: the deadlines of queued tickets, and the slow starts, of all revisions.
        random: returns random numbers in [0, 1), for the policies and ``Retry-After``.
        borrow: whether to use pods beyond the activator's share before a request is queued.
        reach: the destinations that requests may have.
        shed_early: whether to refuse a request at once if the expected wait exceeds its deadline.
        silence: the pods of all revisions that have requests.
        zone: the zone of this activator; empty for no preference.

    Attributes:
        revision: its specification.
        config: its specification and the reach; its pods and requests share this object.
        backends: its pods and its Service; peer: the activator that may stand for them.
        slots: the pods that get requests, with their slots.
        sticky: the sticky policy in ``slots``; None if requests are not sticky.
        queue: which ticket gets a pod next; queued: the tickets in it.
        key: the part of a request that is its ticket's ``key``; None if the policy needs none.
        share: the position of this activator among the activators of the revision.
        forecast: the recent starts and turnovers.
        silence: records how long pods have begun no response.
        deleted: whether its Revision object is gone; its requests end as they would have.
        last_release: when a request last left a pod, seconds on the caller's clock.
        outdated: whether pods have passed a probe that do not get requests yet, see MANY_PODS.
            No request is queued then.
    """

    def __init__(
        self,
        revision: Revision,
        own: QueueBudget,
        total: SharedBudget,
        deadlines: Deadlines,
        random: Callable[[], float],
        borrow: bool = True,
        reach: Reach = DEFAULT_REACH,
        shed_early: bool = False,
        silence: Silence | None = None,
        zone: str = "",
    ) -> None:
        self.revision = revision
        self.config = config = RevisionConfig(revision, reach)
        self.queued = QueuedTickets(own, total)
        self.queued.set_order(revision.policies.order)
        self.backends = Backends(config)
        self.peer = PeerBackend(config)
        self.silence = Silence() if silence is None else silence
        self.slots = Slots(config, self.silence.busy_since, random, borrow, zone)
        self.key = key_for(revision)
        self.sticky = self.slots.sticky
        self.share = ActivatorShare()
        self.last_release = -inf
        self.deleted = self.outdated = False
        self.queue = Queue(
            config,
            self.backends,
            self.slots,
            self.queued,
            deadlines,
            shed_early,
        )
        self.forecast = self.queue.forecast
        self._random = random

    # -- one request, the hot path --------------------------------------------------------------

    def admit(self, ticket: Ticket, now: float) -> PodTracker | None:
        """Assign a new request to a pod, or queue it; O(1), or O(log n) with some policies.

        Returns:
            The pod of the request; None if it is queued. Then the Changes of a later call have the
            ticket.

        Raises:
            RequestQueueFull, FlowFull: the queue has reached a limit; the ticket has ended.
            WaitTooLong: the expected wait exceeds the deadline (``shed_early``); the ticket has
                ended.
        """
        ticket.arrived = now
        ticket.config = self.config
        slots = self.slots
        if (free_pods := slots.own_free).summary or (free_pods := slots.borrowable).summary:
            if slots.holder is None or (pod := slots.awaited(ticket)) is None:
                return slots.assign(ticket, free_pods, now)
            if not self.outdated:
                self.queue.park(ticket, pod, now)
                return None
        if self.outdated:
            self._rebuild_and_dispatch(Changes(), now)  # no request is queued, so this assigns none
            return self.admit(ticket, now)
        self.queue.add(ticket, now)
        return None

    def release(self, ticket: Ticket, now: float, outcome: Outcome = SERVED) -> Changes | None:
        """End a request that has a pod.

        Arguments:
            outcome: how the request left its pod.

        Returns:
            The effects to execute; None, the usual case, if there are none.
        """
        ticket.state = RELEASED
        self.last_release = now
        pod = self.slots.release(ticket, outcome, now)
        if pod is None or (pod.free_pods is not None and not self.queued.waiting):
            return None  # the usual case, without a further call
        return self._follow(pod, now)

    def _follow(self, pod: PodTracker, now: float) -> Changes | None:
        """Assign a freed slot to the next queued request, or remove a pod that has drained."""
        if pod.free_pods is not None:
            if not self.queued.waiting:
                return None
            pod.ramp.finished += 1
            self.forecast.slot_reused(self.slots.in_flight, now)
            return self.queue.dispatch(Changes(), now, pod)
        if pod.state is not PodState.DRAINING:
            return None
        changes = Changes()
        self.backends.remove(pod, changes, now)
        return changes

    # -- one request, the rest ------------------------------------------------------------------

    def cancel(self, ticket: Ticket, now: float) -> Changes | None:
        """End a request whose client has closed, queued or in flight.

        Returns:
            As ``release``. A ticket that has ended already does not change.
        """
        if ticket.state is QUEUED:
            self.queue.cancel(ticket, now)
        elif ticket.state is ASSIGNED:
            return self.release(ticket, now, NEUTRAL)
        return None

    def requeue(self, ticket: Ticket, now: float) -> Changes:
        """Requeue a request that its pod failed, at the front of the queue.

        The caller reports the pod's failure first (``connect_failed``, ``responded_badly``). Pods
        that have failed this request get it again only if no other pod has a free slot. A ticket
        whose deadline has passed ends here.

        Returns:
            The effects to execute; the ticket itself may be among the assigned, or the expired.
        """
        changes = Changes()
        ticket.record_failed_pod()
        if ticket.deadline <= now:
            ticket.state = TIMED_OUT
            changes.expired.append(ticket)
        else:
            self.queue.restore(ticket, now)
        pod = self.slots.release(ticket, FAILED, now)
        if pod is not None and (follow := self._follow(pod, now)):
            changes.add(follow)
        return (
            self._rebuild_and_dispatch(changes, now)
            if self.outdated
            else self.queue.dispatch(changes, now)
        )

    def expire(self, ticket: Ticket) -> None:
        """End a queued ticket whose deadline has passed."""
        self.queue.end(ticket, TIMED_OUT, ticket.deadline)

    # -- pods -----------------------------------------------------------------------------------

    def set_endpoints(
        self, endpoints: ListedEndpoints, now: float, taken: Mapping[Endpoint, Taken] = _NOTHING
    ) -> Changes:
        """Replace the endpoints of the revision; O(pods · log pods).

        Arguments:
            endpoints: all that Kubernetes lists, not a difference, without ``taken``.
            taken: listed endpoints whose address moved to another revision.
        """
        changes = Changes()
        self.backends.set_taken(taken, changes, now)
        self.backends.set_endpoints(endpoints, changes, now)
        return self._rebuild_and_dispatch(changes, now)

    def set_service(self, address: str, now: float) -> Changes:
        """Replace the address of the private Service, ``ip:port``; empty without one."""
        self.backends.service.address = address
        return self._rebuild_and_dispatch(Changes(), now)

    def set_reach(self, reach: Reach, now: float) -> Changes:
        """Set the destinations that requests may have; requests in flight finish at their pod."""
        changes = Changes()
        self.backends.set_reach(reach, changes, now)
        return self._rebuild_and_dispatch(changes, now)

    def probe_passed(
        self, pod: PodTracker, epoch: int, now: float, status: int | None = 200
    ) -> Changes | None:
        """Record a passed probe; see Backends.probe_passed.

        Returns:
            The effects to execute; None if there are none.
        """
        if not self.backends.probe_passed(pod, epoch, now, status):
            return None
        if len(self.slots.pods) >= MANY_PODS and self.has_free_slot and not self.queued.waiting:
            self.outdated = True
            self.queue.slow_start.arm(now, MANY_EVERY)
            return Changes()
        return self._rebuild_and_dispatch(Changes(), now)

    def probe_failed(
        self,
        pod: PodTracker,
        epoch: int,
        error: str,
        now: float,
        status: int | None = None,
        responded: bool = False,
    ) -> Changes | None:
        """Record a failed probe.

        Arguments:
            epoch: of the pod when the probe began; the result of an earlier epoch is ignored.
            error: the cause, for people.
            status: of the response; None without a status.
            responded: whether any byte of a response came, also one without a status.

        Returns:
            The effects to execute; None if there are none.
        """
        responded = responded or status is not None
        if not self.backends.probe_failed(pod, epoch, error, status, now, responded=responded):
            return None
        return self._rebuild_and_dispatch(Changes(probe=[pod] if pod.epoch != epoch else []), now)

    def connect_failed(self, pod: PodTracker, error: str, now: float) -> Changes | None:
        """Record that a pod could not get a request, or closed before a byte of its response.

        Arguments:
            error: the cause, for people.
        """
        if not self.backends.connect_failed(pod, error, now):
            return None
        return self._rebuild_and_dispatch(Changes(probe=[pod]), now)

    def responded_badly(
        self, pod: PodTracker, error: str, now: float, *, untouched: bool
    ) -> Changes | None:
        """Record an error response of a pod to a request: 502, 503, or an incomplete head.

        Arguments:
            error: the response, for people.
            untouched: whether queue-proxy reports that its application got nothing of the request.
        """
        changes = Changes()
        if not self.backends.responded_badly(pod, error, untouched, changes, now):
            return None
        return self._rebuild_and_dispatch(changes, now)

    def responded_well(self, pod: PodTracker, now: float) -> Changes | None:
        """Record any other response; needed only while the pod has consecutive errors."""
        if not self.backends.responded_well(pod, now):
            return None
        return self._rebuild_and_dispatch(Changes(), now)

    # -- the revision ---------------------------------------------------------------------------

    def set_revision(self, revision: Revision, now: float) -> Changes:
        """Replace the specification; queued requests stay, requests in flight finish."""
        old, self.revision = self.revision, revision
        self.config.revision = revision
        limited_otherwise = old.container_concurrency != revision.container_concurrency
        self.queued.set_order(revision.policies.order)
        if limited_otherwise or not old.policies.places_like(revision.policies):
            self.slots.choose_policy()
            self.key = key_for(revision)
            self.sticky = self.slots.sticky
        if limited_otherwise or adaptive_mode(old) is not adaptive_mode(revision):
            for pod in (*self.backends.pods.values(), *self.slots.pods):
                pod.set_limit()
        return self._rebuild_and_dispatch(Changes(), now)

    def set_share(self, share: ActivatorShare, now: float) -> Changes:
        """Set the position of this activator among the activators of the revision."""
        self.share = share
        return self._rebuild_and_dispatch(Changes(), now)

    def raise_limits(self, now: float) -> Changes:
        """Raise the limits of full pods in slow start, as scheduled by ``queue.slow_start``."""
        self.queue.slow_start.disarm()
        if self.outdated:
            return self._rebuild_and_dispatch(Changes(), now)
        limiter = self.slots.limiter
        if limiter is not None and not self.queued.waiting and limiter.release_at < inf:
            if now < limiter.release_at:
                self.queue.slow_start.arm(now, limiter.release_at - now)
            else:
                limiter.release(now)
        for pod in self.slots.pods:
            if pod.in_flight >= pod.limit:
                if limiter is None or pod.ejection.half_open:
                    self.backends.raise_limit(pod, now)
                else:
                    limiter.raise_unmeasured(pod, now)
        return self._rebuild_and_dispatch(Changes(), now)

    @property
    def is_awake(self) -> bool:
        """Whether a pod is usable, even if each one is busy."""
        return bool(self.slots.pods)

    @property
    def has_free_slot(self) -> bool:
        """Whether a new request would get a pod at once."""
        return self.slots.free_pods.summary > 0

    @property
    def idle(self) -> bool:
        """Whether no request is queued or in flight."""
        return not (self.queued.waiting or self.slots.in_flight)

    @property
    def passes_on(self) -> bool:
        """Whether requests go to another activator, which counts them."""
        return bool(self.slots.pods) and self.slots.pods[0] is self.peer.tracker

    def expected_wait(self, now: float) -> float | None:
        """Return how long a request that arrives now would wait, seconds.

        Returns:
            None if that is unknown, or if a start takes longer than usual: a promise has passed.
        """
        return None if self.forecast.is_late(now) else self.queue.expected_wait(now)

    def retry_after(self, now: float) -> int:
        """Return the ``Retry-After`` for a client that is refused now: seconds, at least 1.

        A start that is late is looked at again after as long as it is late.
        """
        return retry_after(self.queue.expected_wait(now), self._random())

    def capacity(self) -> int:
        """Return the limit of requests in flight; O(1), with the ClusterIP O(pods)."""
        if self.backends.service.used_since is not None:
            return self.capacity_terms().capacity
        return revision_capacity(self.revision.container_concurrency, self.slots.in_reach)

    def capacity_terms(self) -> CapacityTerms:
        """Return the values that make up the capacity; O(pods)."""
        by_service = self.backends.service.used_since is not None
        terms = self.slots.terms(self.share, self.backends.ready() if by_service else None)
        return replace(terms, peer=self.slots.pods[0].address) if self.passes_on else terms

    def take_peaks(self) -> tuple[int, int]:
        """Return the maximum of queued requests, and of requests in flight, since the last call.

        There must be only one caller, since a call resets both.
        """
        peaks = (self.queued.peak, self.slots.peak)
        self.queued.peak = self.queued.waiting
        self.slots.peak = self.slots.in_flight
        return peaks

    def statistics(self) -> Statistics:
        """Return a snapshot of the state; O(pods), not for the path of requests."""
        queued, forecast, terms = self.queued, self.forecast, self.capacity_terms()
        oldest = queued.oldest()
        return Statistics(
            waiting=queued.waiting,
            queued_bytes=queued.own.bytes,
            oldest_arrival=oldest.arrived if oldest else None,
            in_flight=self.slots.in_flight,
            capacity=terms.capacity,
            capacity_terms=terms,
            queue_depth=queued.own.max_depth,
            healthy=self.backends.healthy(),
            in_reach=0 if terms.by_service else terms.in_reach,
            share=self.share,
            pods=tuple(sorted(self.backends.known_pods(), key=by_endpoint)),
            service=self.backends.service.tracker,
            start=forecast.starts.median,
            turnover=forecast.turnovers.median,
        )

    # -- inside ---------------------------------------------------------------------------------

    def _rebuild_and_dispatch(self, changes: Changes, now: float) -> Changes:
        """Update the usable backends and their free slots; then assign queued requests."""
        slots = self.slots
        self.outdated = False
        pods = self.backends.choose(changes, now)
        if pods and not slots.pods:
            self.forecast.pod_became_usable(now)
        if slots.pods and not pods and self.revision.policies.requests is not None:
            changes.stranded += self.queued.tickets()
        if self.backends.service.used_since is not None and self.revision.container_concurrency:
            pods[0].limit = self.capacity()
        slots.rebuild(self.peer.choose(pods, self.share, changes, now), self.share)
        return self.queue.dispatch(changes, now)
