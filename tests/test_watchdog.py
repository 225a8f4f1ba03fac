"""The limit of time for tests."""

from __future__ import annotations

import faulthandler
import os
from types import SimpleNamespace

import pytest

from tests import watchdog
from tests.watchdog import LIMIT, STEP, Watchdog


def test_each_test_has_its_time_and_many_share_a_limit(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    now, limits = 0.0, list[float]()

    def note(seconds: float, *, exit: bool, file: int) -> None:
        assert exit
        assert os.fstat(file)
        limits.append(now + seconds)

    monkeypatch.setattr(faulthandler, "dump_traceback_later", note)
    monkeypatch.setattr(watchdog, "time", SimpleNamespace(monotonic=lambda: now))
    watching = Watchdog(2)
    for begins in range(100):
        now = float(begins)
        watching.pytest_runtest_protocol(request.node)
        assert now + LIMIT <= limits[-1] <= now + LIMIT + STEP
    assert len(limits) == 100 / STEP
