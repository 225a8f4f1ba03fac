"""These tests start processes, which do not follow a virtual clock.

They do not run on uvloop: uvloop forks, and grpcio's threads do not always survive a fork. The
standard library's loop starts processes by vfork.

One activator and one pod serve all tests of a file that need no special set-up.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import pytest

from tests.grpc.world import Client, GrpcWorld, Pod
from tests.process import Activator


class Served(NamedTuple):
    """An activator with one revision and one pod, and a client of the activator."""

    client: Client
    activator: Activator
    pod: Pod


@pytest.fixture(scope="module")
def anyio_backend() -> Any:
    return "asyncio"


@pytest.fixture(scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Served]:
    async with GrpcWorld(tmp_path_factory.mktemp("grpc")) as world:
        world.revision()
        pod = await world.pod()
        world.list([pod])
        running = await world.activator()
        client = await world.client(running)
        await client.echo(b"warm")
        yield Served(client, running, pod)
