"""These tests start processes or use the loop of pods, which know nothing of a virtual clock."""

from __future__ import annotations

from typing import Any

import pytest
import uvloop


@pytest.fixture
def anyio_backend() -> Any:
    return "asyncio", {"loop_factory": uvloop.new_event_loop}
