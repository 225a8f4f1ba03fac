"""Allots a port of the activators to each Service with route ``takeover``.

The allotment is stored in the Service's slice, so it survives restarts. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, final

from activator.scale.settings import DEFAULT_RANGE


class Claim(NamedTuple):
    """A slice's claim to a port. Of two the least wins: the older, then the first by name.

    Attributes:
        created: ``creationTimestamp`` of the slice, in RFC 3339.
        service: ``namespace/name`` of the Service.
    """

    created: str
    service: str


class PortsExhausted(Exception):
    """Every port of the range is allotted; the text says how to get more."""


@final
class Ports:
    """The allotted ports.

    Arguments:
        numbers: the range to allot from. A stored port outside it stays in use.
    """

    def __init__(self, numbers: range = DEFAULT_RANGE) -> None:
        self._numbers = numbers
        self._claims: dict[int, set[Claim]] = {}
        self._of: dict[str, tuple[int, Claim]] = {}
        # In the order of use: a port that was released last is used last.
        self._free: dict[int, None] = dict.fromkeys(numbers)

    def put(self, claim: Claim, port: int) -> None:
        """Record the port that a slice has stored."""
        self.remove(claim.service)
        self._claims.setdefault(port, set()).add(claim)
        self._of[claim.service] = port, claim

    def remove(self, service: str) -> None:
        """Release the port of a Service; an unknown Service is no error."""
        port, claim = self._of.pop(service, (0, None))
        if claim is not None:
            self._claims[port].discard(claim)
            if not self._claims[port]:
                del self._claims[port]
                if port in self._numbers:
                    self._free[port] = None

    def of(self, service: str) -> int | None:
        """Return the port of a Service; None if it has none, or if an older slice has it."""
        port, claim = self._of.get(service, (0, None))
        return port if claim is not None and min(self._claims[port]) == claim else None

    def claims(self, port: int) -> Sequence[Claim]:
        """Return the claims to a port, the one that wins first."""
        return sorted(self._claims.get(port, ()))

    def conflicts(self) -> Mapping[str, str]:
        """Return the Services whose port an older slice has, each with that other Service."""
        return {
            service: min(self._claims[port]).service
            for service, (port, claim) in self._of.items()
            if min(self._claims[port]) != claim
        }

    def allot(self, service: str, created: str = "") -> int:
        """Return the port of a Service; a new one if it has none of its own.

        Arguments:
            created: as for ``Claim``, of a slice that exists; empty before there is one.

        Raises:
            PortsExhausted: every port of the range is allotted.
        """
        if (known := self.of(service)) is not None:
            return known
        self.remove(service)
        while self._free:
            port = next(iter(self._free))
            del self._free[port]
            if port not in self._claims:
                # Before its slice exists a claim is the youngest of all.
                self.put(Claim(created or "~", service), port)
                return port
        numbers = self._numbers
        raise PortsExhausted(
            f"all {len(numbers)} ports from {numbers.start} to {numbers.stop - 1} are allotted; "
            f"widen --takeover-ports, or use route shared"
        )

    def restore(self, claims: Iterable[tuple[Claim, int]]) -> None:
        """Record the ports of all slices, as after a start."""
        for claim, port in claims:
            self.put(claim, port)
