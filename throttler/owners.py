"""Whose an address is, over all revisions: Kubernetes gives one to another pod within seconds.

Until the object of the revision that had it before says so too, its requests would reach a
stranger, and no probe can tell: each queue-proxy answers alike. So whoever lists an address last
has it. Pure. Knative has no counterpart; kube-proxy's is kubernetes/kubernetes#135593.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import NamedTuple

from throttler.model import AppProtocol, Dest, Dests, RevisionID

_Listed = Mapping[AppProtocol, Dests]


class _Claim(NamedTuple):
    revision: RevisionID
    dest: Dest


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
        self._lost: dict[RevisionID, dict[Dest, RevisionID]] = {}

    def change(self, revision: RevisionID, before: _Listed, after: _Listed) -> set[RevisionID]:
        """Take what a revision listed until now and what it lists from now on.

        News of an address is that it is listed, or listed otherwise (ready, not ready). A list
        that repeats an address says nothing new of it: the object may be older than the other's.

        Returns:
            The revisions whose pods are others by that; the one that changed may be among them.
        """
        old, new = _by_dest(before), _by_dest(after)
        changed: set[RevisionID] = set()
        for dest in old.keys() - new.keys():
            self._drop(_Claim(revision, dest))
            self._settle(dest.address, changed)
        for dest, ready in new.items():
            if old.get(dest) is not ready:
                claim = _Claim(revision, dest)
                self._drop(claim)
                self._claims[dest.address] = (*self._claims.get(dest.address, ()), claim)
                self._settle(dest.address, changed)
        return changed

    def kept(self, revision: RevisionID, listed: Dests) -> Dests:
        """Return what a revision lists without what another has by now."""
        lost = self._lost.get(revision)
        if not lost:
            return listed
        return Dests(listed.ready.difference(lost), listed.not_ready.difference(lost))

    def taken(self, revision: RevisionID, listed: Dests) -> dict[Dest, Taken]:
        """Return the rest: what of it another has, and who that is."""
        lost = self._lost.get(revision, {})
        both = listed.ready | listed.not_ready
        return {
            dest: Taken(owner, dest in listed.ready) for dest, owner in lost.items() if dest in both
        }

    def _drop(self, claim: _Claim) -> None:
        claims = self._claims.get(claim.dest.address, ())
        if claim not in claims:
            return
        if left := tuple(other for other in claims if other != claim):
            self._claims[claim.dest.address] = left
        else:
            del self._claims[claim.dest.address]
        self._mark(claim, None)

    def _settle(self, address: str, changed: set[RevisionID]) -> None:
        """Find whose the address is now: whoever lists the newest claim's pod, too, keeps it."""
        claims = self._claims.get(address, ())
        if len(claims) < 2 and not self._lost:
            return
        # Where neither says a uid the address alone is the pod, and both have it: two revisions
        # of a laptop, with one server.
        owner = claims[-1].revision if claims else None
        theirs = {claim.dest for claim in claims if claim.revision == owner}
        for claim in claims:
            taker = owner if claim.revision != owner and claim.dest not in theirs else None
            if (taker or self._lost) and self._mark(claim, taker):
                changed.add(claim.revision)

    def _mark(self, claim: _Claim, taker: RevisionID | None) -> bool:
        """Record who has the claim's pod by now, if another; return whether that is new."""
        known = self._lost.get(claim.revision, {})
        if taker == known.get(claim.dest):
            return False
        if taker is not None:
            self._lost.setdefault(claim.revision, known)[claim.dest] = taker
        else:
            del known[claim.dest]
            if not known:
                del self._lost[claim.revision]
        return True


def _by_dest(listed: _Listed) -> dict[Dest, bool]:
    """Return whether each pod is ready, for any protocol."""
    found = dict.fromkeys(chain(*(dests.not_ready for dests in listed.values())), False)
    found.update(dict.fromkeys(chain(*(dests.ready for dests in listed.values())), True))
    return found
