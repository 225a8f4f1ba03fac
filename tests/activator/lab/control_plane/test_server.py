"""Real clients of the server's socket."""

from __future__ import annotations

import asyncio
import json
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest
import uvloop

from activator.discovery.api_server import ApiServer
from activator.discovery.backoff import Timings
from activator.discovery.wire import ConnectionLostError, LineSplitter, WatchedResource, pages
from activator.lab.control_plane.plane import PlaneServer
from tests.activator.lab.control_plane.world import APPS, SERVICES, World, deployment, service
from tests.control_plane.client import InProcessClient
from tests.manifests.kubectl import PINNED, program_path
from tests.process import PATIENCE

LISTED = WatchedResource("Service", "/api/v1/services")


@asynccontextmanager
async def served(world: World, folder) -> AsyncIterator[tuple[PlaneServer, ApiServer]]:
    server = PlaneServer(world.plane)
    await server.start()
    client = ApiServer(str(server.write_kubeconfig(folder)), Timings(), {})
    await client.connect()
    try:
        yield server, client
    finally:
        await client.close()
        await server.close()


async def names(client: ApiServer) -> list[str]:
    return [
        json.loads(bytes(item))["metadata"]["name"]
        async for page in pages(client, LISTED, Timings())
        for item in page.items or ()
    ]


async def test_activator_lists_and_watches(world, tmp_path):
    await world.send("POST", SERVICES, service("a"))
    async with served(world, tmp_path) as (_, client):
        assert await names(client) == ["a"]
        params = {"watch": "true", "resourceVersion": str(world.plane.store.version)}
        async with client.get("/api/v1/services", params, 1e4) as response:
            assert response.status == 200
            await world.send("POST", SERVICES, service("b"))
            lines, found = LineSplitter(), list[bytes]()
            async for chunk in response.chunks():
                if found := list(lines.feed(chunk)):
                    break
            assert json.loads(found[0])["object"]["metadata"]["name"] == "b"
            assert world.plane.watches == 1


async def test_the_end_of_the_program_ends_connections_without_a_report(world, tmp_path):
    """As asyncio.run does: it cancels all tasks, and the loop reports a failed task."""
    reports = list[str]()
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: reports.append(context["message"])
    )
    mine = asyncio.all_tasks()
    async with served(world, tmp_path) as (_, client):
        params = {"watch": "true", "resourceVersion": str(world.plane.store.version)}
        async with client.get("/api/v1/services", params, 1e4) as response:
            assert response.status == 200
            tasks = [each for each in asyncio.all_tasks() - mine if "_serve" in repr(each)]
            assert tasks
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await asyncio.sleep(0)
    assert reports == []


async def test_watch_ends_when_its_client_leaves(world, tmp_path):
    async with served(world, tmp_path) as (server, _):
        reader, writer = await asyncio.open_connection(server.host, server.port)
        writer.write(b"GET /api/v1/services?watch=1 HTTP/1.1\r\nHost: a\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        assert world.plane.watches == 1
        writer.close()
        await writer.wait_closed()
        while world.plane.watches:  # noqa: ASYNC110  # the kernel delivers the end
            await asyncio.sleep(0)


async def test_server_that_is_away_breaks_connections_and_comes_back(world, tmp_path):
    async with served(world, tmp_path) as (_, client):
        assert await names(client) == []
        async with client.get("/api/v1/services", {"watch": "true"}, 1e4) as response:
            world.plane.go_away()
            with pytest.raises(ConnectionLostError):
                async for _chunk in response.chunks():
                    pass
        with pytest.raises(ConnectionLostError):
            await names(client)
        world.plane.come_back()
        assert await names(client) == []


async def test_requests_follow_each_other_on_one_connection(world, tmp_path):
    async with served(world, tmp_path) as (server, _):
        reader, writer = await asyncio.open_connection(server.host, server.port)
        for path, status in (("/healthz", b"200"), ("/apis/none/v1/x", b"404")):
            writer.write(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.split()[1] == status
            length = int(head.lower().partition(b"content-length: ")[2].split()[0])
            await reader.readexactly(length)
        writer.write(b"broken\r\n\r\n")
        assert b" 400 " in await reader.read()
        writer.close()


async def test_lists_and_watches_work_without_a_socket(world):
    await world.send("POST", SERVICES, service("a"))
    client = InProcessClient(world.plane)
    resource, server = WatchedResource("Service", SERVICES), cast(ApiServer, client)
    found = [page async for page in pages(server, resource, Timings())]
    assert len(found[0].items or ()) == 1
    async with client.get(SERVICES, {"watch": "1"}, 60.0) as response:
        async for chunk in response.chunks():
            assert json.loads(chunk)["type"] == "ADDED"
            break
    assert world.plane.watches == 0


async def test_requests_of_the_scaler_work_without_a_socket(world):
    await world.send("POST", APPS, deployment())
    client = InProcessClient(world.plane)
    response = await client.send("GET", f"{APPS}/w/scale")
    assert (response.status, response.is_ok) == (200, True)
    world.plane.go_away()
    assert (await client.send("GET", f"{APPS}/w/scale")).status == 0
    with pytest.raises(ConnectionLostError):
        async with client.get(SERVICES, {}, 60.0):
            pass


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
