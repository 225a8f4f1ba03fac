"""The proxy's world for tests that follow a request from its bytes to what is told of it."""

from __future__ import annotations

from tests.activator.proxy.conftest import new_world, world

__all__ = ["new_world", "world"]
