"""Virtual time; tests that start processes have the mark ``on_uvloop``."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.activator.lab.controllers.world import World
from tests.conftest import VIRTUAL


@pytest.fixture
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    return getattr(request, "param", VIRTUAL.values[0])


@pytest.fixture
async def world() -> AsyncIterator[World]:
    found = World()
    yield found
    found.close()
