"""Fixtures of the cases that are replayed: virtual time, and worlds that end with their test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.knative.world import World


@pytest.fixture
async def new_world(
    anyio_backend: Any, tmp_path: Path
) -> AsyncIterator[Callable[..., Awaitable[World]]]:
    """Starts activators with settings of the test's own; each is checked and closed in the end."""
    worlds: list[World] = []

    async def start(**settings: Any) -> World:
        folder = tmp_path / f"objects-{len(worlds)}"
        folder.mkdir()
        world = World(folder)
        worlds.append(world)
        await world.start(**settings)
        return world

    yield start
    for world in worlds:
        await world.close()


@pytest.fixture
async def world(new_world: Callable[..., Awaitable[World]]) -> World:
    """An activator with usual settings."""
    return await new_world()
