"""Allots a port of the activators to each Service with route ``takeover``.

The allotment is stored in the Service's slice, so it survives restarts. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, final

from activator.scale.reasons import Finding, ScaleReason
from activator.scale.reports.load import ServiceName
from activator.scale.settings import DEFAULT_RANGE

#: Seconds for which only its last Service may get a released port. Proxies follow slices late, so
#: clients of that Service still connect to it, and each activator keeps it open for 10 s.
REST: Final = 15.0


class _Claim(NamedTuple):
    """A slice's claim to a port. Of two the least wins: the older, then the first by its text."""

    created: str
    text: str
    name: ServiceName


class _Free(NamedTuple):
    """A port that no slice stores: its last Service, and until when only that one may get it."""

    name: ServiceName | None
    until: float


@final
class Ports:
    """The ports of Services: each has one, has lost one, or lacks one. Times are monotonic seconds.

    Arguments:
        numbers: the range to allot from. A stored port outside it stays in use.
    """

    def __init__(self, numbers: range = DEFAULT_RANGE) -> None:
        self._numbers = numbers
        self._claims: dict[int, set[_Claim]] = {}
        self._of: dict[ServiceName, tuple[int, _Claim]] = {}
        # Ports without a claim, in the order of use: a port that was released last is used last.
        self._free: dict[int, _Free] = dict.fromkeys(numbers, _Free(None, float("-inf")))
        # What a user must know, and when a released port may be allotted to a Service without one.
        self._lost: dict[ServiceName, str] = {}
        self._lacking: dict[ServiceName, float] = {}

    def of(self, name: ServiceName) -> int | None:
        """Return the port of a Service; None if it has none, or if an older slice has it."""
        port, claim = self._of.get(name, (0, None))
        return port if claim is not None and min(self._claims[port]) == claim else None

    def put(self, name: ServiceName, created: str, port: int, now: float) -> Sequence[ServiceName]:
        """Record the port that a Service's slice stores.

        Arguments:
            created: ``creationTimestamp`` of the slice, in RFC 3339.

        Returns:
            The Services that get another port, since an older slice has this one.
        """
        self._claim(name, created, port, now)
        return self._note_conflict(port)

    def allot(self, name: ServiceName, now: float, created: str = "") -> int | None:
        """Return the port of a Service, a new one if it has none.

        Arguments:
            created: as for ``put``, of a slice that exists; empty before there is one.

        Returns:
            None if every port of the range is allotted, or was released a moment ago.
        """
        if (known := self.of(name)) is None:
            usable = (
                at for at, free in self._free.items() if free.until <= now or free.name == name
            )
            if (known := next(usable, None)) is None:
                until = min((free.until for free in self._free.values()), default=float("inf"))
                self._lacking[name] = until
                return None
            # Before its slice exists a claim is the youngest of all.
            self._claim(name, created or "~", known, now)
        self._lacking.pop(name, None)
        return known

    def release(self, name: ServiceName, now: float) -> Sequence[ServiceName]:
        """Release the port of a Service. Return the Services that lack one."""
        port, claim = self._of.pop(name, (0, None))
        if claim is not None:
            self._claims[port].discard(claim)
            if not self._claims[port]:
                del self._claims[port]
                if port in self._numbers:
                    self._free[port] = _Free(name, now + REST)
        return list(self._lacking)

    def lacks_until(self, name: ServiceName) -> float | None:
        """Return when a Service without a port may get one; None if it lacks none.

        The time is inf while no port of the range is released.
        """
        return self._lacking.get(name)

    # -- findings ----------------------------------------------------------------------------------

    def note_conflicts(self) -> None:
        """Record the Services that lose a port to the older slice of another one."""
        for port, claims in list(self._claims.items()):
            if len(claims) > 1:
                self._note_conflict(port)

    def remove_findings(self, name: ServiceName) -> None:
        """Remove the findings about a Service. Its port stays."""
        self._lost.pop(name, None)
        self._lacking.pop(name, None)

    def clear_findings(self) -> None:
        """Remove the findings about all Services. Their ports stay."""
        self._lost.clear()
        self._lacking.clear()

    def findings(self, name: ServiceName) -> list[Finding]:
        """Return the findings about the port of a Service."""
        found = []
        if name in self._lost:
            found.append(Finding(ScaleReason.PORT_CONFLICT, self._lost[name]))
        if name in self._lacking:
            numbers = self._numbers
            note = (
                f"all {len(numbers)} ports from {numbers.start} to {numbers.stop - 1} are "
                f"allotted; widen --takeover-ports, or use route shared"
            )
            found.append(Finding(ScaleReason.PORTS_EXHAUSTED, note))
        return found

    # -- inside ------------------------------------------------------------------------------------

    def _claim(self, name: ServiceName, created: str, port: int, now: float) -> None:
        known, claim = self._of.get(name, (0, None))
        if claim is not None and known == port:
            self._claims[port].discard(claim)
        else:
            self.release(name, now)
        claim = _Claim(created, f"{name.namespace}/{name.name}", name)
        self._claims.setdefault(port, set()).add(claim)
        self._of[name] = port, claim
        self._free.pop(port, None)

    def _note_conflict(self, port: int) -> Sequence[ServiceName]:
        """Record and return the Services that lose a port to the older slice of another one."""
        winner, *losers = sorted(self._claims[port])
        for loser in losers:
            self._lost[loser.name] = (
                f"the older takeover slice of Service {winner.text} has port {port}, "
                f"so this Service gets another one"
            )
        return [loser.name for loser in losers]
