"""The record of one pod: its state, its results of probes and responses, its requests, its limit.

Only its revision's throttler changes it. Knative's counterpart: podTracker in
pkg/activator/net/throttler.go.
"""

from __future__ import annotations

from math import inf
from typing import Final

from throttler.capacity import SLOW_START
from throttler.config import RevisionConfig
from throttler.free_pods import FreePods
from throttler.health import WITHDRAWN, PodEvent, PodState, transition
from throttler.model import Endpoint, ReadinessRule, RevisionID
from throttler.pod_records import Ejection, ProbeRecord
from throttler.slow_start import Ramp

NO_PROBE: Final = ReadinessRule.NO_PROBE
_PROBING, _HEALTHY = PodState.PROBING, PodState.HEALTHY


class PodTracker:
    """One pod of one revision.

    Attributes:
        config: the settings in force for its revision.
        endpoint: its address and uid; address: ``ip:port``, IPv6 in brackets.
        is_service: whether this is the ClusterIP of the revision's Service instead of a pod. A mesh
            or kube-proxy chooses the pod behind it.
        ready: whether Kubernetes lists it in ``addresses`` (False: in ``notReadyAddresses``).
        taken_by: the revision that its address moved to, see throttler.owners; None if none.
        listed_at: when Kubernetes first listed it, seconds on the caller's clock.
        state: see throttler.health; state_since: when that state began.
        epoch: grows when results of earlier probes become void.
        was_used: it has been usable, and no event of ``throttler.health.WITHDRAWN`` has followed.
        probe: the results of its probes; ejection: the results of its responses.
        last_response_at: when it last began a response to a request.
        in_flight: its requests in flight from this activator; limit: how many it may have.
        ramp: raises that limit if the revision sets none.
        number: its index among the pods that get requests; in_share: whether it is in the
            activator's share.
        free_pods: the set that has its number while it has a free slot, see throttler.free_pods;
            None while it gets no requests.
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
    def in_use(self) -> bool:
        """Whether it gets requests."""
        return self.free_pods is not None

    @property
    def proves_reach(self) -> bool:
        """Whether this pod proves that pods are reachable at their own addresses.

        It has passed a probe since Kubernetes listed it, and its probes have not failed for
        ``throttler.mesh.PROOF_LASTS`` since then.
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
