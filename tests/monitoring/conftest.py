"""These tests start processes, which do not follow a virtual clock: production's loop only."""

from __future__ import annotations

from typing import Any

import pytest
import uvloop


@pytest.fixture
def anyio_backend() -> Any:
    return "asyncio", {"loop_factory": uvloop.new_event_loop}
