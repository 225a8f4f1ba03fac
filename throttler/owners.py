"""Whose an address is, over all revisions: Kubernetes gives one to another pod within seconds.

Until the object of the revision that had it before says so too, its requests would reach a
stranger, and no probe can tell: each queue-proxy answers alike. So whoever lists an address last
has it. Pure. Knative has no counterpart; kube-proxy's is kubernetes/kubernetes#135593.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import NamedTuple

from throttler.model import AppProtocol, Endpoint, ListedEndpoints, RevisionID

_Listed = Mapping[AppProtocol, ListedEndpoints]


class _Claim(NamedTuple):
    revision: RevisionID
    endpoint: Endpoint


class Taken(NamedTuple):
    """What another revision has by now.

    Attributes:
        by: that revision; ready: what the object of the one that lost it says of it still.
    """

    by: RevisionID
    ready: bool


class Owners:
    """Who lists which address, the newest last. Nothing is kept of what nobody lists."""

    __slots__ = ("_claims", "_lost")

    def __init__(self) -> None:
        self._claims: dict[str, tuple[_Claim, ...]] = {}
        # What another has by now; few revisions are in here at any time.
        self._lost: dict[RevisionID, dict[Endpoint, RevisionID]] = {}

    def change(self, revision: RevisionID, before: _Listed, after: _Listed) -> set[RevisionID]:
        """Take what a revision listed until now and what it lists from now on.

        News of an address is that it is listed, or listed otherwise (ready, not ready). A list
        that repeats an address says nothing new of it: the object may be older than the other's.

        Returns:
            The revisions whose pods are others by that; the one that changed may be among them.
        """
        old, new = _by_endpoint(before), _by_endpoint(after)
        changed: set[RevisionID] = set()
        for endpoint in old.keys() - new.keys():
            self._remove(_Claim(revision, endpoint))
            self._find_owner(endpoint.address, changed)
        for endpoint, ready in new.items():
            if old.get(endpoint) is not ready:
                claim = _Claim(revision, endpoint)
                self._remove(claim)
                self._claims[endpoint.address] = (*self._claims.get(endpoint.address, ()), claim)
                self._find_owner(endpoint.address, changed)
        return changed

    def kept(self, revision: RevisionID, listed: ListedEndpoints) -> ListedEndpoints:
        """Return what a revision lists without what another has by now."""
        lost = self._lost.get(revision)
        if not lost:
            return listed
        return ListedEndpoints(listed.ready.difference(lost), listed.not_ready.difference(lost))

    def taken(self, revision: RevisionID, listed: ListedEndpoints) -> dict[Endpoint, Taken]:
        """Return the rest: what of it another has, and who that is."""
        lost = self._lost.get(revision, {})
        both = listed.ready | listed.not_ready
        return {
            endpoint: Taken(owner, endpoint in listed.ready)
            for endpoint, owner in lost.items()
            if endpoint in both
        }

    def _remove(self, claim: _Claim) -> None:
        claims = self._claims.get(claim.endpoint.address, ())
        if claim not in claims:
            return
        if left := tuple(other for other in claims if other != claim):
            self._claims[claim.endpoint.address] = left
        else:
            del self._claims[claim.endpoint.address]
        self._record_taker(claim, None)

    def _find_owner(self, address: str, changed: set[RevisionID]) -> None:
        """Find whose the address is now: whoever lists the newest claim's pod, too, keeps it."""
        claims = self._claims.get(address, ())
        if len(claims) < 2 and not self._lost:
            return
        # Where neither says a uid the address alone is the pod, and both have it: two revisions
        # of a laptop, with one server.
        owner = claims[-1].revision if claims else None
        theirs = {claim.endpoint for claim in claims if claim.revision == owner}
        for claim in claims:
            taker = owner if claim.revision != owner and claim.endpoint not in theirs else None
            if (taker or self._lost) and self._record_taker(claim, taker):
                changed.add(claim.revision)

    def _record_taker(self, claim: _Claim, taker: RevisionID | None) -> bool:
        """Record who has the claim's pod by now, if another; return whether that is new."""
        known = self._lost.get(claim.revision, {})
        if taker == known.get(claim.endpoint):
            return False
        if taker is not None:
            self._lost.setdefault(claim.revision, known)[claim.endpoint] = taker
        else:
            del known[claim.endpoint]
            if not known:
                del self._lost[claim.revision]
        return True


def _by_endpoint(listed: _Listed) -> dict[Endpoint, bool]:
    """Return whether each pod is ready, for any protocol."""
    found = dict.fromkeys(chain(*(endpoints.not_ready for endpoints in listed.values())), False)
    found.update(dict.fromkeys(chain(*(endpoints.ready for endpoints in listed.values())), True))
    return found
