"""Fixtures of the tests of TCP Services."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.activator.proxy.tcp.world import TcpWorld


@pytest.fixture
async def world(anyio_backend: Any) -> AsyncIterator[TcpWorld]:
    """A proxy with one TCP Service."""
    world = TcpWorld()
    await world.start()
    yield world
    await world.close()
