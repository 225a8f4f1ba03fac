"""Allots a port of the activators to each Service with route ``takeover``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, final

from activator.scale.reasons import Finding, ScaleReason
from activator.scale.reports.load import Name
from activator.scale.settings import DEFAULT_RANGE

#: Seconds for which only its last Service may get a released port. Proxies follow slices late, so
#: clients of that Service still connect to it, and each activator keeps it open for 10 s.
REST: Final = 15.0


class PortClaim(NamedTuple):
    """A slice's claim to a port. Of two the least wins: the older, then the first by name.

    Attributes:
        created: ``creationTimestamp`` of the slice, in RFC 3339.
        service: ``namespace/name`` of the Service.
    """

    created: str
    service: str


class _Free(NamedTuple):
    """A port that no slice stores: its last Service, and until when only that one may get it."""

    service: str
    until: float


class PortsExhausted(Exception):
    """Every port of the range is allotted; the text says how to get more.

    Attributes:
        until: when a released port may be allotted again, in seconds; inf if none is released.
    """

    def __init__(self, text: str, until: float) -> None:
        super().__init__(text)
        self.until = until


@final
class Ports:
    """The allotted ports. Times are seconds, monotonic.

    Arguments:
        numbers: the range to allot from. A stored port outside it stays in use.
    """

    def __init__(self, numbers: range = DEFAULT_RANGE) -> None:
        self._numbers = numbers
        self._claims: dict[int, set[PortClaim]] = {}
        self._of: dict[str, tuple[int, PortClaim]] = {}
        # Ports without a claim, in the order of use: a port that was released last is used last.
        self._free: dict[int, _Free] = dict.fromkeys(numbers, _Free("", float("-inf")))

    def put(self, claim: PortClaim, port: int, now: float) -> None:
        """Record the port that a slice has stored."""
        if port == self._of.get(claim.service, (0,))[0]:
            self._claims[port].discard(self._of[claim.service][1])
        else:
            self.remove(claim.service, now)
        self._claims.setdefault(port, set()).add(claim)
        self._of[claim.service] = port, claim
        self._free.pop(port, None)

    def remove(self, service: str, now: float) -> None:
        """Release the port of a Service; an unknown Service is no error."""
        port, claim = self._of.pop(service, (0, None))
        if claim is not None:
            self._claims[port].discard(claim)
            if not self._claims[port]:
                del self._claims[port]
                if port in self._numbers:
                    self._free[port] = _Free(service, now + REST)

    def of(self, service: str) -> int | None:
        """Return the port of a Service; None if it has none, or if an older slice has it."""
        port, claim = self._of.get(service, (0, None))
        return port if claim is not None and min(self._claims[port]) == claim else None

    def claims(self, port: int) -> Sequence[PortClaim]:
        """Return the claims to a port, the one that wins first."""
        return sorted(self._claims.get(port, ()))

    def contested(self) -> Sequence[int]:
        """Return the ports that slices of several Services store."""
        return [port for port, claims in self._claims.items() if len(claims) > 1]

    def allot(self, service: str, now: float, created: str = "") -> int:
        """Return the port of a Service; a new one if it has none of its own.

        Arguments:
            created: as for ``Claim``, of a slice that exists; empty before there is one.

        Raises:
            PortsExhausted: every port of the range is allotted, or was released a moment ago.
        """
        if (known := self.of(service)) is not None:
            return known
        port = self._usable(service, now)
        self.remove(service, now)
        # Before its slice exists a claim is the youngest of all.
        self.put(PortClaim(created or "~", service), port, now)
        return port

    def _usable(self, service: str, now: float) -> int:
        """Return a port that a Service may get; without a rest that is the first one."""
        for port, free in self._free.items():
            if free.until <= now or free.service == service:
                return port
        numbers = self._numbers
        raise PortsExhausted(
            f"all {len(numbers)} ports from {numbers.start} to {numbers.stop - 1} are allotted; "
            f"widen --takeover-ports, or use route shared",
            min((free.until for free in self._free.values()), default=float("inf")),
        )


@final
class PortShares:
    """The ports of Services. Times are seconds, monotonic.

    Arguments:
        ports: allots the numbers.
    """

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._lost: dict[Name, str] = {}
        self._lacking: dict[Name, PortsExhausted] = {}

    def of(self, name: Name) -> int | None:
        """Return the port that is allotted to a Service; None if it has none."""
        return self._ports.of(_text(name))

    def put(self, name: Name, created: str, port: int, now: float) -> Sequence[Name]:
        """Record the port that a Service's slice stores.

        Arguments:
            created: as for ``Claim``.

        Returns:
            The Services that get another port, since an older slice has this one.
        """
        self._ports.put(PortClaim(created, _text(name)), port, now)
        return self._note_conflict(port)

    def note_conflicts(self) -> None:
        """Record the Services that lose a port to the older slice of another one."""
        for port in self._ports.contested():
            self._note_conflict(port)

    def allot(self, name: Name, now: float, created: str) -> int | None:
        """Return the port of a Service, a new one if it has none; None if there is none to allot.

        Arguments:
            created: as for ``Claim``, of a slice that exists; empty before there is one.
        """
        try:
            port = self._ports.allot(_text(name), now, created)
        except PortsExhausted as error:
            self._lacking[name] = error
            return None
        self._lacking.pop(name, None)
        return port

    def lacks_until(self, name: Name) -> float | None:
        """Return when a Service without a port may get one; None if it lacks none.

        The time is inf while no port of the range is released.
        """
        lacking = self._lacking.get(name)
        return lacking.until if lacking is not None else None

    def release(self, name: Name, now: float) -> Sequence[Name]:
        """Release the port of a Service. Return the Services that lack one."""
        self._ports.remove(_text(name), now)
        return list(self._lacking)

    def remove_findings(self, name: Name) -> None:
        """Remove the findings about a Service. Its port stays."""
        self._lost.pop(name, None)
        self._lacking.pop(name, None)

    def clear_findings(self) -> None:
        """Remove the findings about all Services. Their ports stay."""
        self._lost.clear()
        self._lacking.clear()

    def findings(self, name: Name) -> list[Finding]:
        """Return the findings about the port of a Service."""
        found = []
        if name in self._lost:
            found.append(Finding(ScaleReason.PORT_CONFLICT, self._lost[name]))
        if name in self._lacking:
            found.append(Finding(ScaleReason.PORTS_EXHAUSTED, str(self._lacking[name])))
        return found

    def _note_conflict(self, port: int) -> Sequence[Name]:
        """Record and return the Services that lose a port to the older slice of another one."""
        winner, *losers = self._ports.claims(port)
        names = [Name(*loser.service.split("/", 1)) for loser in losers]
        for name in names:
            self._lost[name] = (
                f"the older takeover slice of Service {winner.service} has port {port}, "
                f"so this Service gets another one"
            )
        return names


def _text(name: Name) -> str:
    return f"{name.namespace}/{name.name}"
