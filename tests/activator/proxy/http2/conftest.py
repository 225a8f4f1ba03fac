"""Fixtures of the tests of HTTP/2."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.activator.proxy.http2.peers import Http2World
from tests.activator.proxy.world import World


@pytest.fixture
def http2(world: World) -> Iterator[Http2World]:
    """A proxy between clients and pods that speak HTTP/2."""
    made = Http2World(world)
    yield made
    made.close()
