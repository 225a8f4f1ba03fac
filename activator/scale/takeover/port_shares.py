"""The ports of Services with route ``takeover``: each has one, has lost one, or lacks one.

Pure. ``ports`` allots the numbers; this module keeps the reasons that users must know.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from activator.scale.decisions.findings import Finding, Reason
from activator.scale.reports.load import Name
from activator.scale.takeover.ports import Claim, Ports, PortsExhausted


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
        self._ports.put(Claim(created, _text(name)), port, now)
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
            found.append(Finding(Reason.PORT_CONFLICT, self._lost[name]))
        if name in self._lacking:
            found.append(Finding(Reason.PORTS_EXHAUSTED, str(self._lacking[name])))
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
