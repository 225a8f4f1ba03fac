"""Decides who leads: one Lease, which its holder renews and others take once it has expired.

Pure. Expiry counts from one's own observation of the last change, since clocks of machines
differ. Sources: coordination.k8s.io/v1 Lease in the Kubernetes API reference; client-go's
tools/leaderelection, whose times these are.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from typing import Any, Final, NamedTuple, final

from activator.objects.fields import root
from activator.scale.cluster.api import micro_time

#: Seconds without a renewal after which another one may take the lease.
DURATION: Final = 15
#: Seconds without a successful renewal after which the holder stops to lead.
RENEW_DEADLINE: Final = 10.0
#: Seconds between two attempts.
RETRY: Final = 2.0
#: Seconds without a read after which the API server counts as having been away.
AWAY: Final = 3 * RETRY
#: Seconds for which the holder may renew first when the API server is back. The Service of the
#: scalers selects its pod already; another one is selected up to 30 s later.
HEAD_START: Final = 3 * RETRY

_MAX_TRANSITIONS: Final = 2**31 - 1


class Action(Enum):
    """What to do with the lease now."""

    CREATE = "create"
    TAKE = "take"
    RENEW = "renew"
    WAIT = "wait"


class Lease(NamedTuple):
    """A Lease object.

    Attributes:
        holder: the identity of the leader; empty if it was released.
        acquired, renewed: as the object has them; only a change of ``renewed`` means something.
        transitions: how often the holder has changed.
        version: ``resourceVersion``, which each write must send.
    """

    holder: str
    acquired: str
    renewed: str
    transitions: int
    version: str


def parse(obj: object) -> Lease:
    """Return a Lease object's fields.

    Raises:
        ManifestError: a field is wrong.
    """
    lease = root(obj, "Lease")
    spec = lease["spec"]
    return Lease(
        spec["holderIdentity"].text(),
        spec["acquireTime"].text(),
        spec["renewTime"].text(),
        spec["leaseTransitions"].whole(minimum=0, maximum=_MAX_TRANSITIONS, default=0),
        lease["metadata"]["resourceVersion"].text(),
    )


@final
class Election:
    """One candidate's view of the lease.

    Arguments:
        identity: the candidate's own; unique among all processes.
    """

    __slots__ = ("_identity", "_lease", "_observed_at", "_read_at", "_renewed_at")

    def __init__(self, identity: str) -> None:
        self._identity = identity
        self._lease: Lease | None = None
        self._observed_at = 0.0
        self._read_at = 0.0
        self._renewed_at = float("-inf")

    @property
    def holder(self) -> str:
        """The identity of the leader, as last observed; empty for none."""
        return "" if self._lease is None else self._lease.holder

    @property
    def leads_until(self) -> float:
        """When the candidate stops to lead unless it renews the lease; -inf for a follower."""
        is_holder = self.holder == self._identity
        return self._renewed_at + RENEW_DEADLINE if is_holder else float("-inf")

    def is_leader(self, now: float) -> bool:
        """Return whether the candidate leads. It stops to before another one may begin."""
        return now < self.leads_until

    def observe(self, lease: Lease | None, now: float) -> None:
        """Record what the API server has; None for no object.

        Arguments:
            now: seconds, monotonic: when the request for it was sent.
        """
        known = self._lease
        if known is None or lease is None or (lease.holder, lease.renewed) != known[:3:2]:
            self._observed_at = now
        elif now - self._read_at > AWAY:
            self._observed_at = max(self._observed_at, now - DURATION + HEAD_START)
        self._lease, self._read_at = lease, now

    def written(self, lease: Lease, now: float) -> None:
        """Record a successful write of the candidate; ``now`` as for ``observe``."""
        self.observe(lease, now)
        if lease.holder == self._identity:
            self._renewed_at = now

    def action(self, now: float) -> Action:
        """Return what to do now."""
        if self._lease is None:
            return Action.CREATE
        if self.holder == self._identity:
            return Action.RENEW
        if not self.holder or now - self._observed_at >= DURATION:
            return Action.TAKE
        return Action.WAIT

    def body(self, namespace: str, name: str, clock: datetime) -> Mapping[str, Any]:
        """Return the object by which the candidate takes or renews the lease.

        Arguments:
            clock: the present time of day.
        """
        known, now = self._lease, micro_time(clock)
        renews = known is not None and known.holder == self._identity
        spec = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": DURATION,
            "acquireTime": known.acquired if known and renews else now,
            "renewTime": now,
            "leaseTransitions": 0 if known is None else known.transitions + (not renews),
        }
        return self._object(namespace, name, spec)

    def release_body(self, namespace: str, name: str, clock: datetime) -> Mapping[str, Any]:
        """Return the object by which the leader steps down, so that another takes over at once."""
        assert self._lease is not None
        now = micro_time(clock)
        spec = {
            "holderIdentity": "",
            "leaseDurationSeconds": 1,  # the API server requires more than 0
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": self._lease.transitions,
        }
        return self._object(namespace, name, spec)

    def _object(self, namespace: str, name: str, spec: Mapping[str, Any]) -> Mapping[str, Any]:
        metadata = {"namespace": namespace, "name": name}
        if self._lease is not None:
            metadata["resourceVersion"] = self._lease.version
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": metadata,
            "spec": spec,
        }
