"""Which Service has which port, and the findings of one that lost or lacks its port."""

from __future__ import annotations

from math import inf

from activator.scale.decisions.findings import Reason
from activator.scale.reports.load import Name
from activator.scale.takeover.port_shares import PortShares
from activator.scale.takeover.ports import REST, Ports

A, B = Name("shop", "a"), Name("shop", "b")


def reasons(shares: PortShares, name: Name) -> list[Reason]:
    return [finding.reason for finding in shares.findings(name)]


def test_the_younger_of_two_slices_loses_the_port_until_that_is_settled() -> None:
    shares = PortShares(Ports())
    assert shares.put(B, "2026-02-01T00:00:00Z", 10_000, now=0.0) == []
    assert shares.put(A, "2026-01-01T00:00:00Z", 10_000, now=0.0) == [B]
    assert (shares.of(A), shares.of(B)) == (10_000, None)
    assert shares.allot(B, 0.0, "2026-02-01T00:00:00Z") == 10_001
    assert reasons(shares, A) == []
    assert reasons(shares, B) == [Reason.PORT_CONFLICT]
    shares.remove_findings(B)
    assert reasons(shares, B) == []
    assert shares.of(B) == 10_001


def test_a_new_leader_finds_the_conflicts_that_the_slices_store() -> None:
    shares = PortShares(Ports())
    for name, created in ((A, "2026-01-01T00:00:00Z"), (B, "2026-02-01T00:00:00Z")):
        shares.put(name, created, 10_000, now=0.0)
    shares.clear_findings()
    assert reasons(shares, B) == []
    shares.note_conflicts()
    assert reasons(shares, B) == [Reason.PORT_CONFLICT]


def test_a_service_lacks_a_port_until_one_is_released_and_has_rested() -> None:
    shares = PortShares(Ports(range(10_000, 10_001)))
    assert shares.allot(A, 0.0, "") == 10_000
    assert shares.allot(B, 0.0, "") is None
    assert reasons(shares, B) == [Reason.PORTS_EXHAUSTED]
    assert shares.lacks_until(B) == inf
    assert shares.release(A, 1.0) == [B]
    assert shares.allot(B, 1.0, "") is None
    assert shares.lacks_until(B) == 1 + REST
    assert shares.allot(B, 1 + REST, "") == 10_000
    assert (shares.lacks_until(B), reasons(shares, B)) == (None, [])
