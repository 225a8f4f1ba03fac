"""Our record of one pod: what Kubernetes and our probe say of it, its requests, its limit.

Changes only through its revision's throttler. Knative's counterpart: podTracker in
pkg/activator/net/throttler.go.
"""

from __future__ import annotations

from math import inf

from throttler.capacity import SLOW_START
from throttler.config import RevisionConfig
from throttler.free_pods import FreePods
from throttler.health import WITHDRAWN, PodEvent, PodState, transition
from throttler.model import Endpoint, RevisionID
from throttler.pod_records import Ejection, ProbeRecord
from throttler.slow_start import Ramp

_PROBING, _HEALTHY = PodState.PROBING, PodState.HEALTHY


class PodTracker:
    """One pod of one revision.

    Attributes:
        config: what is in force for its revision.
        address: ``ip:port``, IPv6 in brackets.
        is_service: whether this is no pod but the ClusterIP of the revision's Service, behind which
            a mesh or kube-proxy chooses the pod.
        ready: whether Kubernetes lists it in ``addresses`` (False: in ``notReadyAddresses``).
        taken_by: the revision that has its address by now, see throttler.owners; None if none.
        listed_at: when Kubernetes first listed it.
        state: what we think of it, see throttler.health; state_since: when it came to that.
        epoch: grows when answers to earlier probes become void.
        was_used: it could be given requests, and has not been withdrawn since (throttler.health).
        probe: what its probes found; ejection: what its responses say against it.
        proven_at: when it last began a response to a request.
        in_flight: requests that it has from us now; limit: requests that it may have at a time.
        ramp: the growth of that limit where the revision sets none.
        number: its place among the pods that get requests; in_slice: whether it is in our share.
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
        """Whether this pod proves that pods can be reached by their own addresses.

        It has passed a probe since it was listed, and its probes have not failed for
        ``throttler.mesh.PROOF_LASTS`` since then.
        """
        return self.probe.reached_until > -inf

    @property
    def is_trusted(self) -> bool:
        """Whether Kubernetes' word is enough to use it, without a probe of ours."""
        return self.config.reach.trusted and self.ready and not self.is_service

    @property
    def is_reachable(self) -> bool:
        """Whether a probe's result is of any use: not where pods are out of reach."""
        return self.config.reach.pods or self.is_service

    @property
    def wants_probe(self) -> bool:
        """Whether it is to be probed again when its time comes."""
        if self.state is _HEALTHY and self.is_trusted:
            return False
        return self.state in (_PROBING, _HEALTHY) and self.is_reachable

    def apply(self, event: PodEvent, now: float) -> None:
        """Move to the state that follows from ``event``.

        Raises:
            LookupError: the pair is not in the table.
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
        """Take the revision's limit; without one, start slowly from what the pod has now.

        A half-open pod may have one request more than it has: if that fails, no other does.
        """
        self.limit = self.config.revision.container_concurrency or self.in_flight + SLOW_START
        if self.ejection.half_open:
            self.limit = min(self.limit, self.in_flight + 1)
        self.ramp.restart()

    def raise_limit(self) -> None:
        """Double a slow start's limit, if that brought something the last time."""
        self.limit = self.ramp.next_limit(self.limit)

    def __repr__(self) -> str:
        return f"<pod {self.address} {self.state.value} {self.in_flight}/{self.limit}>"
