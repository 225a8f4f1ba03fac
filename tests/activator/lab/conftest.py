"""These tests start processes or use the loop of pods, which know nothing of a virtual clock."""

from __future__ import annotations

from typing import Any

import pytest
import uvloop

from activator.lab import checks
from tests.process import PATIENCE


@pytest.fixture
def anyio_backend() -> Any:
    return "asyncio", {"loop_factory": uvloop.new_event_loop}


@pytest.fixture(autouse=True)
def patient_kubelet(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod of a machine that stalls may take longer for a check than a second."""
    monkeypatch.setattr(checks, "TIMEOUT", PATIENCE)
