"""Fixtures of the discovery tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from activator.discovery.dialect import Rejection
from activator.discovery.inventory import Inventory
from tests.activator.discovery.fake_api_server import FakeApiServer
from tests.activator.discovery.recording import RecordingSink


@pytest.fixture
def sink() -> RecordingSink:
    return RecordingSink()


@pytest.fixture
def rejections() -> list[Rejection]:
    return []


@pytest.fixture
def inventory(sink: RecordingSink, rejections: list[Rejection]) -> Inventory:
    return Inventory(sink, sink, rejections.append)


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer() as server:
        yield server
