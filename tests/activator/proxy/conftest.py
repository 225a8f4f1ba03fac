"""Fixtures of the proxy's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from tests.activator.proxy.world import World


@pytest.fixture
async def new_world(anyio_backend: Any) -> AsyncIterator[Callable[..., Awaitable[World]]]:
    """Starts proxies with settings of the test's own; each is checked and closed in the end."""
    worlds: list[World] = []

    async def start(**settings: Any) -> World:
        world = World()
        await world.start(**settings)
        worlds.append(world)
        return world

    yield start
    for world in worlds:
        await world.close()


@pytest.fixture
async def world(new_world: Callable[..., Awaitable[World]]) -> World:
    """A proxy with usual settings."""
    return await new_world()
