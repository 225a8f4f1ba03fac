"""Virtual time: no process is started here."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.activator.lab.control_plane.world import World
from tests.conftest import VIRTUAL


@pytest.fixture
def anyio_backend() -> Any:
    return VIRTUAL.values[0]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    found = World()
    yield found
    found.plane.close()
