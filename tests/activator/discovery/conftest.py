"""Fixtures of the discovery tests."""

from __future__ import annotations

import pytest

from activator.discovery.inventory import Inventory, Rejection
from tests.activator.discovery.recording import RecordingSink


@pytest.fixture
def sink() -> RecordingSink:
    return RecordingSink()


@pytest.fixture
def rejections() -> list[Rejection]:
    return []


@pytest.fixture
def inventory(sink: RecordingSink, rejections: list[Rejection]) -> Inventory:
    return Inventory(sink, rejections.append)
