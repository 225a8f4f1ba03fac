"""These tests start processes, or use the loop of pods; virtual time does not reach them."""

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
    """On a machine that stalls, a pod may take more than a second for a check."""
    monkeypatch.setattr(kubelet, "TIMEOUT", PATIENCE)
