"""The slots of a revision's pods: which pods get requests, and which pod gets the next one.

Knows no queue and no clock. This module makes every change of a pod's requests and free slots. So
the sets of free pods and the policy always agree with the pods.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from typing import Final, final

from throttler.adaptive import Adaptive
from throttler.balancing import adaptive_mode, policy_for, sticky_for
from throttler.capacity import ActivatorShare, CapacityTerms, assign_share
from throttler.lb_policy import Policy, RandomChoice2
from throttler.model import AdaptiveMode, AppProtocol, RevisionConfig, RevisionKind
from throttler.pod import FreePods, PodTracker
from throttler.ticket import ASSIGNED, Outcome, Ticket
from throttler.zones import Zones

# Pods that have requests and begin no response: when to probe them.
#
# The connections of a pod that hangs stay open, so its requests do not fail: only its silence
# shows that it hangs. Scans the pods that have requests once a second. Other pods cost nothing,
# and a request costs almost nothing. Knative has no counterpart: there, a pod that hangs gets
# requests until Kubernetes lists it as not ready.

#: Seconds without the beginning of a response after which a pod with requests is probed.
SILENT_AFTER = 5.0
#: Limits of the seconds until the next probe of a silent pod. Between them, the pause is as long as
#: the silence was at the last probe. A probe may take 5 s to connect and 5 s for its response.
AGAIN_AFTER: Final = 10.0
AGAIN_AFTER_MAX: Final = 30.0
#: Seconds between two scans.
SCAN_PERIOD: Final = 1.0
#: The most pods in one scan, about a millisecond. The next scan continues with the others.
MAX_PODS = 5000


class Silence:
    """The pods of all revisions that have requests.

    Attributes:
        busy_since: since when each pod has had requests. A pod without requests stays here until
            the next scan.
    """

    __slots__ = ("_probed_at", "_to_scan", "busy_since")

    def __init__(self) -> None:
        self.busy_since: dict[PodTracker, float] = {}
        self._probed_at: dict[PodTracker, float] = {}
        self._to_scan: list[PodTracker] = []

    def scan(self, now: float) -> list[PodTracker]:
        """Return the silent pods to probe now; due every second."""
        if not self._to_scan:
            self._to_scan = list(self.busy_since)
        turn = self._to_scan[-MAX_PODS:]
        del self._to_scan[-MAX_PODS:]
        return [pod for pod in turn if self._is_due(pod, now)]

    def silent_for(self, pod: PodTracker, now: float) -> float | None:
        """Return for how many seconds a pod with requests has begun no response.

        Returns:
            None below ``SILENT_AFTER``, and while the pod has no request. Bytes of a response
            that has begun do not count. A connection of a TCP Service may be silent for hours.
        """
        if not pod.in_flight or pod.config.revision.protocol is AppProtocol.TCP:
            return None
        silent = now - max(self.busy_since[pod], pod.last_response_at)
        return silent if silent >= SILENT_AFTER else None

    def _is_due(self, pod: PodTracker, now: float) -> bool:
        if not pod.in_flight:
            self.busy_since.pop(pod, None)
            self._probed_at.pop(pod, None)
            return False
        silent = self.silent_for(pod, now)
        if silent is None or not pod.in_use or pod.is_service or not pod.wants_probe:
            return False  # a failed probe would keep no request from it
        probed_after = self._probed_at.get(pod, -inf) - (now - silent)
        if probed_after > 0:
            wait = min(max(probed_after, AGAIN_AFTER), AGAIN_AFTER_MAX)
            if silent < probed_after + wait:
                return False
        self._probed_at[pod] = now
        return True


#: The field of a Revision, or the annotation of a Service, that has the limit of a pod; for route
#: objects there is none.
_SETTINGS: Final[Mapping[RevisionKind, str]] = {
    RevisionKind.REVISION: "containerConcurrency",
    RevisionKind.SERVICE: "container-concurrency",
    **dict.fromkeys((RevisionKind.HTTP_ROUTE, RevisionKind.FALLBACK), ""),
}


@final
class Slots:
    """The slots of a revision's pods.

    Arguments:
        config: the settings in force for the revision.
        busy_since: when each pod with requests got the first of them, see throttler.slots.
        random: returns random numbers in [0, 1), for the policies.
        borrow: whether to use pods beyond the activator's share before a request is queued.
        zone: the zone of this activator; empty for no preference.

    Attributes:
        pods: the pods that get requests: the usable pods, sorted by address, or the ClusterIP
            alone.
        own_free: the free pods in the activator's share; borrowable: the free pods beyond it.
        in_reach: number of ``pods`` that this activator may use.
        has_half_open: whether any of them is half-open, see throttler.backends.
        in_flight: requests in flight; peak: the maximum since the last reset.
        sticky: the sticky policy; holder: the same if its requests may wait for their own pod.
        adaptive: the limits that responses set; limiter: the same if they apply.
        zones: picks the zone of each request; None without a zone of this activator.
    """

    def __init__(
        self,
        config: RevisionConfig,
        busy_since: dict[PodTracker, float],
        random: Callable[[], float],
        borrow: bool,
        zone: str = "",
    ) -> None:
        self._config = config
        self._busy_since: Final = busy_since
        self._random = random
        self._borrow = borrow
        self.zones = Zones(zone) if zone else None
        self.pods: list[PodTracker] = []
        self.own_free = FreePods(0)
        self.borrowable = FreePods(0)
        self.in_reach = self.in_flight = self.peak = 0
        self.has_half_open = False
        self.choose_policy()

    def choose_policy(self) -> None:
        """Replace the policy by the configured one; call ``rebuild`` before its first use."""
        revision = self._config.revision
        policy = policy_for(revision, self._random)
        self.sticky = sticky = sticky_for(revision, policy)
        if sticky is not None:
            policy = sticky
        self.holder = sticky if sticky is not None and sticky.holds else None
        mode = adaptive_mode(revision)
        self.adaptive: Adaptive | None = None
        if mode is not AdaptiveMode.OFF:
            policy = self.adaptive = Adaptive(policy, applies=mode is AdaptiveMode.ON)
        self.limiter = self.adaptive if mode is AdaptiveMode.ON else None
        self.policy: Policy = policy
        # `rebuild` replaces them.
        self._picker: Policy = policy
        self._borrower: Policy = policy
        self.follower = policy if policy.follows else None

    @property
    def free_pods(self) -> FreePods:
        """The free pods of the activator's share; if none is free, those to borrow."""
        return self.own_free if self.own_free.summary else self.borrowable

    def rebuild(self, pods: list[PodTracker], share: ActivatorShare) -> None:
        """Replace the pods that get requests; number them, and find the free ones; O(pods).

        Arguments:
            pods: the usable pods, sorted by address, or the ClusterIP alone.
            share: the position of this activator among the activators of the revision.
        """
        for pod in self.pods:
            pod.free_pods = None
            pod.in_share = False
        self.pods = pods
        if self.adaptive is not None:
            self.adaptive.set_limits(pods)
        borrow = self._may_borrow()
        # Without a limit per pod there is nothing to share (Knative: the same).
        limited = self._config.revision.container_concurrency > 0
        own = assign_share(len(pods), share) if limited else None
        self.own_free = FreePods(len(pods))
        self.borrowable = FreePods(len(pods))
        self.in_reach = 0
        self.has_half_open = False
        for number, pod in enumerate(pods):
            pod.was_used = True
            pod.in_share = own is None or number in own
            self.has_half_open |= pod.ejection.half_open
            if pod.in_share or borrow:
                first = pod.in_share or self.policy.spans
                (self.own_free if first else self.borrowable).take(pod, number)
                self.in_reach += 1
        self._prefer_zone(share, limited)
        self.policy.set_pods(pods)

    def _prefer_zone(self, share: ActivatorShare, limited: bool) -> None:
        """Divide the free pods by zone, if there is a choice; O(pods)."""
        zones, policy = self.zones, self.policy
        self._picker = policy
        self._borrower = RandomChoice2(self._random) if policy.in_order else policy
        if zones is not None and not policy.spans and zones.weigh(self.pods, share, limited):
            pods, borrower = self.pods, self._borrower
            self.own_free, self._picker = zones.divide(pods, self.own_free, policy)
            self.borrowable, self._borrower = zones.divide(pods, self.borrowable, borrower)

    def _may_borrow(self) -> bool:
        """Return whether pods of other shares may be used.

        Without queue-proxy nothing else limits the requests at a pod.
        """
        return self._borrow and self._config.revision.behind_queue_proxy

    # -- one request ----------------------------------------------------------------------------

    def assign(
        self, ticket: Ticket, free_pods: FreePods, now: float, own: PodTracker | None = None
    ) -> PodTracker:
        """Assign a request to a pod of ``free_pods``, which is not empty; return the pod.

        Arguments:
            now: seconds on the caller's clock.
            own: the pod that the request has waited for, with a free slot; None to pick one.
        """
        if own is not None:
            pod = own
        elif free_pods is self.borrowable:
            pod = self._borrower.pick(ticket, self.pods, free_pods)
        else:
            pod = self._picker.pick(ticket, self.pods, free_pods)
        ticket.pod = pod
        ticket.state = ASSIGNED
        self.in_flight = in_flight = self.in_flight + 1
        if in_flight > self.peak:
            self.peak = in_flight
        pod.in_flight = in_flight = pod.in_flight + 1
        if in_flight == 1:
            self._busy_since[pod] = now
        if in_flight >= pod.limit and pod.free_pods is not None:
            pod.free_pods.discard(pod.number)
        if self.follower is not None:
            ticket.assigned = ticket.sent = now
            ticket.beside = in_flight
            self.follower.changed(pod, in_flight < pod.limit)
        return pod

    def awaited(self, ticket: Ticket) -> PodTracker | None:
        """Return the full pod that a request must wait for; None if it may have another pod.

        Called only while there is a ``holder``, and while a pod has a free slot.
        """
        assert self.holder is not None
        pod = self.holder.home(ticket)
        return None if pod is None or self.has_free_slot(pod) else pod

    def has_free_slot(self, pod: PodTracker) -> bool:
        """Return whether a pod gets requests and has a free slot."""
        return pod.free_pods is not None and pod.free_pods.has(pod.number)

    def assign_another(self, ticket: Ticket, now: float) -> None:
        """Assign a request that pods have failed; if possible, to another pod.

        The failed pods count as full for this one pick, unless no other pod is free.
        """
        for failed in ticket.failed:
            if (free_pods := failed.free_pods) is not None:
                free_pods.discard(failed.number)
                if not self.free_pods.summary:
                    _update_free(failed)
                elif self.follower is not None:
                    self.follower.changed(failed, has_free_slot=False)
        self.assign(ticket, self.free_pods, now)
        for failed in ticket.failed:
            _update_free(failed)
            if self.follower is not None and failed.free_pods is not None:
                self.follower.changed(failed, failed.in_flight < failed.limit)

    def release(self, ticket: Ticket, outcome: Outcome, now: float) -> PodTracker | None:
        """Release the slot of a request.

        Arguments:
            outcome: how the request left its pod.
            now: seconds on the caller's clock.

        Returns:
            The pod if it was full and has a free slot now, or if it gets no requests any more and
            has none left. Else None.
        """
        pod = ticket.pod
        assert pod is not None
        ticket.pod = None
        self.in_flight -= 1
        pod.in_flight = in_flight = pod.in_flight - 1
        free_pods = pod.free_pods
        if self.follower is not None:
            has_new_limit = self.follower.ended(pod, ticket, outcome, now)
            if free_pods is not None:
                self.follower.changed(pod, in_flight < pod.limit)
                if has_new_limit:
                    return _limit_changed(pod, free_pods)
        if free_pods is None:
            return None if in_flight else pod
        if in_flight != pod.limit - 1:
            return None
        free_pods.add(pod.number)
        return pod

    def terms(self, share: ActivatorShare, ready: int | None = None) -> CapacityTerms:
        """Return the values that make up the capacity; O(pods).

        Arguments:
            share: the position of this activator among the activators of the revision.
            ready: pods that Kubernetes lists as ready, while requests go to the ClusterIP; else
                None.
        """
        revision = self._config.revision
        own = [number for number, pod in enumerate(self.pods) if pod.in_share and ready is None]
        return CapacityTerms(
            revision.container_concurrency,
            len(self.pods) if ready is None else ready,
            own,
            share,
            self._may_borrow(),
            by_service=ready is not None,
            setting=_SETTINGS[revision.id.kind],
        )

    def count_free_pods(self) -> int:
        """Return how many usable pods have a free slot; O(pods).

        Counts the pods themselves, not the sets that assign requests. If the result is not 0
        although requests are queued, the two differ.
        """
        return sum(pod.in_use and pod.in_flight < pod.limit for pod in self.pods)


def _limit_changed(pod: PodTracker, free_pods: FreePods) -> PodTracker | None:
    """Update the set of free pods for a pod with another limit; return as ``release`` does."""
    had, has_free_slot = free_pods.has(pod.number), pod.in_flight < pod.limit
    if has_free_slot:
        free_pods.add(pod.number)
    else:
        free_pods.discard(pod.number)
    return pod if has_free_slot and not had else None


def _update_free(pod: PodTracker) -> None:
    """Add a pod to its set of free pods if it has a free slot."""
    if (free_pods := pod.free_pods) is not None and pod.in_flight < pod.limit:
        free_pods.add(pod.number)
