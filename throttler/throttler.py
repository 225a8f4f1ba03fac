"""All revisions: which one a request names, and which time-outs are next.

Joins a Revision with its Endpoints, whichever comes first. Keeps a deleted revision while it has
requests, queued or in flight. Knows no clock. Knative's counterpart: Throttler in
pkg/activator/net/throttler.go and the lookup of pkg/activator/handler/context_handler.go.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from throttler.capacity import ActivatorShare, infer_share
from throttler.errors import RevisionNotFound
from throttler.forecast import retry_after
from throttler.model import (
    DEFAULT_REACH,
    REACH,
    AppProtocol,
    Endpoint,
    ListedEndpoints,
    MeshMode,
    Revision,
    RevisionConfig,
    RevisionID,
    RevisionKind,
    Taken,
    reach_of,
)
from throttler.queue import Deadlines
from throttler.request_policies import QueueBudget, SharedBudget
from throttler.revision import RevisionThrottler
from throttler.slots import Silence
from throttler.ticket import Changes

# Which revision owns an address that two revisions list.
#
# Kubernetes gives an address to another pod within seconds. Until the former revision's object
# shows that, its requests would reach a pod of another revision. No probe detects this, since
# each queue-proxy responds alike. So the revision that listed an address last owns it. Knative
# has no counterpart; kube-proxy's is kubernetes/kubernetes#135593.

_ByProtocol = Mapping[AppProtocol, ListedEndpoints]


class _Listing(Enum):
    """The set of a ListedEndpoints that has an endpoint."""

    READY = "ready"
    NOT_READY = "not-ready"
    TERMINATING = "terminating"


_LISTINGS: Final = tuple(_Listing)


class _Claim(NamedTuple):
    revision: RevisionID
    endpoint: Endpoint


class AddressOwners:
    """The revisions that list each address, the newest last; no other address is here."""

    __slots__ = ("claims", "lost")

    def __init__(self) -> None:
        self.claims: dict[str, tuple[_Claim, ...]] = {}
        # The addresses that each revision lost, with the new owner; usually few.
        self.lost: dict[RevisionID, dict[Endpoint, RevisionID]] = {}

    def change(
        self, revision: RevisionID, before: _ByProtocol, after: _ByProtocol
    ) -> set[RevisionID]:
        """Replace the list of a revision.

        An address is news if the revision did not list it before, or with another readiness. A list
        that repeats an address is no news: this object may be older than that of the other
        revision. An address of a pod that terminates belongs to any other revision that lists it.

        Arguments:
            before: the endpoints that the revision listed until now, by protocol; after: from now
                on.

        Returns:
            The revisions whose pods differ now; the revision itself may be among them.
        """
        old, new = _by_listing(before), _by_listing(after)
        changed: set[RevisionID] = set()
        # A list of 1,000 pods usually differs in a few: the others are never visited.
        touched = frozenset[Endpoint]().union(*map(frozenset.symmetric_difference, old, new))
        news = [(each, _listing_of(each, old), _listing_of(each, new)) for each in touched]
        for endpoint, _, listing in news:
            if listing is None:
                self._remove(_Claim(revision, endpoint))
                self._find_owner(endpoint.address, changed)
        for endpoint, was, listing in news:
            if listing is not None and was is not listing:
                claim = _Claim(revision, endpoint)
                self._remove(claim)
                others = self.claims.get(endpoint.address, ())
                is_last = listing is not _Listing.TERMINATING
                self.claims[endpoint.address] = (*others, claim) if is_last else (claim, *others)
                self._find_owner(endpoint.address, changed)
        return changed

    def kept(self, revision: RevisionID, listed: ListedEndpoints) -> ListedEndpoints:
        """Return the endpoints of a list that the revision owns."""
        lost = self.lost.get(revision)
        if not lost:
            return listed
        return ListedEndpoints(
            listed.ready.difference(lost),
            listed.not_ready.difference(lost),
            listed.terminating.difference(lost),
            zones=listed.zones,
        )

    def taken(self, revision: RevisionID, listed: ListedEndpoints) -> dict[Endpoint, Taken]:
        """Return the endpoints of a list that another revision owns, with that revision."""
        lost = self.lost.get(revision)
        if not lost:
            return {}
        listed_at_all = listed.ready | listed.not_ready | listed.terminating
        return {
            endpoint: Taken(owner, endpoint in listed.ready)
            for endpoint, owner in lost.items()
            if endpoint in listed_at_all
        }

    def _remove(self, claim: _Claim) -> None:
        claims = self.claims.get(claim.endpoint.address, ())
        if claim not in claims:
            return
        if left := tuple(other for other in claims if other != claim):
            self.claims[claim.endpoint.address] = left
        else:
            del self.claims[claim.endpoint.address]
        self._record_taker(claim, None)

    def _find_owner(self, address: str, changed: set[RevisionID]) -> None:
        """Decide who owns an address; with the same pod in two lists, both revisions do."""
        claims = self.claims.get(address, ())
        if len(claims) < 2 and not self.lost:
            return
        # Without uids the address alone identifies the pod, and both revisions own it: for example
        # two revisions on a laptop with one server.
        owner = claims[-1].revision if claims else None
        theirs = {claim.endpoint for claim in claims if claim.revision == owner}
        for claim in claims:
            taker = owner if claim.revision != owner and claim.endpoint not in theirs else None
            if (taker or self.lost) and self._record_taker(claim, taker):
                changed.add(claim.revision)

    def _record_taker(self, claim: _Claim, taker: RevisionID | None) -> bool:
        """Record which other revision owns the pod of a claim; return whether that is news."""
        known = self.lost.get(claim.revision, {})
        if taker == known.get(claim.endpoint):
            return False
        if taker is not None:
            self.lost.setdefault(claim.revision, known)[claim.endpoint] = taker
        else:
            del known[claim.endpoint]
            if not known:
                del self.lost[claim.revision]
        return True


def _by_listing(listed: _ByProtocol) -> list[frozenset[Endpoint]]:
    """Return the endpoints of all protocols in the order of ``_Listing``."""
    return [
        _union([endpoints.ready for endpoints in listed.values()]),
        _union([endpoints.not_ready for endpoints in listed.values()]),
        _union([endpoints.terminating for endpoints in listed.values()]),
    ]


def _union(sets: list[frozenset[Endpoint]]) -> frozenset[Endpoint]:
    """Return all endpoints of several sets; without a copy if there is one set."""
    return sets[0] if len(sets) == 1 else frozenset[Endpoint]().union(*sets)


def _listing_of(endpoint: Endpoint, sets: list[frozenset[Endpoint]]) -> _Listing | None:
    """Return how an endpoint is listed; the first listing counts, and None is not at all."""
    for listing, endpoints in zip(_LISTINGS, sets, strict=True):
        if endpoint in endpoints:
            return listing
    return None


_NO_ENDPOINTS: Final = ListedEndpoints()


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of queued requests. Knative documents 10,000 per revision, and enforces no limit.

    Attributes:
        queue_depth, queue_bytes: of one revision; queue_depth_total, queue_bytes_total: of all.
        shed_early: whether to refuse a request at once if the expected wait exceeds its deadline.
    """

    queue_depth: int = 10_000
    queue_bytes: int = 64 << 20
    queue_depth_total: int = 100_000
    queue_bytes_total: int = 256 << 20
    shed_early: bool = False


class Throttler:
    """The throttlers of all revisions.

    Arguments:
        limits: limits of queued requests.
        random: returns random numbers in [0, 1).
        own_ip: this activator's address in the public Endpoints, to find its share of the pods.
        port: on which every activator listens for requests.
        borrow: whether to use pods beyond the activator's share before a request is queued.
        zone: the zone of this activator, see throttler.zones; empty for no preference.

    Attributes:
        total: the budget of all queued requests.
        deadlines: when the next tickets expire, and the next limits rise; then call ``run_due``.
    """

    def __init__(
        self,
        limits: Limits,
        random: Callable[[], float],
        own_ip: str = "",
        borrow: bool = True,
        port: int = 8012,
        zone: str = "",
    ) -> None:
        self.total = SharedBudget(limits.queue_depth_total, limits.queue_bytes_total)
        self.limits = limits
        self._random = random
        self._own_ip = own_ip
        self._borrow = borrow
        self._port = port
        self._zone = zone
        self._reach = DEFAULT_REACH
        self.deadlines = Deadlines()
        self._silence = Silence()
        self._revisions: dict[tuple[str, str, str], RevisionThrottler] = {}
        # Deleted revisions with requests left. They keep their name, in case the revision returns.
        self._deleted: dict[tuple[str, str, str], RevisionThrottler] = {}
        # The listed endpoints, also of revisions that are not known (yet).
        self._endpoints: dict[RevisionID, Mapping[AppProtocol, ListedEndpoints]] = {}
        self._owners = AddressOwners()
        self._services: dict[RevisionID, Mapping[AppProtocol, str]] = {}
        self._activators: dict[RevisionID, Mapping[AppProtocol, Collection[str]]] = {}

    # -- lookup ---------------------------------------------------------------------------------

    def find(
        self, namespace: str, name: str, kind: RevisionKind = RevisionKind.REVISION
    ) -> RevisionThrottler:
        """Return the throttler of a revision.

        Raises:
            RevisionNotFound: no such revision is known.
        """
        # A plain tuple equals the RevisionID with its fields, and is cheaper to make.
        throttler = self._revisions.get((namespace, name, kind))
        if throttler is None:
            raise RevisionNotFound(name, namespace, kind)
        return throttler

    def find_any(
        self, namespace: str, name: str, kind: RevisionKind = RevisionKind.REVISION
    ) -> RevisionThrottler:
        """Return the throttler of a revision that is known, or deleted with requests left.

        Raises:
            RevisionNotFound: there is no such revision.
        """
        deleted = self._deleted.get((namespace, name, kind))
        return self.find(namespace, name, kind) if deleted is None or deleted.idle else deleted

    def of(self, config: RevisionConfig) -> RevisionThrottler | None:
        """Return the throttler of a pod or a request, by its ``config``.

        Returns:
            None once the revision is deleted and has no request left: then all its pods are gone.
        """
        return self._get(config.revision.id)

    def kept(self, revision: RevisionID) -> int | None:
        """Return how many requests of a revision are at pods while another activator gets the rest.

        They have begun before. None while this activator passes none on.
        """
        throttler = self._get(revision)
        if throttler is None or not throttler.passes_on:
            return None
        return sum(pod.in_flight for pod in throttler.backends.pods.values())

    def _get(self, revision: RevisionID) -> RevisionThrottler | None:
        return self._revisions.get(revision) or self._deleted.get(revision)

    @property
    def has_revisions(self) -> bool:
        """Whether a revision of Knative is known; with plain Services alone O(Services)."""
        return any(kind is RevisionKind.REVISION for _, _, kind in self._revisions)

    def __iter__(self) -> Iterator[RevisionThrottler]:
        """Iterate over all revisions, with deleted ones that have requests left."""
        yield from self._revisions.values()
        yield from (left for left in self._deleted.values() if not left.idle)

    # -- inventory ------------------------------------------------------------------------------

    def set_revision(self, revision: Revision, now: float) -> Changes:
        """Add or update a revision; O(pods).

        A Revision with another uid is another revision of that name: queued requests stay, requests
        in flight finish.
        """
        throttler = self._revisions.get(revision.id) or self._deleted.pop(revision.id, None)
        if throttler is None:
            throttler = self._create(revision)
        throttler.deleted = False
        self._revisions[revision.id] = throttler
        changes = Changes()
        before = throttler.revision
        if (before.protocol, before.tls) != (revision.protocol, revision.tls):
            # First without pods: otherwise queued requests would go to pods of the former protocol.
            changes.add(throttler.set_endpoints(_NO_ENDPOINTS, now))
        changes.add(throttler.set_revision(revision, now))
        changes.add(self._update_reach(throttler, now))
        if joined := self._update_share(throttler, now):
            changes.add(joined)
        changes.add(throttler.set_service(self._service_of(revision), now))
        changes.add(self._apply_endpoints(throttler, now))
        return changes

    def delete_revision(self, revision: RevisionID) -> Changes:
        """Remove a revision, so that ``find`` raises. Its requests end as they would have."""
        throttler = self._revisions.pop(revision, None)
        if throttler is not None:
            throttler.deleted = True
            self._deleted[revision] = throttler
        return self._remove_idle()

    def set_endpoints(
        self, revision: RevisionID, endpoints: Mapping[AppProtocol, ListedEndpoints], now: float
    ) -> Changes:
        """Replace the endpoints of a private Endpoints object.

        The throttler keeps the endpoints of an unknown revision. An address that another revision
        has listed for another pod moves to this revision, see throttler.throttler.

        Arguments:
            endpoints: all endpoints by protocol; empty if the object is deleted.
        """
        others = self._owners.change(revision, self._endpoints.get(revision, {}), endpoints)
        if any(map(_count, endpoints.values())):
            self._endpoints[revision] = endpoints
        else:
            self._endpoints.pop(revision, None)
        changes = self._remove_idle()
        # First the revisions that lose a pod, so that a pod never belongs to two at a time.
        for each in (*(others - {revision}), revision):
            throttler = self._get(each)
            if throttler is not None:
                changes.add(self._apply_endpoints(throttler, now))
        return changes

    def set_activators(
        self, revision: RevisionID, addresses: Mapping[AppProtocol, Collection[str]], now: float
    ) -> Changes | None:
        """Replace the activators that a public Endpoints object lists.

        Arguments:
            addresses: addresses without port, by protocol; a mapping also has their zones.

        Returns:
            None while the revision is unknown or nothing changes for it.
        """
        if any(addresses.values()):
            self._activators[revision] = addresses
        else:
            self._activators.pop(revision, None)
        throttler = self._get(revision)
        return None if throttler is None else self._update_share(throttler, now)

    def set_service(
        self, revision: RevisionID, addresses: Mapping[AppProtocol, str], now: float
    ) -> Changes | None:
        """Replace the addresses of a revision's private Service.

        Arguments:
            addresses: ``ip:port`` by protocol; empty without a Service.

        Returns:
            None while the revision is unknown or nothing changes for it.
        """
        if addresses:
            self._services[revision] = addresses
        else:
            self._services.pop(revision, None)
        throttler = self._get(revision)
        if throttler is None:
            return None
        return throttler.set_service(self._service_of(throttler.revision), now)

    def set_mesh(self, mode: MeshMode, pod_addressability: bool, now: float) -> Changes:
        """Set how requests reach pods, for all revisions at once.

        Arguments:
            mode, pod_addressability: of the network ConfigMap, see throttler.model.
        """
        changes = Changes()
        self._reach = REACH[mode, pod_addressability]
        # Also a deleted one without requests: its Revision may return before it is removed.
        for throttler in (*self._revisions.values(), *self._deleted.values()):
            changes.add(self._update_reach(throttler, now))
        return changes

    # -- time -----------------------------------------------------------------------------------

    def run_due(self, now: float) -> Changes:
        """End tickets whose deadline has come, and raise the limits of slow starts that are due."""
        changes = Changes()
        for ticket in self.deadlines.passed(now):
            assert ticket.config is not None
            throttler = self.of(ticket.config)
            assert throttler is not None
            throttler.expire(ticket)
            changes.expired.append(ticket)
        for each in list(self.deadlines.slow_starts):
            if each.at is not None and each.at <= now:
                each.disarm()
                if (throttler := self._get(each.revision)) is not None:
                    changes.add(throttler.raise_limits(now))
        return changes

    def probe_silent_pods(self, now: float) -> Changes:
        """Return the silent pods to probe now; to be called each ``silence.SCAN_PERIOD``."""
        return Changes(probe=self._silence.scan(now))

    def retry_after(self) -> int:
        """Return the ``Retry-After`` for a client that names no known revision: whole seconds."""
        return retry_after(None, self._random())

    # -- inside ---------------------------------------------------------------------------------

    def _create(self, revision: Revision) -> RevisionThrottler:
        return RevisionThrottler(
            revision,
            QueueBudget(self.limits.queue_depth, self.limits.queue_bytes),
            self.total,
            self.deadlines,
            self._random,
            self._borrow,
            reach_of(revision, self._reach),
            self.limits.shed_early,
            self._silence,
            self._zone,
        )

    def _update_reach(self, throttler: RevisionThrottler, now: float) -> Changes:
        """Pass a revision where its requests may go, if that has changed."""
        reach = reach_of(throttler.revision, self._reach)
        return Changes() if reach == throttler.config.reach else throttler.set_reach(reach, now)

    def _service_of(self, revision: Revision) -> str:
        return self._services.get(revision.id, {}).get(revision.protocol, "")

    def _apply_endpoints(self, throttler: RevisionThrottler, now: float) -> Changes:
        """Pass a revision its endpoints, without addresses that moved to another revision."""
        revision, owners = throttler.revision, self._owners
        endpoints = self._endpoints.get(revision.id, {})
        listed = endpoints.get(revision.protocol, _NO_ENDPOINTS)
        # They are misnamed if none is under the port name of this protocol.
        misnamed = 0 if _count(listed) else sum(map(_count, endpoints.values()))
        throttler.backends.misnamed = misnamed
        kept = owners.kept(revision.id, listed)
        return throttler.set_endpoints(kept, now, owners.taken(revision.id, listed))

    def _update_share(self, throttler: RevisionThrottler, now: float) -> Changes | None:
        """Pass a revision this activator's position among its activators.

        While the list lacks this activator, the last known share stays (Knative: the same). Its
        address is removed, for example, while the revision serves without activators, or while
        this activator ends. A plain Service whose list is empty has no shares.
        """
        revision = throttler.revision
        addresses = self._activators.get(revision.id, {}).get(revision.protocol, ())
        share = infer_share(self._own_ip, addresses, self._port)
        if not (addresses or revision.behind_queue_proxy):
            share = ActivatorShare()
        if share is None:
            return None
        known = throttler.share
        if (share, share.addresses, share.zones) == (known, known.addresses, known.zones):
            return None
        return throttler.set_share(share, now)

    def _remove_idle(self) -> Changes:
        """Remove deleted revisions that have no request left, and their pods."""
        changes = Changes()
        for key in [key for key, left in self._deleted.items() if left.idle]:
            changes.add(self._deleted.pop(key).set_endpoints(_NO_ENDPOINTS, 0.0))
        return changes


def _count(listed: ListedEndpoints) -> int:
    return len(listed.ready) + len(listed.not_ready) + len(listed.terminating)
