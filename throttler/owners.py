"""Which revision owns an address that two revisions list.

Kubernetes gives an address to another pod within seconds. Until the former revision's object shows
that, its requests would reach a pod of another revision. No probe detects this, since each
queue-proxy responds alike. So the revision that listed an address last owns it. Pure. Knative has
no counterpart; kube-proxy's is kubernetes/kubernetes#135593.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

from throttler.model import AppProtocol, Endpoint, ListedEndpoints, RevisionID

_Listed = Mapping[AppProtocol, ListedEndpoints]


class _Listing(Enum):
    """The set of a ListedEndpoints that has an endpoint."""

    READY = "ready"
    NOT_READY = "not-ready"
    TERMINATING = "terminating"


_LISTINGS: Final = tuple(_Listing)


class _Claim(NamedTuple):
    revision: RevisionID
    endpoint: Endpoint


class Taken(NamedTuple):
    """The new owner of an address that moved.

    Attributes:
        by: the revision that owns the address; ready: whether the former owner's object lists it as
            ready.
    """

    by: RevisionID
    ready: bool


class AddressOwners:
    """The revisions that list each address, the newest last; no other address is here."""

    __slots__ = ("claims", "lost")

    def __init__(self) -> None:
        self.claims: dict[str, tuple[_Claim, ...]] = {}
        # The addresses that each revision lost, with the new owner; usually few.
        self.lost: dict[RevisionID, dict[Endpoint, RevisionID]] = {}

    def change(self, revision: RevisionID, before: _Listed, after: _Listed) -> set[RevisionID]:
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


def _by_listing(listed: _Listed) -> list[frozenset[Endpoint]]:
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
