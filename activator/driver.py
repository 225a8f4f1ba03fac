"""Reads the clock, calls the throttler for decisions, and carries out the changes.

Only this module carries out effects. The byte path alone calls the throttler without it: for a pod
(``admit``), to release its slot and to reserve bytes. After an ``admit`` that queued the request it
calls ``Driver.began_waiting``. The driver knows no HTTP and no cluster.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from math import inf
from typing import Final, Protocol

from activator.records.cold_starts import ColdStarts
from activator.records.entries import Entries, Entry, Failed
from activator.records.narration import EventKind, Events, Narration, log_route, log_taken
from throttler.model import (
    AppProtocol,
    ListedEndpoints,
    MeshMode,
    Revision,
    RevisionConfig,
    RevisionID,
    RevisionKind,
    ServiceRoute,
)
from throttler.pod import PodState, PodTracker
from throttler.reason import Reason
from throttler.revision import RevisionThrottler
from throttler.throttler import Throttler
from throttler.ticket import Changes, Ticket
from throttler.wait_reason import expired_reason, waiting_reason

#: Seconds for which a deleted route object still gets requests.
_KEPT: Final = 3.0


class Prober(Protocol):
    """Probes pods. A protocol, so that the tests of the driver decide which probes pass."""

    def probe(self, pod: PodTracker) -> None:
        """Probe this pod now, and from then on as often as its state requires."""

    def hurry(self, throttler: RevisionThrottler) -> None:
        """Probe the unhealthy pods of a revision now: a request waits for them, or will soon."""

    def forget(self, pod: PodTracker) -> None:
        """Stop probing a pod that is gone."""


class Pools(Protocol):
    """Keeps connections to pods. A protocol, so that the tests of the driver need no socket."""

    def follow(self, pods: Iterable[PodTracker]) -> None:
        """Replace connections to pods of a plain Service whose protocol or TLS has changed."""

    def forget(self, pod: PodTracker) -> None:
        """Close the idle connections to a pod that is gone."""


class Driver:
    """Carries out the decisions of the throttler.

    Arguments:
        entries: the records of revisions that have had requests.
        clock: seconds, monotonic, with the same base as the loop's clock.
        remove_load: called for a deleted revision, which may still have requests.

    The caller sets ``prober`` and ``pools`` before the first revision exists.

    Attributes:
        entries: see above.
        events: passes events of revisions and pods to listeners.
        autoscaler_lost: returns whether the autoscaler of a kind is configured but not connected.
        hurry_discovery: called when the first request of a revision is queued, or will be soon.
        on_stranded: called for each queued request whose revision has lost its last usable pod, if
            the revision has annotations for requests without a pod.
        on_route: called when a plain Service has another route.
        on_pods: called when the list of a revision's pods has changed.
        cold_starts: the cold starts of revisions.
    """

    prober: Prober
    pools: Pools

    def __init__(
        self,
        throttler: Throttler,
        entries: Entries,
        clock: Callable[[], float] = time.monotonic,
        remove_load: Callable[[RevisionID], None] = lambda _: None,
    ) -> None:
        self.throttler = throttler
        self.clock = clock
        self.entries = entries
        self._remove_load = remove_load
        self.events = Events()
        self.autoscaler_lost: Callable[[RevisionKind], bool] = lambda _kind: False
        self.hurry_discovery: Callable[[], None] = lambda: None
        self.on_stranded: Callable[[Ticket], None] = lambda ticket: None
        self.on_route: Callable[[RevisionID, ServiceRoute], None] = lambda _revision, _route: None
        self.on_pods: Callable[[RevisionID], None] = lambda _revision: None
        self._narration = Narration(throttler, self.events, clock, self.why)
        self.cold_starts = ColdStarts(self.events, why=self.why)
        self._removals: dict[RevisionID, asyncio.TimerHandle] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = inf

    def close(self) -> None:
        """Stop the timers, so that no deadline expires any more."""
        for removal in self._removals.values():
            removal.cancel()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.flush_log()

    def flush_log(self) -> None:
        """Log how many changes the log has left out."""
        self._narration.log.sum_up()

    # -- requests -------------------------------------------------------------------------------

    def began_waiting(self, throttler: RevisionThrottler) -> None:
        """Cause the effects of a ``RevisionThrottler.admit`` that queued a request."""
        if throttler.queued.waiting == 1:
            self.prober.hurry(throttler)
            self.hurry_discovery()
        if self.events.listeners:
            self._narration.waits(throttler)
        self._arm()

    def clients_return(self, throttler: RevisionThrottler, now: float) -> None:
        """Speed up the start of a pod, because clients that have no request now will be back.

        Arguments:
            throttler: of their revision.
            now: seconds.
        """
        throttler.queue.forecast.clients_return(now)
        self.prober.hurry(throttler)
        self.hurry_discovery()

    def requests_wait(self) -> bool:
        """Return whether any request of any revision is queued; O(1)."""
        return self.throttler.total.depth > 0

    def why(self, throttler: RevisionThrottler) -> tuple[Reason, str]:
        """Return why a request of a revision would wait now, and a detail; O(pods)."""
        return waiting_reason(throttler, self.autoscaler_lost(throttler.revision.id.kind))

    def cancel(self, throttler: RevisionThrottler, ticket: Ticket, now: float) -> None:
        """End a queued request: its client has left, or the process ends."""
        changes = throttler.cancel(ticket, now)
        if changes is not None:
            self.carry_out(changes)
        elif self.events.listeners:
            self._narration.left(throttler)

    def requeue(self, throttler: RevisionThrottler, ticket: Ticket, now: float) -> None:
        """Requeue a request that its pod did not process; its owner is called with the result."""
        self.carry_out(throttler.requeue(ticket, now))
        if throttler.queued.waiting:
            self.began_waiting(throttler)

    def failed(self, entry: Entry, failed: Failed) -> None:
        """Record a failed request, and publish an event about it."""
        count = entry.failures.record(failed)
        if count and self.events.listeners:
            what = {
                "status": failed.status,
                "reason": failed.reason.value,
                "detail": failed.detail or None,
                "requests": count,
            }
            self.events.publish(EventKind.FAILED, entry.throttler.revision.id, what)

    # -- pods -----------------------------------------------------------------------------------

    def connect_failed(self, pod: PodTracker, error: str, *, sent: bool = False) -> None:
        """Record that a connect failed, or that a pod closed before the first byte of a response.

        Arguments:
            error: what happened, for people.
            sent: whether the request had been sent to the pod.
        """
        failed = "that was sent to it got no response" if sent else "could not be sent to it"
        why = f"a request {failed}: {error}"
        with self._narration.of_pod(pod, why):
            changes = self._throttler_of(pod).connect_failed(pod, error, self.clock())
        self.carry_out(changes)

    def responded_badly(self, pod: PodTracker, error: str, *, untouched: bool) -> None:
        """Record a bad or broken response of a pod to a request, or a stream that it refused.

        Arguments:
            error: what was wrong, for people.
            untouched: whether queue-proxy reports that its application had nothing of the request.
        """
        why = f"a request to it failed: {error}"
        with self._narration.of_pod(pod, why):
            throttler = self._throttler_of(pod)
            changes = throttler.responded_badly(pod, error, self.clock(), untouched=untouched)
        self.carry_out(changes)

    def responded_well(self, pod: PodTracker) -> None:
        """Record any other response; needed only while the pod has consecutive errors."""
        self.carry_out(self._throttler_of(pod).responded_well(pod, self.clock()))

    def probe_passed(self, pod: PodTracker, epoch: int, status: int | None = 200) -> None:
        """Record a passed probe; see Backends.probe_passed."""
        now = self.clock()
        throttler = self._throttler_of(pod)
        if pod.state is PodState.HEALTHY:  # it stays healthy: there is nothing to report
            changes = throttler.probe_passed(pod, epoch, now, status)
        else:
            with self._narration.of_pod(pod, "it passed its probe"):
                changes = throttler.probe_passed(pod, epoch, now, status)
        if changes is not None:
            self.cold_starts.probe_passed(pod, now)
        self.carry_out(changes)

    def probe_failed(
        self,
        pod: PodTracker,
        epoch: int,
        error: str,
        status: int | None = None,
        responded: bool = False,
    ) -> None:
        """Record a failed probe.

        Arguments:
            error: what was wrong, for people.
            status: of the response; None if there was none.
            responded: whether any byte of a response came, also where it has no status.
        """
        now = self.clock()
        throttler = self._throttler_of(pod)
        silence = _silence(throttler.silence.silent_for(pod, now), pod.in_flight)
        with self._narration.of_pod(pod, f"its probe failed: {error}{silence}"):
            changes = throttler.probe_failed(pod, epoch, error, now, status, responded)
        self.carry_out(changes)

    def probe_silent_pods(self) -> None:
        """Probe pods that have requests and begin no response; due every second."""
        self.carry_out(self.throttler.probe_silent_pods(self.clock()))

    def set_mesh(self, mode: MeshMode, pod_addressability: bool) -> None:
        """Set how requests reach pods, for all revisions at once.

        Arguments:
            mode: ``mesh-compatibility-mode`` of the network ConfigMap.
            pod_addressability: ``enable-mesh-pod-addressability``: pods are reachable by their
                own addresses in spite of a mesh.
        """
        with self._narration.of_all("how pods are reached has changed"):
            changes = self.throttler.set_mesh(mode, pod_addressability, self.clock())
        self.carry_out(changes)

    def _throttler_of(self, pod: PodTracker) -> RevisionThrottler:
        """Return the throttler of a pod that has a request or a probe, so it is not gone."""
        throttler = self.throttler.of(pod.config)
        assert throttler is not None
        return throttler

    # -- discovery (activator.discovery.source.Sink) ----------------------------------------------

    def set_revision(self, revision: Revision) -> None:
        """Set a new or changed Revision, a plain Service or a route object."""
        if (removal := self._removals.pop(revision.id, None)) is not None:
            removal.cancel()
        with self._narration.of_revision(revision.id, "its Revision is new or has changed"):
            changes = self.throttler.set_revision(revision, self.clock())
        self.carry_out(changes)
        if not revision.behind_queue_proxy:
            self.pools.follow(self.throttler.find(*revision.id).backends.pods.values())

    def delete_revision(self, revision: RevisionID) -> None:
        """Remove a deleted Revision and its records; a route object only after some seconds.

        Until then it gets requests, so an object that is deleted and made again loses none. Equal
        rules of other objects count before its own.
        """
        if revision.kind not in (RevisionKind.HTTP_ROUTE, RevisionKind.FALLBACK):
            self._remove(revision)
        elif revision not in self._removals:
            self.entries.give_way(revision)
            loop = asyncio.get_running_loop()
            self._removals[revision] = loop.call_later(_KEPT, self._remove_route, revision)

    def _remove_route(self, revision: RevisionID) -> None:
        del self._removals[revision]
        self.set_route(revision, ServiceRoute())
        self._remove(revision)
        self.carry_out(self.throttler.set_endpoints(revision, {}, self.clock()))

    def _remove(self, revision: RevisionID) -> None:
        self.carry_out(self.throttler.delete_revision(revision))
        self.cold_starts.remove(revision)
        if self.entries.remove(revision):
            self._remove_load(revision)

    def set_route(self, revision: RevisionID, route: ServiceRoute) -> None:
        """Set the rules of a plain Service or a route object, and the port that is its alone."""
        self.entries.set_route(revision, route)
        self.on_route(revision, route)

    def set_endpoints(
        self, revision: RevisionID, endpoints: Mapping[AppProtocol, ListedEndpoints]
    ) -> None:
        """Set the pods of a private Endpoints object, by protocol."""
        now = self.clock()
        with self._narration.of_listing(revision):
            changes = self.throttler.set_endpoints(revision, endpoints, now)
            if changes.gone:
                self._narration.gone(changes.gone)  # before the change of capacity
        self.cold_starts.listed(revision, now)
        self.carry_out(changes, gone_reported=True)
        self.on_pods(revision)

    def set_activators(
        self, revision: RevisionID, addresses: Mapping[AppProtocol, Collection[str]]
    ) -> None:
        """Set the activators of a public Endpoints object, by protocol."""
        with self._narration.of_revision(revision, "the activators of the revision have changed"):
            changes = self.throttler.set_activators(revision, addresses, self.clock())
        self.carry_out(changes)

    def set_service(self, revision: RevisionID, addresses: Mapping[AppProtocol, str]) -> None:
        """Set the addresses of a revision's private Service, ``ip:port`` by protocol.

        Arguments:
            addresses: empty if there is no such Service, or if it has no ClusterIP.
        """
        with self._narration.of_revision(revision, "its private Service has changed"):
            changes = self.throttler.set_service(revision, addresses, self.clock())
        self.carry_out(changes)

    # -- effects --------------------------------------------------------------------------------

    def carry_out(self, changes: Changes | None, *, gone_reported: bool = False) -> None:
        """Carry out a decision; pods first, since a request that fails at once needs them.

        Arguments:
            gone_reported: whether the removed pods have been reported already.
        """
        if changes is None:
            return
        if changes.gone and not gone_reported:
            self._narration.gone(changes.gone)
        if self.events.listeners:
            self._narration.decided(changes)
        if changes.taken:
            log_taken(changes.taken)
        for pod in changes.gone:
            self._release(pod)
        for pod in changes.probe:
            self.prober.probe(pod)
        if changes.expired:
            self._expire(changes.expired)
        for ticket in changes.assigned:
            ticket.owner.ticket_assigned()
        for ticket in changes.stranded:
            self.on_stranded(ticket)
        if changes.service is not None:
            log_route(changes.service)
        self._arm()

    def _expire(self, tickets: Iterable[Ticket]) -> None:
        """Report expired tickets to their owners, with the reason.

        The reason is computed once for each revision, since 5,000 tickets may expire together.
        """
        whys: dict[RevisionConfig, tuple[Reason, str]] = {}
        for ticket in tickets:
            config = ticket.config
            assert config is not None
            throttler = self.throttler.of(config)
            assert throttler is not None
            if (why := whys.get(config)) is None:
                why = whys[config] = self.why(throttler)
            ticket.owner.ticket_expired(*expired_reason(throttler, ticket, why))

    def _release(self, pod: PodTracker) -> None:
        self.prober.forget(pod)
        self.pools.forget(pod)
        self.cold_starts.leads.remove(pod)
        if (entry := self.entries.known(pod.config.revision.id)) is not None:
            entry.counters.remove_pod(pod.address)

    def _arm(self) -> None:
        """Call ``_wake`` when the throttler next needs it; keep a timer that is earlier."""
        when = self.throttler.deadlines.next_due()
        if when is None or when >= self._timer_at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = when
        delay = max(0.0, when - self.clock())
        self._timer = asyncio.get_running_loop().call_later(delay, self._wake)

    def _wake(self) -> None:
        now = max(self.clock(), self._timer_at)  # the loop's timer may be early, see Timers
        self._timer = None
        self._timer_at = inf
        self.carry_out(self.throttler.run_due(now))


def _silence(silent: float | None, in_flight: int) -> str:
    """Return a suffix for the log that gives a pod's silence; empty if it is not silent."""
    if silent is None:
        return ""
    requests = f"{in_flight} request{'s' * (in_flight > 1)}"
    return f", after {silent:.1f} s without a response to {requests}"
