"""Which tests run with coverage's tracing: the table names places that exist."""

from __future__ import annotations

from tests.guards import expect_none
from tests.tracing import TRACED, UNTRACED, is_traced


def test_the_innermost_place_decides() -> None:
    folder = TRACED[0].parent
    assert is_traced(folder / "throttler/test_queued_tickets.py")
    assert is_traced(folder / "activator/proxy/exchange/test_heartbeat.py")
    assert not is_traced(folder / "activator/proxy/message/test_grammar.py")
    assert not is_traced(folder / "activator/proxy/exchange/test_wait.py")
    assert not is_traced(folder / "e2e/test_lab.py")


def test_each_place_exists() -> None:
    missing = (str(path) for path in (*TRACED, *UNTRACED) if not path.exists())
    expect_none(missing, "are in no folder: correct tests/tracing.py")
