"""The leader, through expiry, release, conflicts and clocks that differ."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from activator.objects.fields import ManifestError
from activator.scale.election import (
    DURATION,
    HEAD_START,
    RENEW_DEADLINE,
    RETRY,
    Election,
    Lease,
    LeaseAction,
    parse_lease,
)
from tests.rows import in_one_test

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Server:
    """The API server's Lease: writes with an old version are refused."""

    def __init__(self) -> None:
        self.obj: Any = None
        self.version = 0

    def write(self, obj: Any) -> Lease | None:
        current = self.obj["metadata"]["resourceVersion"] if self.obj else None
        if obj["metadata"].get("resourceVersion") != current:
            return None
        self.version += 1
        self.obj = {**obj, "metadata": obj["metadata"] | {"resourceVersion": str(self.version)}}
        return self.read()

    def read(self) -> Lease | None:
        return parse_lease(self.obj) if self.obj else None


def step(election: Election, server: Server, now: float) -> LeaseAction:
    """Have a candidate read the lease and do what it decides."""
    election.observe(server.read(), now)
    action = election.action(now)
    if action is not LeaseAction.WAIT:
        lease = server.write(election.body("sys", "scale", NOON + timedelta(seconds=now)))
        if lease is not None:
            election.written(lease, now)
    return action


def until(candidate: Election, server: Server, begin: float, end: float) -> LeaseAction:
    """Step each second; return the last action."""
    return [step(candidate, server, now) for now in range(round(begin), round(end) + 1)][-1]


def test_the_first_candidate_leads_and_renews() -> None:
    server, a, b = Server(), Election("a"), Election("b")
    assert step(a, server, 0) is LeaseAction.CREATE
    assert step(b, server, 1) is LeaseAction.WAIT
    assert step(a, server, 2) is LeaseAction.RENEW
    assert (a.is_leader(2), b.is_leader(2)) == (True, False)
    assert server.obj["spec"] == {
        "holderIdentity": "a",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-01-01T12:00:00.000000Z",
        "renewTime": "2026-01-01T12:00:02.000000Z",
        "leaseTransitions": 0,
    }


def test_a_lease_that_is_not_renewed_is_taken_after_its_duration() -> None:
    server, a, b = Server(), Election("a"), Election("b")
    step(a, server, 0)
    # Observed for the first time: it counts from now.
    assert until(b, server, 100, 99 + DURATION) is LeaseAction.WAIT
    assert step(b, server, 100 + DURATION) is LeaseAction.TAKE
    assert b.is_leader(100 + DURATION)
    assert server.obj["spec"]["leaseTransitions"] == 1


def test_the_holder_renews_first_when_the_server_is_back() -> None:
    server, a, b = Server(), Election("a"), Election("b")
    step(a, server, 0)
    until(b, server, 0, 4)
    back = 4 + 2 * DURATION  # no request succeeded meanwhile
    assert until(b, server, back, back + HEAD_START - 1) is LeaseAction.WAIT
    assert step(a, server, back + HEAD_START - 1) is LeaseAction.RENEW
    assert until(b, server, back + HEAD_START, back + HEAD_START + DURATION - 2) is LeaseAction.WAIT


def test_a_holder_that_does_not_come_back_is_replaced() -> None:
    server, a, b = Server(), Election("a"), Election("b")
    step(a, server, 0)
    until(b, server, 0, 4)
    back = 4 + 2 * DURATION
    assert until(b, server, back, back + HEAD_START) is LeaseAction.TAKE


def test_a_released_lease_is_taken_at_once() -> None:
    server, a, b = Server(), Election("a"), Election("b")
    step(a, server, 0)
    server.write(a.body("sys", "scale", NOON, releases=True))
    assert server.obj["spec"]["leaseDurationSeconds"] > 0
    assert step(b, server, 1) is LeaseAction.TAKE
    assert b.is_leader(1)


def test_of_two_that_take_it_at_once_one_leads() -> None:
    server, a, b = Server(), Election("a"), Election("b")
    for each in (a, b):
        each.observe(server.read(), 0)
    bodies = [each.body("sys", "scale", NOON) for each in (a, b)]
    leases = [server.write(body) for body in bodies]
    assert [lease and lease.holder for lease in leases] == ["a", None]


def test_a_leader_that_cannot_renew_stops_before_another_may_begin() -> None:
    server, a = Server(), Election("a")
    step(a, server, 0)
    assert a.is_leader(RENEW_DEADLINE - 0.1)
    assert not a.is_leader(RENEW_DEADLINE)
    assert RENEW_DEADLINE < DURATION


def test_a_leader_whose_lease_was_taken_does_not_lead() -> None:
    server, a, b = Server(), Election("a"), Election("b")
    step(a, server, 0)
    until(b, server, 1, 1 + DURATION)
    assert b.is_leader(1 + DURATION)
    assert step(a, server, 2 + DURATION) is LeaseAction.WAIT
    assert not a.is_leader(2 + DURATION)


@pytest.mark.parametrize("spec", ["x", {"holderIdentity": 5}, {"leaseTransitions": -1}])
def test_a_broken_lease_is_an_error(spec: Any) -> None:
    with pytest.raises(ManifestError, match=r"^Lease sys/scale: spec"):
        parse_lease({"metadata": {"namespace": "sys", "name": "scale"}, "spec": spec})


@in_one_test("seed", range(12))
def test_there_are_never_two_leaders_and_soon_one(seed: int) -> None:
    """Candidates that pause, lose requests and are replaced, each with a clock of its own."""
    chance = random.Random(seed)
    server, now, leaderless = Server(), 0.0, 0.0
    candidates = [Election(name) for name in "abc"]
    skew = {id(each): chance.uniform(-1000, 1000) for each in candidates}
    paused = dict.fromkeys(skew, 0.0)
    for _ in range(600):
        now += RETRY / 3
        for each in candidates:
            local = now + skew[id(each)]
            if now < paused[id(each)]:
                continue
            if chance.random() < 0.02:
                paused[id(each)] = now + chance.uniform(5, 40)
            elif chance.random() < 0.4:
                step(each, server, local)
        leaders = [each for each in candidates if each.is_leader(now + skew[id(each)])]
        assert len(leaders) <= 1
        awake = [each for each in candidates if now >= paused[id(each)]]
        leaderless = 0.0 if leaders or not awake else leaderless + RETRY / 3
        assert leaderless < DURATION + 60
