"""One revision's throttler: its pods, its queue, and who gets what.

Every entry point keeps one promise: when it returns, nobody waits while a pod in reach has room.
So a pod's room is given to the next waiter in the same call that made the room, and a newcomer
who finds room knows that nobody waits. Single-threaded; knows no clock (``now`` is an argument).
Knative's counterpart: revisionThrottler in pkg/activator/net/throttler.go, where queue and slots
are two gates with a re-enqueue loop between them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from math import inf
from typing import Final

from throttler.backends import Backends
from throttler.balancing import header_for
from throttler.breaker import Breaker
from throttler.budget import Budget, SharedBudget
from throttler.capacity import ActivatorShare, CapacityTerms, revision_capacity
from throttler.changes import Changes
from throttler.config import RevisionConfig
from throttler.deadlines import Deadlines
from throttler.forecast import retry_after
from throttler.health import PodState
from throttler.mesh import DEFAULT_REACH, Reach
from throttler.model import Endpoint, ListedEndpoints, Revision
from throttler.owners import Taken
from throttler.pod import PodTracker
from throttler.queue import Queue
from throttler.silence import Silence
from throttler.slots import Slots
from throttler.slow_start import SlowStart
from throttler.statistics import Statistics, look
from throttler.ticket import (
    ASSIGNED,
    FAILED,
    NEUTRAL,
    QUEUED,
    RELEASED,
    SERVED,
    TIMED_OUT,
    Outcome,
    Ticket,
)

_NOTHING: Final[Mapping[Endpoint, Taken]] = {}


class RevisionThrottler:
    """Admission to one revision.

    Arguments:
        revision: its specification.
        own: its budget of waiting requests; total: that of all revisions together.
        deadlines: where the deadlines of queued tickets are kept, shared by all revisions.
        widening: the doublings of limits that are due, of all revisions.
        random: returns numbers in [0, 1), for the policies that draw lots.
        borrow: whether pods beyond our slice are used before a request waits.
        reach: what requests may be sent to.
        shed_early: whether a request that would wait beyond its deadline may not wait at all.
        silence: the pods of all revisions that have requests.

    Attributes:
        revision: its specification.
        config: the same, with what requests may be sent to; its pods and requests have it too.
        backends: its pods and its Service.
        slots: the pods that get requests, and what they have.
        waiters: the requests that wait; breaker: their queue.
        key_header: the header field whose value the policy wants as a ticket's ``key``; else empty.
        share: which of how many activators we are.
        forecast: what starts and turnovers of it took.
        silence: records how long pods have begun no response.
        deleted: its Revision object is gone; what waits and runs is brought to its end.
        last_release: when a pod was last done with a request.
    """

    __slots__ = (
        "_random",
        "backends",
        "breaker",
        "config",
        "deleted",
        "forecast",
        "key_header",
        "last_release",
        "queue",
        "revision",
        "share",
        "silence",
        "slots",
    )

    def __init__(
        self,
        revision: Revision,
        own: Budget,
        total: SharedBudget,
        deadlines: Deadlines,
        slow_starts: set[SlowStart],
        random: Callable[[], float],
        borrow: bool = True,
        reach: Reach = DEFAULT_REACH,
        shed_early: bool = False,
        silence: Silence | None = None,
    ) -> None:
        self.revision = revision
        self.config = config = RevisionConfig(revision, reach)
        self.breaker = Breaker(own, total)
        self.backends = Backends(config)
        self.silence = Silence() if silence is None else silence
        self.slots = Slots(config, self.silence.busy_since, random, borrow)
        self.key_header = header_for(revision)
        self.share = ActivatorShare()
        self.last_release = -inf
        self.deleted = False
        self.queue = Queue(
            *(config, self.backends, self.slots, self.breaker, deadlines, slow_starts),
            shed_early=shed_early,
        )
        self.forecast = self.queue.forecast
        self._random = random

    # -- one request, the hot path --------------------------------------------------------------

    def admit(self, ticket: Ticket, now: float) -> PodTracker | None:
        """Give a new request a pod, or a place in the queue.

        Returns:
            The pod that has it now, or None if it waits: then its owner is told by way of the
            Changes of a later call.

        Raises:
            RequestQueueFull: it may not even wait; the ticket has ended.
            WaitTooLong: nor may it where it would be in vain (``shed_early``).
        """
        ticket.arrived = now
        ticket.config = self.config
        slots = self.slots
        free_pods = slots.own_free
        if free_pods.summary or (free_pods := slots.borrowable).summary:
            return slots.assign(ticket, free_pods, now)
        self.queue.add(ticket, now)
        return None

    def release(self, ticket: Ticket, now: float, outcome: Outcome = SERVED) -> Changes | None:
        """End a request that has a pod.

        Arguments:
            outcome: how it left its pod.

        Returns:
            None where nothing follows, which is the rule; else what to carry out.
        """
        ticket.state = RELEASED
        self.last_release = now
        pod = self.slots.release(ticket, outcome, now)
        if pod is None or (pod.free_pods is not None and not self.breaker.waiting):
            return None
        return self._follow(pod, now)

    def _follow(self, pod: PodTracker, now: float) -> Changes | None:
        """Do what follows a freed slot: give it to the next, or bury a pod that has drained."""
        if pod.free_pods is not None:
            if not self.breaker.waiting:
                return None
            pod.ramp.finished += 1
            self.forecast.slot_reused(self.slots.in_flight, now)
            return self.queue.dispatch(Changes(), now)
        if pod.state is not PodState.DRAINING:
            return None
        changes = Changes()
        self.backends.remove(pod, changes, now)
        return changes

    # -- one request, the rest ------------------------------------------------------------------

    def cancel(self, ticket: Ticket, now: float) -> Changes | None:
        """End a request whose client has left, wherever it is.

        Returns:
            As ``release``. A ticket that has ended already is left alone.
        """
        if ticket.state is QUEUED:
            self.queue.cancel(ticket, now)
        elif ticket.state is ASSIGNED:
            return self.release(ticket, now, NEUTRAL)
        return None

    def requeue(self, ticket: Ticket, now: float) -> Changes:
        """Put a request whose pod failed it back to the front of the queue.

        The caller reports the pod's failure first (``connect_failed``, ``responded_badly``). Pods
        that have failed this request get it again only where no other has room. A ticket whose
        deadline has passed ends here.

        Returns:
            What to carry out; the ticket itself may be among the assigned, or the expired.
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
        return self.queue.dispatch(changes, now)

    def expire(self, ticket: Ticket) -> None:
        """End a queued ticket whose deadline has passed."""
        self.queue.end(ticket, TIMED_OUT, ticket.deadline)

    # -- pods -----------------------------------------------------------------------------------

    def set_endpoints(
        self, endpoints: ListedEndpoints, now: float, taken: Mapping[Endpoint, Taken] = _NOTHING
    ) -> Changes:
        """Take what Kubernetes lists now; whole, not a difference.

        Arguments:
            taken: what it lists beside that, and another revision has by now.
        """
        changes = Changes()
        self.backends.set_taken(taken, changes, now)
        self.backends.set_endpoints(endpoints, changes, now)
        return self._rebuild(changes, now)

    def set_service(self, address: str, now: float) -> Changes:
        """Take where the private Service is reached, ``ip:port``; empty if nowhere."""
        self.backends.service.address = address
        return self._rebuild(Changes(), now)

    def set_reach(self, reach: Reach, now: float) -> Changes:
        """Take what requests may be sent to; what runs finishes where it is."""
        changes = Changes()
        self.backends.set_reach(reach, changes, now)
        return self._rebuild(changes, now)

    def probe_passed(self, pod: PodTracker, epoch: int, now: float) -> Changes | None:
        """Take a probe's good answer. One that was asked in an earlier epoch is ignored."""
        if not self.backends.probe_passed(pod, epoch, now):
            return None
        return self._rebuild(Changes(), now)

    def probe_failed(
        self,
        pod: PodTracker,
        epoch: int,
        error: str,
        now: float,
        status: int | None = None,
        responded: bool = False,
    ) -> Changes | None:
        """Take a probe's bad answer, or none. One from an earlier epoch is ignored.

        Arguments:
            error: what was wrong, for people.
            status: of the answer; None if there was none.
            responded: whether any byte of a response came, also where it has no status.
        """
        responded = responded or status is not None
        if not self.backends.probe_failed(pod, epoch, error, status, now, responded=responded):
            return None
        return self._rebuild(Changes(probe=_probe_again(pod, epoch)), now)

    def connect_failed(self, pod: PodTracker, error: str, now: float) -> Changes | None:
        """Take that a pod refused or dropped a request before it had a byte of it."""
        if not self.backends.connect_failed(pod, error, now):
            return None
        return self._rebuild(Changes(probe=[pod]), now)

    def responded_badly(
        self, pod: PodTracker, error: str, now: float, *, untouched: bool
    ) -> Changes | None:
        """Take an answer to a request that speaks against the pod: 502, 503, or half a head.

        Arguments:
            error: what it was, for people.
            untouched: it is queue-proxy's own, and the application has nothing of the request.
        """
        changes = Changes()
        if not self.backends.responded_badly(pod, error, untouched, changes, now):
            return None
        return self._rebuild(changes, now)

    def responded_well(self, pod: PodTracker, now: float) -> Changes | None:
        """Record any other response; only of use while the pod has consecutive errors."""
        if not self.backends.responded_well(pod, now):
            return None
        return self._rebuild(Changes(), now)

    # -- the revision ---------------------------------------------------------------------------

    def set_revision(self, revision: Revision, now: float) -> Changes:
        """Take another specification; waiting requests stay, running ones finish."""
        old, self.revision = self.revision, revision
        self.config.revision = revision
        limited_otherwise = old.container_concurrency != revision.container_concurrency
        if limited_otherwise or old.policies != revision.policies:
            self.slots.choose_policy()
            self.key_header = header_for(revision)
        if limited_otherwise:
            for pod in (*self.backends.pods.values(), *self.slots.pods):
                pod.set_limit()
        return self._rebuild(Changes(), now)

    def set_share(self, share: ActivatorShare, now: float) -> Changes:
        """Take which of how many activators we are for this revision."""
        self.share = share
        return self._rebuild(Changes(), now)

    def raise_limits(self, now: float) -> Changes:
        """Let pods that start slowly have more at a time; due at ``waiters.slow_start.at``."""
        self.queue.slow_start.disarm()
        for pod in self.slots.pods:
            if pod.in_flight >= pod.limit:
                self.backends.raise_limit(pod, now)
        return self._rebuild(Changes(), now)

    @property
    def in_flight(self) -> int:
        """How many requests pods have."""
        return self.slots.in_flight

    @property
    def idle(self) -> bool:
        """Whether no request waits or runs."""
        return not (self.breaker.waiting or self.slots.in_flight)

    @property
    def awaits_start(self) -> bool:
        """Whether a request waits for a pod to start: none can be used, nor was a moment ago."""
        return self.queue.awaits_start

    def pods(self) -> Collection[PodTracker]:
        """Return all pods that are known, in no order."""
        return self.backends.pods.values()

    def unhealthy_pods(self) -> Iterable[PodTracker]:
        """Return the pods, or the ClusterIP, that a waiter could have if they passed a probe."""
        return self.backends.unhealthy()

    @property
    def reach(self) -> Reach:
        """What requests may be sent to."""
        return self.config.reach

    @property
    def service(self) -> PodTracker | None:
        """The ClusterIP while pods cannot be reached; see its ``in_use``."""
        return self.backends.service.tracker

    def expected_wait(self, now: float) -> float | None:
        """Return how long a request that comes now would wait, seconds; None if not known."""
        return self.queue.expected_wait(now)

    def retry_after(self, now: float) -> int:
        """Return when a client that is refused now may come again: whole seconds, at least 1."""
        return retry_after(self.expected_wait(now), self._random())

    def capacity(self) -> int:
        """Return how many requests may be in flight at a time; O(1), by the ClusterIP O(pods)."""
        if self.backends.service.used_since is not None:
            return self.capacity_terms().capacity
        return revision_capacity(self.revision.container_concurrency, self.slots.in_reach)

    def capacity_terms(self) -> CapacityTerms:
        """Return what that is made of; O(pods)."""
        by_service = self.backends.service.used_since is not None
        return self.slots.terms(self.share, self.backends.ready() if by_service else None)

    def take_peaks(self) -> tuple[int, int]:
        """Return the most that waited, and that pods had, at a time since the last call.

        There is one who asks: what it was told it is not told again.
        """
        peaks = (self.breaker.peak, self.slots.peak)
        self.breaker.peak = self.breaker.waiting
        self.slots.peak = self.slots.in_flight
        return peaks

    def statistics(self) -> Statistics:
        """Return the state at this moment; O(pods), not for the hot path."""
        terms = self.capacity_terms()
        return look(self.breaker, self.slots, self.backends, self.forecast, self.share, terms)

    # -- inside ---------------------------------------------------------------------------------

    def _rebuild(self, changes: Changes, now: float) -> Changes:
        """Find what may be used, and who has room; then let waiters go."""
        slots = self.slots
        pods = self.backends.choose(changes, now)
        if pods and not slots.pods:
            self.forecast.pod_became_usable(now)
        if self.backends.service.used_since is not None and self.revision.container_concurrency:
            pods[0].limit = self.capacity()
        slots.rebuild(pods, self.share)
        return self.queue.dispatch(changes, now)


def _probe_again(pod: PodTracker, epoch: int) -> list[PodTracker]:
    """Return the pod if what its probe said has made it suspect: it is asked again at once."""
    return [pod] if pod.epoch != epoch else []
