"""Fixtures of the replayed cases: virtual time, and worlds that end with their test."""

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
    """Return a function that starts activators with given settings; close each at the end."""
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
    """Start an activator with the usual settings."""
    return await new_world()
