"""Fixtures of the tests that use gRPC."""

from __future__ import annotations

import grpc.aio
import pytest


@pytest.fixture(scope="session", autouse=True)
def grpc_stays() -> None:
    """Keep gRPC's poller until the process ends.

    Otherwise the last object of a finished test ends it, in a garbage collection of a later test.
    That never returns if a call of the finished test was still open.
    """
    grpc.aio.init_grpc_aio()
