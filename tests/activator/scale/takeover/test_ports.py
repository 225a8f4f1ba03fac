"""The ports of Services with route takeover: how each gets one, keeps it and loses it."""

from __future__ import annotations

import random
from math import inf

import pytest

from activator.scale.reasons import ScaleReason
from activator.scale.reports.load import ServiceName
from activator.scale.takeover.ports import REST, Ports
from tests.rows import in_one_test

#: Every port that was released at 0 may be allotted again.
NOW = REST

A, B, C, D, *_ = NAMES = [ServiceName("shop", letter) for letter in "abcdefgh"]


def reasons(ports: Ports, name: ServiceName) -> list[ScaleReason]:
    return [finding.reason for finding in ports.findings(name)]


def test_each_service_gets_a_port_and_keeps_it() -> None:
    ports = Ports(range(10, 20))
    assert [ports.allot(name, NOW) for name in (A, B, A)] == [10, 11, 10]


def test_a_restart_keeps_all_ports() -> None:
    ports = Ports(range(10, 13))
    ports.put(A, "2026", 11, 0)
    ports.put(B, "2026", 5000, 0)
    assert (ports.of(A), ports.of(B), ports.of(C)) == (11, 5000, None)
    assert [ports.allot(name, NOW) for name in (A, B, C, D)] == [11, 5000, 10, 12]


def test_a_released_port_is_used_last() -> None:
    ports = Ports(range(10, 13))
    ports.allot(A, NOW)
    ports.release(A, 0)
    assert [ports.allot(name, NOW) for name in (B, C, D)] == [11, 12, 10]


def test_an_exhausted_range_is_a_finding_that_says_what_to_do() -> None:
    ports = Ports(range(10, 12))
    ports.allot(A, NOW), ports.allot(B, NOW)
    assert ports.allot(C, NOW) is None
    [found] = ports.findings(C)
    assert found.reason is ScaleReason.PORTS_EXHAUSTED
    assert found.note.startswith("all 2 ports from 10 to 11 are allotted; widen")
    ports.release(A, 0)
    assert ports.allot(C, NOW) == 10
    assert ports.findings(C) == []


def test_a_released_port_rests_before_another_service_gets_it() -> None:
    ports = Ports(range(10, 12))
    ports.allot(A, 0), ports.allot(B, 0)
    ports.release(A, 100)
    assert ports.allot(C, 100 + REST - 0.1) is None
    assert ports.lacks_until(C) == 100 + REST
    assert ports.allot(A, 101) == 10
    ports.release(A, 102)
    assert ports.allot(C, 102 + REST) == 10


@pytest.mark.parametrize("order", [1, -1])
def test_of_two_slices_with_one_port_the_older_has_it(order: int) -> None:
    ports = Ports(range(10, 13))
    for name, created in [(A, "2026-02"), (B, "2026-01")][::order]:
        ports.put(name, created, 10, 0)
    assert (ports.of(B), ports.of(A)) == (10, None)
    assert ports.allot(A, NOW, "2026-02") == 11
    ports.clear_findings()
    ports.note_conflicts()
    assert ports.findings(A) == []


@in_one_test("seed", range(10))
def test_no_two_services_ever_have_one_port(seed: int) -> None:
    chance = random.Random(seed)
    ports = Ports(range(10, 16))
    for _ in range(500):
        name = chance.choice(NAMES)
        match chance.randrange(3):
            case 0:
                ports.release(name, 0)
            case 1:
                ports.put(name, str(chance.randrange(4)), chance.randrange(8, 18), 0)
            case _:
                assert ports.allot(name, NOW) == ports.of(name)
        used = [port for each in NAMES if (port := ports.of(each)) is not None]
        assert len(used) == len(set(used))
    for each in NAMES:
        ports.release(each, 0)
    assert sorted(ports.allot(each, NOW) or 0 for each in NAMES[:6]) == list(range(10, 16))


def test_of_slices_of_one_age_the_first_by_name_has_the_port() -> None:
    ports = Ports()
    first, second = ServiceName("a-b", "x"), ServiceName("a", "x")
    ports.put(second, "2026", 10_005, 0)
    assert ports.put(first, "2026", 10_005, 0) == [second]
    assert (ports.of(first), ports.of(second)) == (10_005, None)


def test_the_younger_of_two_slices_loses_the_port_until_that_is_settled() -> None:
    ports = Ports()
    assert ports.put(B, "2026-02-01T00:00:00Z", 10_000, now=0.0) == []
    assert ports.put(A, "2026-01-01T00:00:00Z", 10_000, now=0.0) == [B]
    assert (ports.of(A), ports.of(B)) == (10_000, None)
    assert ports.allot(B, 0.0, "2026-02-01T00:00:00Z") == 10_001
    assert reasons(ports, A) == []
    assert reasons(ports, B) == [ScaleReason.PORT_CONFLICT]
    ports.remove_findings(B)
    assert reasons(ports, B) == []
    assert ports.of(B) == 10_001


def test_a_new_leader_finds_the_conflicts_that_the_slices_store() -> None:
    ports = Ports()
    for name, created in ((A, "2026-01-01T00:00:00Z"), (B, "2026-02-01T00:00:00Z")):
        ports.put(name, created, 10_000, now=0.0)
    ports.clear_findings()
    assert reasons(ports, B) == []
    ports.note_conflicts()
    assert reasons(ports, B) == [ScaleReason.PORT_CONFLICT]


def test_a_service_lacks_a_port_until_one_is_released_and_has_rested() -> None:
    ports = Ports(range(10_000, 10_001))
    assert ports.allot(A, 0.0, "") == 10_000
    assert ports.allot(B, 0.0, "") is None
    assert reasons(ports, B) == [ScaleReason.PORTS_EXHAUSTED]
    assert ports.lacks_until(B) == inf
    assert ports.release(A, 1.0) == [B]
    assert ports.allot(B, 1.0, "") is None
    assert ports.lacks_until(B) == 1 + REST
    assert ports.allot(B, 1 + REST, "") == 10_000
    assert (ports.lacks_until(B), reasons(ports, B)) == (None, [])
