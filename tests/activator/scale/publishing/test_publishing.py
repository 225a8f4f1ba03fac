"""Decisions on their way to the board."""

from __future__ import annotations

from activator.plain.service import parse
from activator.scale.decisions.plan import Plan, WorkloadPhase
from activator.scale.decisions.record import Decided, Facts
from activator.scale.publishing.board import Board
from activator.scale.reports.load import Loads, Name
from tests.activator.plain.objects import service

HELLO = Name("shop", "hello")


def test_each_decision_is_published_until_the_service_is_gone() -> None:
    board = Board(Loads(), lambda: 0.0)
    board.start(0)
    assert board.is_open
    found = parse(service({"target_concurrency": "7"}))
    assert found is not None
    plan = Plan(None, None, None, False, True, WorkloadPhase.ASLEEP, 1.0)
    board.carry_out(HELLO, Decided(Facts(found, None, 0, 0), plan), 0)
    workload = board.workload(HELLO)
    assert workload is not None
    assert (workload.active, workload.target) == (True, 7)
    # Nothing was decided: the last state stays.
    board.carry_out(HELLO, Decided(Facts(found, None, 0, 0), None, "no-scalable-target"), 0)
    assert board.workload(HELLO) is not None
    board.leave(HELLO, 0)
    assert board.workload(HELLO) is None
    board.stop(0)
    assert not board.is_open
