"""These tests start processes, which do not follow a virtual clock: production's loop only."""

from __future__ import annotations

from typing import Any

import pytest
import uvloop

from activator.lab import kubelet
from tests.process import PATIENCE


@pytest.fixture
def anyio_backend() -> Any:
    return "asyncio", {"loop_factory": uvloop.new_event_loop}


@pytest.fixture(autouse=True)
def patient_kubelet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allow a check more than a second: a machine may stall."""
    monkeypatch.setattr(kubelet, "TIMEOUT", PATIENCE)
