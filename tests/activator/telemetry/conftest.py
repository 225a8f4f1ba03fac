"""The proxy's world, for tests that follow a request from its bytes to logs and spans."""

from __future__ import annotations

from tests.activator.proxy.conftest import new_world, world

__all__ = ["new_world", "world"]
