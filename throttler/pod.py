"""Our record of one pod: what Kubernetes and our probe say of it, its requests, its limit.

Changes only through its revision's throttler. Knative's counterpart: podTracker in
pkg/activator/net/throttler.go.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from throttler.capacity import (
    MAX_CAPACITY,
    SLOW_START,
    SLOW_START_END,
    WIDEN_ANYWAY,
    WIDENED_ENOUGH,
)
from throttler.health import WITHDRAWN, PodEvent, PodState, transition
from throttler.model import Dest, RevisionID
from throttler.room import Room

if TYPE_CHECKING:  # a pod knows its revision and a revision its pods
    from throttler.revision import RevisionThrottler


class PodTracker:
    """One pod of one revision.

    Attributes:
        revision: the throttler that it belongs to.
        is_service: whether this is no pod but the ClusterIP of the revision's Service, behind which
            a mesh or kube-proxy chooses the pod.
        mesh_like: whether its last probe failed in a way that a mesh might be the cause of; None
            while it has answered none since it was listed as it is.
        reached_until: a probe that fails after this time ends the pod's proof that pods can be
            reached. Infinite while its last probe passed, minus infinity without a proof.
        ready: whether Kubernetes lists it in ``addresses`` (False: in ``notReadyAddresses``).
        state: what we think of it, see throttler.health; state_since: when it came to that.
        epoch: grows when answers to earlier probes become void.
        in_flight: requests that it has from us now.
        limit: requests that it may have at a time.
        answered: requests that it ended while others waited, since its limit was last looked at.
        was_used: it could be given requests, and has not been withdrawn since (throttler.health).
        number: its place among the pods that get requests; in_slice: whether it is in our share.
        room: the set that has its number while it has room, see throttler.room; None while it gets
            no requests.
        last_error: why the last probe or connect failed; empty if it did not.
        complained: what ``last_error`` tells is an answer of it to a request, not to a probe.
        last_status: of the last probe's answer; None if there was none.
        failures: probes failed since the last that passed; failing_since: when the first did.
        proven_at: when it last began a response to a request.
        strikes: bad answers since its last good one; what follows is in throttler.outliers.
        on_trial: it was out and is in use again; gets few requests before it has answered one.
        held_until: until then no probe has it back; well_since: its first good answer after that,
            infinite before; relapses: how often it was out of late.
        taken_by: the revision that has its address by now, see throttler.owners; None if none.
    """

    __slots__ = (
        "_answered_before",
        "_held",
        "answered",
        "complained",
        "dest",
        "epoch",
        "failing_since",
        "failures",
        "held_until",
        "in_flight",
        "in_slice",
        "is_service",
        "last_error",
        "last_probe_at",
        "last_status",
        "limit",
        "listed_at",
        "mesh_like",
        "number",
        "on_trial",
        "proven_at",
        "reached_until",
        "ready",
        "relapses",
        "revision",
        "room",
        "state",
        "state_since",
        "strikes",
        "taken_by",
        "was_used",
        "well_since",
    )

    def __init__(
        self,
        revision: RevisionThrottler,
        dest: Dest,
        ready: bool,
        limit: int,
        now: float,
        is_service: bool = False,
    ) -> None:
        self.revision = revision
        self.dest = dest
        self.is_service = is_service
        self.mesh_like: bool | None = None
        self.reached_until = -inf
        self.ready = ready
        self.state = PodState.PROBING
        self.state_since = now
        self.epoch = 0
        self.in_flight = 0
        self.limit = limit
        self.answered = 0
        self._answered_before = 0
        self._held = 0
        self.was_used = False
        self.number = 0
        self.room: Room | None = None
        self.in_slice = False
        self.last_error = ""
        self.complained = False
        self.last_status: int | None = None
        self.failures = 0
        self.failing_since = now
        self.listed_at = now
        self.last_probe_at: float | None = None
        self.proven_at = now
        self.strikes = 0
        self.on_trial = False
        self.held_until = -inf
        self.well_since = -inf
        self.relapses = 0
        self.taken_by: RevisionID | None = None

    @property
    def address(self) -> str:
        """``ip:port``, IPv6 in brackets."""
        return self.dest.address

    @property
    def in_use(self) -> bool:
        """Whether it gets requests."""
        return self.room is not None

    @property
    def proves_reach(self) -> bool:
        """Whether this pod proves that pods can be reached by their own addresses.

        It has passed a probe since it was listed, and its probes have not failed for
        ``throttler.mesh.PROOF_LASTS`` since then.
        """
        return self.reached_until > -inf

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
            self.mesh_like = None

    def set_limit(self, container_concurrency: int) -> None:
        """Take the revision's limit; without one, start slowly from what the pod has now.

        On trial it may have one request more than it has: where that fails, no other does.
        """
        self.limit = container_concurrency or self.in_flight + SLOW_START
        if self.on_trial:
            self.limit = min(self.limit, self.in_flight + 1)
        # What it answered in an earlier life says nothing of this start.
        self.answered = self._answered_before = self._held = 0

    def widen(self) -> None:
        """Double a slow start's limit, see throttler.capacity; unless the last time bought nothing.

        A pod that answers no more than before, with twice as much at a time, is busy: what it is
        given beyond that waits inside it, on connections that cost both sides. Now and then it is
        tried all the same.
        """
        answered, before = self.answered, self._answered_before
        self.answered, self._answered_before = 0, answered
        if before and answered < WIDENED_ENOUGH * before and self._held < WIDEN_ANYWAY:
            self._held += 1
            return
        self._held = 0
        self.limit = self.limit * 2 if self.limit < SLOW_START_END else MAX_CAPACITY

    def __repr__(self) -> str:
        return f"<pod {self.address} {self.state.value} {self.in_flight}/{self.limit}>"
