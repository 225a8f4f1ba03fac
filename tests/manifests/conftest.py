"""Fixtures of the manifests' tests."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest
from kubernetes_validate import utils  # type: ignore[import-untyped]


@pytest.fixture(scope="session", autouse=True)
def each_schema_is_read_once() -> Iterator[None]:
    """The package reads a megabyte of definitions for each object that it validates."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(utils, "schema_contents", cache(utils.schema_contents))
        yield
