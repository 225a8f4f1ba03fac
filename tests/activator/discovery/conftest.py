"""Fixtures of the discovery tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from activator.discovery.inventory import Inventory
from activator.discovery.inventory import __name__ as inventory_module
from activator.discovery.rejections import Rejection
from tests.activator.discovery.fake_api_server import FakeApiServer
from tests.activator.discovery.recording import RecordingSink


@pytest.fixture(autouse=True)
def no_unexpected_error(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fail a test in which a reader of objects had a fault: the inventory only logs it."""
    yield
    records = [each for each in caplog.get_records("call") if each.name == inventory_module]
    assert not [each for each in records if "unexpected error" in each.msg]


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
