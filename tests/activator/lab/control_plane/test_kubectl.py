"""The real kubectl works with the stand-in, so the stand-in speaks the real API."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import uvloop

from activator.lab.control_plane.server import PlaneServer
from tests.activator.lab.control_plane.world import APPS, SERVICES, World, deployment, service
from tests.manifests.kubectl import PINNED, program_path
from tests.process import PATIENCE


@pytest.fixture
def anyio_backend() -> object:
    return "asyncio", {"loop_factory": uvloop.new_event_loop}


class Kubectl:
    """Runs kubectl for one server."""

    def __init__(self, program: str, folder: Path, server: PlaneServer) -> None:
        config = server.write_kubeconfig(folder)
        self._command = (program, "--kubeconfig", str(config), "--cache-dir", str(folder / "cache"))

    async def __call__(self, *words: str) -> str:
        process = await asyncio.create_subprocess_exec(
            *self._command, *words, "--namespace", "shop", stdout=PIPE, stderr=STDOUT
        )
        async with asyncio.timeout(PATIENCE):
            output, _ = await process.communicate()
        return output.decode()


@pytest.fixture
async def kubectl(world: World, tmp_path: Path) -> AsyncIterator[Kubectl]:
    program = program_path(PINNED)
    server = PlaneServer(world.plane)
    await server.start()
    yield Kubectl(program, tmp_path, server)
    await server.close()


async def test_kubectl_scales_annotates_and_deletes(world, kubectl):
    await world.send("POST", APPS, deployment())
    await world.send("POST", SERVICES, service())
    assert "deployment.apps/w scaled" in await kubectl("scale", "deployment", "w", "--replicas=2")
    assert "2" in await kubectl("get", "deploy", "w", "--output=jsonpath={.spec.replicas}")
    assert "annotated" in await kubectl("annotate", "svc", "web", "activator.dev/enabled=true")
    found = await world.send("GET", f"{SERVICES}/web")
    assert found["metadata"]["annotations"] == {"activator.dev/enabled": "true"}
    assert "deleted" in await kubectl("delete", "service", "web")
    world.plane.faults.forbid("patch", "deployments/scale", "apps")
    denied = await kubectl("scale", "deployment", "w", "--replicas=1")
    assert 'cannot patch resource "deployments/scale" in API group "apps"' in denied
