"""Takes part in the election of the leader by one Lease, and labels the leader's pod.

The holder of the Lease renews it, and others take it once it has expired. Expiry counts from one's
own observation of the last change, since clocks of machines differ, and from the moment before a
request: this process stops to lead before another one may begin. Sources: coordination.k8s.io/v1
Lease in the Kubernetes API reference; client-go's tools/leaderelection, whose times these are.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Final, NamedTuple, final

from activator.discovery.api_server import MERGE_PATCH, ApiResponse, ApiServer
from activator.objects.fields import ManifestError, root
from activator.scale.cluster.api import micro_time

logger = logging.getLogger(__name__)

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

_KIND: Final = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}


class LeaseAction(Enum):
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


def parse_lease(obj: object) -> Lease:
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
        spec["leaseTransitions"].whole(default=0),
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

    def action(self, now: float) -> LeaseAction:
        """Return what to do now."""
        if self._lease is None:
            return LeaseAction.CREATE
        if self.holder == self._identity:
            return LeaseAction.RENEW
        if not self.holder or now - self._observed_at >= DURATION:
            return LeaseAction.TAKE
        return LeaseAction.WAIT

    def body(
        self, namespace: str, name: str, clock: datetime, *, releases: bool = False
    ) -> Mapping[str, Any]:
        """Return the object by which the candidate takes or renews the lease.

        Arguments:
            clock: the present time of day.
            releases: whether the leader steps down instead, so that another takes over at once.
        """
        known, now = self._lease, micro_time(clock)
        renews = known is not None and known.holder == self._identity
        metadata = {"namespace": namespace, "name": name}
        if known is not None:
            metadata["resourceVersion"] = known.version
        spec = {
            "holderIdentity": "" if releases else self._identity,
            # The API server requires more than 0.
            "leaseDurationSeconds": 1 if releases else DURATION,
            "acquireTime": known.acquired if known and renews and not releases else now,
            "renewTime": now,
            "leaseTransitions": 0 if known is None else known.transitions + (not renews),
        }
        return {**_KIND, "metadata": metadata, "spec": spec}


# -- one process in the election

#: The label of the leader's pod, by which the Service of the scalers selects it.
LABEL: Final = "activator.dev/leader"
#: Separates the pod's name from a random part in an identity: a container that starts again is
#: another process in the same pod.
_SEPARATOR: Final = "_"


class LeasePlace(NamedTuple):
    """Where the election happens.

    Attributes:
        namespace: of the Lease and of the pods.
        lease: name of the Lease.
        pod: name of the own pod.
    """

    namespace: str
    lease: str
    pod: str


class Alone:
    """A process that needs no election, since it writes nothing: each such process decides.

    Arguments:
        pod: its name.
        on_change: as for ``Candidate``.
    """

    leads: Final = True
    error: Final = ""

    def __init__(self, pod: str, on_change: Callable[[bool], object]) -> None:
        self.holder = pod
        self._on_change = on_change

    async def run(self) -> None:
        """Lead from now on."""
        self._on_change(True)

    async def release(self) -> None:
        """Return: there is no Lease."""


class Candidate:
    """One process in the election.

    Arguments:
        api: sends the requests, over connections of its own: a queue of other requests must not
            delay a renewal.
        place: the Lease and the pod.
        on_change: called with whether this process leads, after each change.

    Attributes:
        error: why the last attempt failed; empty if it did not.
        since: when this process began to lead, on the loop's clock; None while it does not.
    """

    def __init__(
        self, api: ApiServer, place: LeasePlace, on_change: Callable[[bool], object]
    ) -> None:
        self._api = api
        self._namespace, self._lease, self._pod = place
        self._election = Election(f"{self._pod}{_SEPARATOR}{random.getrandbits(48):012x}")
        self._on_change = on_change
        self._lost: asyncio.TimerHandle | None = None
        self._has_read = False
        # The pods that have, or may have, the label: True means that it must be set.
        self._labels = dict[str, bool]()
        self._label_error = ""
        self.error = ""
        self.since: float | None = None

    @property
    def leads(self) -> bool:
        """Whether this process decides now."""
        return self.since is not None and self._election.is_leader(_now())

    @property
    def holder(self) -> str:
        """The pod of the leader, as last observed; empty for none."""
        return _pod_of(self._election.holder)

    async def run(self) -> None:
        """Take part until cancelled. No fault of the server ends this."""
        self._labels[self._pod] = False  # of an earlier process of this pod
        while True:
            await self._attempt()
            self._note()
            await self._write_labels()
            # Candidates that started together must not write together.
            await asyncio.sleep(RETRY * random.uniform(0.9, 1.0))

    async def release(self) -> None:
        """Step down, so that another process takes over at once; ``run`` must have ended."""
        was_leader = self._election.is_leader(_now())
        self._stop_leading()
        if was_leader:
            await self._release_lease()
        await self._write_labels()

    async def _release_lease(self) -> None:
        for _ in range(2):
            wall = datetime.now(UTC)
            body = self._election.body(self._namespace, self._lease, wall, releases=True)
            response = await self._send("PUT", self._path(self._lease), body)
            if response.is_ok:
                logger.info("lease %s: released", self._lease)
                return
            # A renewal may have been under way when ``run`` was cancelled.
            await self._read()
            if self._election.action(_now()) is not LeaseAction.RENEW:
                return
        logger.warning("lease %s: not released: %s", self._lease, self.error or "conflict")

    # -- the Lease ---------------------------------------------------------------------------------

    async def _attempt(self) -> None:
        """Read the Lease, and create, take or renew it if it is time to."""
        failed_before, self.error = self.error, ""
        if self._election.action(_now()) is not LeaseAction.RENEW:
            await self._read()
        # An own Lease is written without a read: a conflict shows any other change.
        if not self.error and (action := self._election.action(_now())) is not LeaseAction.WAIT:
            await self._take(action)
        if self.error and self.error != failed_before:
            logger.warning("lease %s: %s", self._lease, self.error)

    async def _read(self) -> None:
        sent = _now()
        response = await self._send("GET", self._path(self._lease))
        if response.status == 404:
            self._election.observe(None, sent)
        elif (found := self._parsed(response)) is not None:
            if not self._has_read and _pod_of(found.holder) == self._pod:
                # An earlier process of this pod, whose container has ended. Only a new process may
                # say so: two that have one name by mistake must not take it from each other.
                found = found._replace(holder="")
            self._has_read = True
            self._election.observe(found, sent)

    async def _take(self, action: LeaseAction) -> None:
        before, sent = self._election.holder, _now()
        body = self._election.body(self._namespace, self._lease, datetime.now(UTC))
        creates = action is LeaseAction.CREATE
        path = self._path("" if creates else self._lease)
        response = await self._send("POST" if creates else "PUT", path, body)
        if response.status == 409 or (response.status == 404 and not creates):
            await self._read()  # another process was faster, or a person deleted the Lease
        elif (found := self._parsed(response)) is not None:
            self._election.written(found, sent)
            if action is LeaseAction.TAKE and before:
                # Its process may live on, cut off from the API server, with the label.
                self._labels[_pod_of(before)] = False

    def _parsed(self, response: ApiResponse) -> Lease | None:
        if not response.is_ok:
            self.error = response.problem
            return None
        try:
            return parse_lease(response.decoded())
        except ManifestError as error:
            self.error = str(error)
            return None

    async def _send(self, method: str, path: str, body: object = None) -> ApiResponse:
        """Return a response; if there is none, ``error`` has the cause."""
        content = b"" if body is None else json.dumps(body).encode()
        response = await self._api.send(method, path, content)
        if not response.status:
            self.error = response.problem
        return response

    def _path(self, name: str = "") -> str:
        leases = f"/apis/coordination.k8s.io/v1/namespaces/{self._namespace}/leases"
        return f"{leases}/{name}" if name else leases

    # -- whether this process leads ----------------------------------------------------------------

    def _note(self) -> None:
        """Begin or stop to lead, as the election decides; otherwise change nothing."""
        now = _now()
        if not self._election.is_leader(now):
            self._stop_leading()
            return
        if self._lost is not None:
            self._lost.cancel()
        left = self._election.leads_until - now
        self._lost = asyncio.get_running_loop().call_later(left, self._stop_leading)
        if self.since is None:
            self.since = now
            self._labels[self._pod] = True
            logger.info("this pod, %s, leads", self._pod)
            self._on_change(True)

    def _stop_leading(self) -> None:
        if self._lost is not None:
            self._lost.cancel()
        if self.since is None:
            return
        self.since = None
        self._labels[self._pod] = False
        other = self.holder if self.holder != self._pod else ""
        logger.info("this pod, %s, no longer leads; leader: %s", self._pod, other or "none")
        self._on_change(False)

    # -- labels of pods ----------------------------------------------------------------------------

    async def _write_labels(self) -> None:
        """Write the labels that are due; a failed one stays due."""
        for pod, leads in list(self._labels.items()):
            problem = await self._label(pod, leads)
            if not problem and self._labels.get(pod) is leads:
                del self._labels[pod]
            if problem and problem != self._label_error:
                logger.warning("label %s of pod %s: %s", LABEL, pod, problem)
            self._label_error = problem

    async def _label(self, pod: str, leads: bool) -> str:
        """Set or remove the label; return why that failed."""
        body = {"metadata": {"labels": {LABEL: "true" if leads else None}}}
        path = f"/api/v1/namespaces/{self._namespace}/pods/{pod}"
        response = await self._api.send("PATCH", path, json.dumps(body).encode(), MERGE_PATCH)
        if response.status == 404:
            return f"{response.message()}; POD_NAME must name this pod" if leads else ""
        return response.problem


def _now() -> float:
    return asyncio.get_running_loop().time()


def _pod_of(identity: str) -> str:
    return identity.rpartition(_SEPARATOR)[0] or identity
