"""Decides which Service has an allotted port, if slices of several Services store it."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, NamedTuple, TypeVar

Name = TypeVar("Name", bound=Hashable)

#: ``creationTimestamp`` of the slice and ``namespace/name`` of its Service: the least one wins.
Age = tuple[str, str]


class _Claim(NamedTuple):
    age: Age
    port: int


class PortClaims(Generic[Name]):
    """The allotted ports of all Services."""

    def __init__(self) -> None:
        self._of: dict[Name, _Claim] = {}
        self._claims: dict[int, dict[Age, Name]] = {}

    def put(self, name: Name, age: Age, port: int) -> set[Name]:
        """Replace the claim of a Service; port 0 removes it.

        Returns:
            The other Services that claim the old or the new port.
        """
        old, new = self._of.get(name, _Claim(age, 0)), _Claim(age, port)
        if old == new:
            return set()
        if old.port:
            del self._of[name]
            self._claims[old.port].pop(old.age)
        if new.port:
            self._of[name] = new
            self._claims.setdefault(port, {})[age] = name
        others = {
            other for each in (old.port, port) for other in self._claims.get(each, {}).values()
        }
        if old.port and not self._claims[old.port]:
            del self._claims[old.port]
        return others - {name}

    def granted(self, name: Name) -> int:
        """Return the port of a Service; 0 if it has none, or if an older slice has it."""
        claim = self._of.get(name)
        return 0 if claim is None or self._winner(claim) != claim.age else claim.port

    def refused(self, name: Name) -> tuple[int, str]:
        """Return the port that an older slice has, and the Service of that slice; else 0."""
        claim = self._of.get(name)
        if claim is None or (winner := self._winner(claim)) == claim.age:
            return 0, ""
        return claim.port, winner[1]

    def _winner(self, claim: _Claim) -> Age:
        return min(self._claims[claim.port])
