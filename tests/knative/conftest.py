"""Fixtures of the replayed cases: virtual time, and worlds that end with their test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from math import inf
from pathlib import Path
from typing import Any

import pytest

from activator.discovery import backoff
from tests.knative.world import World


@pytest.fixture
async def new_world(
    anyio_backend: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Callable[..., Awaitable[World]]]:
    """Return a function that starts activators with given settings; close each at the end.

    A scan of the folder is one step of the loop, also on a busy machine. Else a request that
    follows ``apply`` could come between two files.
    """
    monkeypatch.setattr(backoff, "PIECE", inf)
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
