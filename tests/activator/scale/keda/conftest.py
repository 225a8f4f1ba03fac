"""Fixtures of the tests that use gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import grpc.aio
import pytest


@pytest.fixture(scope="session", autouse=True)
def grpc_stays() -> Iterator[None]:
    """Keep gRPC's poller until the process ends.

    Otherwise the last object of a finished test ends it, in a garbage collection of a later test.
    That never returns if a call of the finished test was still open. The poller begins on a loop
    of its own, since an earlier test may have left none.
    """
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    grpc.aio.init_grpc_aio()
    asyncio.set_event_loop(None)
    yield
    loop.close()
