"""One revision's throttler: its pods, its queue, and who gets what.

Every entry point keeps one promise: when it returns, nobody waits while a pod in reach has room.
So a pod's room is given to the next waiter in the same call that made the room, and a newcomer
who finds room knows that nobody waits. Single-threaded; knows no clock (``now`` is an argument).
Knative's counterpart: revisionThrottler in pkg/activator/net/throttler.go, where queue and slots
are two gates with a re-enqueue loop between them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import inf
from typing import Final

from throttler.balancing import header_for, policy_for
from throttler.breaker import Breaker
from throttler.budget import Budget, SharedBudget
from throttler.capacity import (
    SLOW_START_STEP,
    ActivatorShare,
    CapacityTerms,
    assign_slice,
    revision_capacity,
)
from throttler.changes import Changes, Statistics
from throttler.deadlines import Deadlines
from throttler.errors import ActivatorError
from throttler.forecast import Forecast, retry_after
from throttler.health import PodState
from throttler.mesh import Reach
from throttler.model import Dest, Dests, Revision
from throttler.owners import Taken
from throttler.pod import PodTracker
from throttler.room import Room
from throttler.roster import Roster, by_dest
from throttler.silence import Silence
from throttler.slow_start import SlowStart
from throttler.ticket import (
    ASSIGNED,
    CANCELLED,
    FAILED,
    LEFT,
    QUEUED,
    REJECTED,
    RELEASED,
    SERVED,
    TIMED_OUT,
    Outcome,
    Ticket,
    TicketState,
)

#: Of the pods that have failed a request, how many are remembered: the last, which are the ones
#: that may have room.
MAX_AVOIDED: Final = 3
_NOTHING: Final[Mapping[Dest, Taken]] = {}
#: The default: pods by their own addresses, and the ClusterIP where those cannot be reached.
ANYTHING: Final = Reach()


class RevisionThrottler:
    """Admission to one revision.

    Arguments:
        revision: its specification.
        own: its budget of waiting requests; total: that of all revisions together.
        deadlines: where the deadlines of queued tickets are kept, shared by all revisions.
        widening: the revisions whose ``slow_start`` is armed, shared by all revisions.
        random: returns numbers in [0, 1), for the policies that draw lots.
        borrow: whether pods beyond our slice are used before a request waits.
        reach: what requests may be sent to.
        shed_early: whether a request that would wait beyond its deadline may not wait at all.
        silence: the pods of all revisions that have requests.

    Attributes:
        roster: its pods and its Service.
        forecast: what starts and turnovers of it took.
        silence: records how long pods have begun no response.
        slow_start: when its pods may have more, without a limit of their own.
        deleted: its Revision object is gone; what waits and runs is brought to its end.
        last_release: when a pod was last done with a request.
        key_header: the header field whose value the policy wants as a ticket's ``key``; else empty.
        in_flight: how many requests pods have; peak: the most at a time, since ``take_peaks``.
    """

    __slots__ = (
        "_borrow",
        "_busy_since",
        "_deadlines",
        "_follower",
        "_in_reach",
        "_on_trial",
        "_others",
        "_ours",
        "_pods",
        "_policy",
        "_random",
        "_shed_early",
        "breaker",
        "deleted",
        "forecast",
        "in_flight",
        "key_header",
        "last_release",
        "peak",
        "revision",
        "roster",
        "share",
        "silence",
        "slow_start",
    )

    def __init__(
        self,
        revision: Revision,
        own: Budget,
        total: SharedBudget,
        deadlines: Deadlines,
        widening: set[RevisionThrottler],
        random: Callable[[], float],
        borrow: bool = True,
        reach: Reach = ANYTHING,
        shed_early: bool = False,
        silence: Silence | None = None,
    ) -> None:
        self.revision = revision
        self.breaker = Breaker(own, total)
        self.roster = Roster(self, reach)
        self.share = ActivatorShare()
        self.in_flight = self.peak = 0
        self.last_release = -inf
        self.deleted = False
        self.forecast = Forecast(self)
        self.slow_start = SlowStart(self, widening)
        self.silence = Silence() if silence is None else silence
        self._busy_since = self.silence.busy_since
        self._deadlines = deadlines
        self._random = random
        self._borrow = borrow
        self._shed_early = shed_early
        self._choose_policy()
        # What may be given requests: the usable pods, sorted by address, or the ClusterIP alone.
        # Of them, those with room: in our slice, and those to borrow.
        self._pods: list[PodTracker] = []
        self._ours = Room(0)
        self._others = Room(0)
        self._in_reach = 0
        # Whether any of them is, see throttler.outliers.
        self._on_trial = False

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
        ticket.revision = self
        room = self._ours
        if room.summary or (room := self._others).summary:
            pod = self._policy.pick(ticket, self._pods, room)
            self._give(ticket, pod, now)
            return pod
        try:
            if self._shed_early:
                self.forecast.check(ticket, now)
            self.breaker.append(ticket)
        except ActivatorError:
            ticket.state = REJECTED
            raise
        self._queued(ticket, now)
        self._slow_start(now)
        return None

    def _queued(self, ticket: Ticket, now: float) -> None:
        ticket.state = QUEUED
        self._deadlines.add(ticket, self.breaker.total.depth)
        if self.breaker.waiting == 1:
            self.forecast.queue_began(now)

    def release(self, ticket: Ticket, now: float, outcome: Outcome = SERVED) -> Changes | None:
        """End a request that has a pod.

        Arguments:
            outcome: how it left its pod.

        Returns:
            None where nothing follows, which is the rule; else what to carry out.
        """
        ticket.state = RELEASED
        self.last_release = now
        return self._take_back(ticket, outcome, now)

    def _room(self) -> Room:
        """Return the pods of our slice that have room; if none has, those to borrow."""
        return self._ours if self._ours.summary else self._others

    def _give(self, ticket: Ticket, pod: PodTracker, now: float) -> None:
        ticket.pod = pod
        ticket.state = ASSIGNED
        ticket.assigned = now
        self.in_flight = in_flight = self.in_flight + 1
        if in_flight > self.peak:
            self.peak = in_flight
        pod.in_flight = in_flight = pod.in_flight + 1
        if in_flight == 1:
            self._busy_since[pod] = now
        if in_flight >= pod.limit and pod.room is not None:
            pod.room.discard(pod.number)
        if self._follower is not None:
            self._follower.changed(pod, in_flight < pod.limit)

    def _take_back(self, ticket: Ticket, outcome: Outcome, now: float) -> Changes | None:
        """Free the slot that the ticket has, and give it to the next."""
        pod = ticket.pod
        assert pod is not None
        ticket.pod = None
        self.in_flight -= 1
        pod.in_flight = in_flight = pod.in_flight - 1
        room = pod.room
        if self._follower is not None:
            self._follower.ended(pod, ticket, outcome, now)
            if room is not None:
                self._follower.changed(pod, in_flight < pod.limit)
        if room is not None:
            if in_flight == pod.limit - 1:  # it was full
                room.add(pod.number)
                if self.breaker.waiting:
                    pod.answered += 1
                    self.forecast.place_taken(now)
                    return self._dispatch(Changes(), now)
            return None
        if pod.state is PodState.DRAINING and not in_flight:
            changes = Changes()
            self.roster.bury(pod, changes, now)
            return changes
        return None

    # -- one request, the rest ------------------------------------------------------------------

    def cancel(self, ticket: Ticket, now: float) -> Changes | None:
        """End a request whose client has left, wherever it is.

        Returns:
            As ``release``. A ticket that has ended already is left alone.
        """
        if ticket.state is QUEUED:
            self._leave(ticket, CANCELLED, now)
            self._deadlines.trim(self.breaker.total.depth)
        elif ticket.state is ASSIGNED:
            return self.release(ticket, now, LEFT)
        return None

    def requeue(self, ticket: Ticket, now: float) -> Changes:
        """Put a request whose pod failed it back to the front of the queue.

        The caller reports the pod's failure first (``connect_failed``, ``answered_badly``). Pods
        that have failed this request get it again only where no other has room. A ticket whose
        deadline has passed ends here.

        Returns:
            What to carry out; the ticket itself may be among the assigned, or the expired.
        """
        changes = Changes()
        assert ticket.pod is not None
        ticket.failed = (*ticket.failed[1 - MAX_AVOIDED :], ticket.pod)
        if ticket.deadline <= now:
            ticket.state = TIMED_OUT
            changes.expired.append(ticket)
        else:
            self.breaker.restore(ticket)
            self._queued(ticket, now)
        if follow := self._take_back(ticket, FAILED, now):
            changes.add(follow)
        return self._dispatch(changes, now)

    def expire(self, ticket: Ticket) -> None:
        """End a queued ticket whose deadline has passed."""
        self._leave(ticket, TIMED_OUT, ticket.deadline)

    def _leave(self, ticket: Ticket, state: TicketState, now: float) -> None:
        self.breaker.discard(ticket)
        ticket.state = state
        if not self.breaker.waiting:
            self.forecast.queue_left(now)

    # -- pods -----------------------------------------------------------------------------------

    def set_dests(
        self, dests: Dests, now: float, taken: Mapping[Dest, Taken] = _NOTHING
    ) -> Changes:
        """Take what Kubernetes lists now; whole, not a difference.

        Arguments:
            taken: what it lists beside that, and another revision has by now.
        """
        changes = Changes()
        self.roster.set_taken(taken, changes, now)
        self.roster.set_dests(dests, changes, now)
        return self._rebuild(changes, now)

    def set_service(self, address: str, now: float) -> Changes:
        """Take where the private Service is reached, ``ip:port``; empty if nowhere."""
        self.roster.service.address = address
        return self._rebuild(Changes(), now)

    def set_reach(self, reach: Reach, now: float) -> Changes:
        """Take what requests may be sent to; what runs finishes where it is."""
        changes = Changes()
        self.roster.set_reach(reach, changes, now)
        return self._rebuild(changes, now)

    def probe_passed(self, pod: PodTracker, epoch: int, now: float) -> Changes | None:
        """Take a probe's good answer. One that was asked in an earlier epoch is ignored."""
        if not self.roster.passed(pod, epoch, now):
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
        if not self.roster.failed(pod, epoch, error, status, now, responded=responded):
            return None
        return self._rebuild(Changes(probe=_probe_again(pod, epoch)), now)

    def connect_failed(self, pod: PodTracker, error: str, now: float) -> Changes | None:
        """Take that a pod refused or dropped a request before it had a byte of it."""
        if not self.roster.unreachable(pod, error, now):
            return None
        return self._rebuild(Changes(probe=[pod]), now)

    def answered_badly(
        self, pod: PodTracker, error: str, now: float, *, untouched: bool
    ) -> Changes | None:
        """Take an answer to a request that speaks against the pod: 502, 503, or half a head.

        Arguments:
            error: what it was, for people.
            untouched: it is queue-proxy's own, and the application has nothing of the request.
        """
        changes = Changes()
        if not self.roster.answered_badly(pod, error, untouched, changes, now):
            return None
        return self._rebuild(changes, now)

    def answered_well(self, pod: PodTracker, now: float) -> Changes | None:
        """Take any other answer; only of use while the pod has ``strikes``."""
        if not self.roster.answered_well(pod, now):
            return None
        return self._rebuild(Changes(), now)

    # -- the revision ---------------------------------------------------------------------------

    def set_revision(self, revision: Revision, now: float) -> Changes:
        """Take another specification; waiting requests stay, running ones finish."""
        old, self.revision = self.revision, revision
        limited_otherwise = old.container_concurrency != revision.container_concurrency
        if limited_otherwise or old.policies != revision.policies:
            self._choose_policy()
        if limited_otherwise:
            for pod in (*self.roster.pods.values(), *self._pods):
                pod.set_limit(revision.container_concurrency)
        return self._rebuild(Changes(), now)

    def _choose_policy(self) -> None:
        self._policy = policy = policy_for(self.revision, self._random)
        self._follower = policy if policy.follows else None
        self.key_header = header_for(self.revision)

    def set_share(self, share: ActivatorShare, now: float) -> Changes:
        """Take which of how many activators we are for this revision."""
        self.share = share
        return self._rebuild(Changes(), now)

    def widen(self, now: float) -> Changes:
        """Let pods that start slowly have more at a time; due at ``slow_start.at``."""
        self.slow_start.disarm()
        for pod in self._pods:
            if pod.in_flight >= pod.limit:
                self._widen(pod, now)
        return self._rebuild(Changes(), now)

    def _widen(self, pod: PodTracker, now: float) -> None:
        if pod.on_trial:
            # queue-proxy says within 2 ms that its application is not there. One that is silent
            # for longer has the request.
            if now - (pod.last_probe_at or 0.0) >= SLOW_START_STEP:
                self.roster.end_trial(pod)
        elif not self.revision.container_concurrency:
            pod.widen()

    @property
    def idle(self) -> bool:
        """Whether no request waits or runs."""
        return not (self.breaker.waiting or self.in_flight)

    @property
    def asleep(self) -> bool:
        """Whether a request waits for a pod to start: none can be used, nor was a moment ago."""
        return not (self._pods or self.roster.in_doubt)

    def pods(self) -> Collection[PodTracker]:
        """Return all pods that are known, in no order."""
        return self.roster.pods.values()

    def unhealthy_pods(self) -> Iterable[PodTracker]:
        """Return the pods, or the ClusterIP, that a waiter could have if they passed a probe."""
        return self.roster.unhealthy()

    @property
    def reach(self) -> Reach:
        """What requests may be sent to."""
        return self.roster.reach

    @property
    def service(self) -> PodTracker | None:
        """The ClusterIP while pods cannot be reached; see its ``in_use``."""
        return self.roster.service.tracker

    def expected_wait(self, now: float) -> float | None:
        """Return how long a request that comes now would wait, seconds; None if not known."""
        return 0.0 if self._room().summary else self.forecast.expected_wait(now)

    def retry_after(self, now: float) -> int:
        """Return when a client that is refused now may come again: whole seconds, at least 1."""
        return retry_after(self.expected_wait(now), self._random())

    def capacity(self) -> int:
        """Return how many requests may be in flight at a time; O(1), by the ClusterIP O(pods)."""
        if self.roster.service.used_since is not None:
            return self.capacity_terms().capacity
        return revision_capacity(self.revision.container_concurrency, self._in_reach)

    def capacity_terms(self) -> CapacityTerms:
        """Return what that is made of; O(pods)."""
        limit, share, borrow = self.revision.container_concurrency, self.share, self._borrow
        if self.roster.service.used_since is not None:
            return CapacityTerms(limit, self.roster.ready(), (), share, borrow, by_service=True)
        own = [number for number, pod in enumerate(self._pods) if pod.in_slice]
        return CapacityTerms(limit, len(self._pods), own, share, borrow)

    def with_room(self) -> int:
        """Return how many usable pods could take one more request; O(pods).

        Counted from the pods themselves, not from the sets that dispatching goes by: where it is
        not 0 although requests wait, the two differ.
        """
        return sum(pod.in_use and pod.in_flight < pod.limit for pod in self._pods)

    def take_peaks(self) -> tuple[int, int]:
        """Return the most that waited, and that pods had, at a time since the last call.

        There is one who asks: what it was told it is not told again.
        """
        peaks = (self.breaker.peak, self.peak)
        self.breaker.peak = self.breaker.waiting
        self.peak = self.in_flight
        return peaks

    def statistics(self) -> Statistics:
        """Return the state at this moment; O(pods), not for the hot path."""
        oldest = self.breaker.oldest()
        terms = self.capacity_terms()
        return Statistics(
            waiting=self.breaker.waiting,
            held_bytes=self.breaker.own.bytes,
            oldest_arrival=oldest.arrived if oldest else None,
            in_flight=self.in_flight,
            capacity=terms.capacity,
            capacity_terms=terms,
            queue_depth=self.breaker.own.max_depth,
            healthy=self.roster.healthy(),
            in_reach=0 if terms.by_service else terms.in_reach,
            share=self.share,
            pods=tuple(sorted(self.roster.seen(), key=by_dest)),
            service=self.service,
            start=self.forecast.starts.median,
            turnover=self.forecast.turnovers.median,
        )

    # -- inside ---------------------------------------------------------------------------------

    def _rebuild(self, changes: Changes, now: float) -> Changes:
        """Number what may be used anew, find our slice and who has room; then let waiters go."""
        for pod in self._pods:
            pod.room = None
            pod.in_slice = False
        had_none = not self._pods
        self._pods = self.roster.choose(changes, now)
        if had_none and self._pods:
            self.forecast.pods_came(now)
        ours = self._slice(self._pods)
        if self.roster.service.used_since is not None and self.revision.container_concurrency:
            self._pods[0].limit = self.capacity()
        self._ours = Room(len(self._pods))
        self._others = Room(len(self._pods))
        self._in_reach = 0
        self._on_trial = False
        for number, pod in enumerate(self._pods):
            pod.was_used = True
            pod.number = number
            pod.in_slice = ours is None or number in ours
            self._on_trial |= pod.on_trial
            if pod.in_slice or self._borrow:
                first = pod.in_slice or self._policy.spans
                pod.room = self._ours if first else self._others
                self._in_reach += 1
                _note_room(pod)
        self._policy.set_pods(self._pods)
        return self._dispatch(changes, now)

    def _slice(self, pods: Sequence[PodTracker]) -> frozenset[int] | None:
        # Without a limit per pod there is nothing to share out (Knative: the same).
        if self.revision.container_concurrency == 0:
            return None
        return assign_slice(len(pods), self.share)

    def _dispatch(self, changes: Changes, now: float) -> Changes:
        """Assign waiters, in order, to the pods that have room."""
        while self.breaker.waiting and self._room().summary:
            ticket = self.breaker.popleft()
            self._give(ticket, self._pick_for(ticket), now)
            changes.assigned.append(ticket)
        self._deadlines.trim(self.breaker.total.depth)
        self._slow_start(now)
        return changes

    def _pick_for(self, ticket: Ticket) -> PodTracker:
        """Return a pod that has room, and has not failed the request if there is such a pod."""
        if not ticket.failed:
            return self._policy.pick(ticket, self._pods, self._room())
        for failed in ticket.failed:
            if (room := failed.room) is not None:
                room.discard(failed.number)
                if not self._room().summary:
                    _note_room(failed)
                elif self._follower is not None:
                    self._follower.changed(failed, has_room=False)
        pod = self._policy.pick(ticket, self._pods, self._room())
        for failed in ticket.failed:
            _note_room(failed)
            if self._follower is not None and failed.room is not None:
                self._follower.changed(failed, failed.in_flight < failed.limit)
        return pod

    def _slow_start(self, now: float) -> None:
        """Arm the next widening while requests wait for pods that may have more before long."""
        if not (self._pods and self.breaker.waiting):
            return
        if self.revision.container_concurrency and not self._on_trial:
            return
        self.slow_start.arm(now)


def _note_room(pod: PodTracker) -> None:
    """Add a pod to the set of those with room, if it gets requests and has room."""
    if (room := pod.room) is not None and pod.in_flight < pod.limit:
        room.add(pod.number)


def _probe_again(pod: PodTracker, epoch: int) -> list[PodTracker]:
    """Return the pod if what its probe said has made it suspect: it is asked again at once."""
    return [pod] if pod.epoch != epoch else []
