"""Keeps what is known of one takeover slice: the object, the write under way, and failures.

Pure. The record exists from the time at which a Service needs the slice, or the slice is seen.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, final

from activator.scale.decisions.findings import Finding, Reason
from activator.scale.reports.load import Name
from activator.scale.takeover.slice_requests import Outcome, finding
from activator.scale.takeover.slices import Family, Stored, slice_name

#: Seconds until a failed write is repeated: the first time, and at most.
FIRST_RETRY: Final = 0.5
LAST_RETRY: Final = 60.0
#: Changes by other components within ``CONTEST`` seconds that make a slice contested.
MOST_EDITS: Final = 5
CONTEST: Final = 60.0
#: Seconds after which an API server certainly does not carry out a request whose response was
#: lost (``--request-timeout`` of kube-apiserver).
DOUBT: Final = 60.0
#: Seconds until a contested slice is written again, by the number of its changes. A Service without
#: a pod is unreachable that long, so the first pauses are short. One that lasts must cost little.
CONTESTED_PAUSES: Final = ((15, 10.0), (10, 3.0), (MOST_EDITS, 0.8))
_MOST_KEPT: Final = CONTESTED_PAUSES[0][0]


class Holder(Enum):
    """What the API server has under the name of the slice.

    ABSENT: nothing. SCALER: a slice of the scaler. FOREIGN: a slice of another component. STALE:
    one of Kubernetes, which no controller updates.
    """

    ABSENT = "absent"
    SCALER = "scaler"
    FOREIGN = "foreign"
    STALE = "stale"


@final
class SliceRecord:
    """One slice.

    Arguments:
        owner: the Service that the name belongs to.
        holder: as far as known.

    Attributes:
        seen: the object; None if it does not exist.
        listed: since when it has listed each of its addresses.
        writes: whether a request is under way.
        not_before: when it may be written again.
    """

    __slots__ = (
        "_doubt_until",
        "_edits",
        "_failures",
        "_finding",
        "family",
        "holder",
        "listed",
        "not_before",
        "owner",
        "seen",
        "writes",
    )

    def __init__(self, owner: Name, family: Family, holder: Holder = Holder.ABSENT) -> None:
        self.owner = owner
        self.family = family
        self.holder = holder
        self.seen: Stored | None = None
        self.listed: dict[str, float] = {}
        self.writes = False
        self.not_before = float("-inf")
        self._doubt_until = float("-inf")
        self._failures = 0
        self._edits: tuple[float, ...] = ()
        self._finding: Finding | None = None

    def begin(self) -> None:
        """Begin to write: the changes so far are the ones of the last leader."""
        self._edits, self.not_before = (), float("-inf")

    def observe(self, seen: Stored, now: float, *, is_own: bool) -> bool:
        """Record the object.

        Arguments:
            now: seconds, monotonic.
            is_own: whether the scaler has made it.

        Returns:
            False for an older version than the known one: the watch is behind.
        """
        before = self.seen
        if before is not None and _is_older(seen, before):
            return False
        if before is None or before.version != seen.version:
            # A request for an earlier version now fails.
            self._failures, self.not_before, self._doubt_until = 0, float("-inf"), float("-inf")
            if before is not None and before.content != seen.content and not self.writes:
                self._edited(now)
        self.seen = seen
        self.holder = Holder.SCALER if is_own else Holder.FOREIGN
        addresses = seen.addresses if is_own else ()
        self.listed = {ip: self.listed.get(ip, now) for ip in addresses}
        return True

    def gone(self, now: float) -> None:
        """Record that the object does not exist."""
        if self.holder is Holder.STALE:  # until the watch confirms it
            self._pause(now)
            return
        if self.seen is not None and not self.writes:
            self._edited(now)
        self.seen, self.holder, self.listed = None, Holder.ABSENT, {}

    def succeeded(self, sent: int | None, now: float) -> None:
        """Record the end of a successful write, after the object of the response.

        Arguments:
            sent: ``Stored.content`` of the object that was sent; None after a deletion.
        """
        self._finding = None
        self._edits = tuple(at for at in self._edits if now - at < CONTEST)
        if sent is not None and (self.seen is None or self.seen.content != sent):
            self._edited(now)  # something between has changed it
            self._pause(now)

    def failed(self, outcome: Outcome, status: int, message: str, now: float) -> None:
        """Record a failed write; it is repeated after a pause, or when the object changes."""
        self._finding = finding(outcome, status, message)
        if outcome is Outcome.UNAVAILABLE:
            self._doubt_until = now + DOUBT
        self._pause(now)

    def is_certain(self, now: float) -> bool:
        """Return whether the object stays as it is known: no request may still change it."""
        return not self.writes and now >= self._doubt_until

    def findings(self) -> list[Finding]:
        """Return what a user must know of the slice."""
        name = slice_name(self.owner.name, self.family)
        if self.holder is Holder.FOREIGN:
            note = (
                f"EndpointSlice {name} belongs to another component, and the Service's route needs "
                f"the name; delete it, or use route shared"
            )
            return [Finding(Reason.SLICE_NAME_TAKEN, note)]
        found = [self._finding] if self._finding else []
        if len(self._edits) >= MOST_EDITS:
            note = (
                f"another component keeps changing EndpointSlice {name}; find its name with: "
                f"kubectl get endpointslice {name} -o yaml --show-managed-fields"
            )
            found.append(Finding(Reason.SLICE_CONTESTED, note))
        return found

    def _pause(self, now: float) -> None:
        pause = min(FIRST_RETRY * 2**self._failures, LAST_RETRY)
        self._failures = min(self._failures + 1, 10)
        self.not_before = max(self.not_before, now + pause)

    def _edited(self, now: float) -> None:
        recent = [at for at in self._edits if now - at < CONTEST]
        self._edits = (*recent[1 - _MOST_KEPT :], now)
        for count, pause in CONTESTED_PAUSES:
            if len(self._edits) >= count:
                self.not_before = now + pause
                return


def _is_older(seen: Stored, known: Stored) -> bool:
    """Return whether an object is an older version of the known one.

    Versions of one object can be compared as numbers (KEP-5504); other texts count as newer.
    """
    versions = seen.version, known.version
    if seen.uid != known.uid or not all(text.isascii() and text.isdigit() for text in versions):
        return False
    return int(versions[0]) < int(versions[1])
