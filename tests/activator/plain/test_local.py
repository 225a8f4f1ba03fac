"""A folder of plain objects, served over real sockets: without Knative, without a Deployment."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from activator.lab.objects import PodAddress, private_endpoints, revision, write_object
from activator.runtime import Runtime
from activator.servers import Servers
from activator.settings.config import load
from tests.activator.plain.objects import container, deployment, endpoint, service, slice_of
from tests.activator.proxy.world import until
from tests.conftest import on_uvloop
from tests.process import PATIENCE
from throttler.model import RevisionKind

pytestmark = on_uvloop  # inotify reports files in real time

HELLO = "/api/v1/revisions/shop/hello"


class Pod:
    """A pod that responds to each request with its name, and records the heads."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.heads: list[str] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.heads.append(head.decode())
                body = self.name.encode()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        writer.close()


@contextlib.asynccontextmanager
async def running(pod: Pod) -> AsyncIterator[int]:
    server = await asyncio.start_server(pod, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


class World:
    """An activator that serves a folder."""

    def __init__(self, folder: Path) -> None:
        ports = ("http_port", "h2c_port", "https_port", "admin_port", "metrics_port")
        flags = dict.fromkeys((*ports, "profiling_port"), "0") | {"bind": "127.0.0.1"}
        self._folder = folder
        self._load = lambda: load("local", {"manifests": str(folder), **flags}, {})

    async def __aenter__(self) -> World:
        self.runtime = Runtime(self._load())
        self.servers = Servers(self.runtime)
        await self.servers.start()
        self.client = httpx.AsyncClient(trust_env=False, timeout=PATIENCE)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.client.aclose()
        await self.servers.stop_data(1.0)
        await self.servers.stop()

    def write(self, *objects: Any) -> None:
        for obj in objects:
            write(self._folder, obj)

    async def get(self, host: str, path: str = "/") -> httpx.Response:
        url = f"http://{self.servers.addresses['http']}{path}"
        return await self.client.get(url, headers={"Host": host})

    async def api(self, path: str) -> Any:
        response = await self.client.get(f"http://{self.servers.addresses['admin']}{path}")
        return response.json()


def write(folder: Path, obj: Any) -> None:
    path = folder / f"{obj['kind'].lower()}.json"
    path.with_suffix(".new").write_text(json.dumps(obj))
    path.with_suffix(".new").replace(path)


def listed(port: int, *, ready: bool = True) -> Any:
    pods = [endpoint("127.0.0.1", ready=ready, serving=ready)]
    return slice_of(*pods, ports=[{"name": "", "port": port, "protocol": "TCP"}])


async def test_a_service_and_its_slice_are_enough(tmp_path: Path) -> None:
    async with running(Pod("hi")) as port:
        write(tmp_path, service({"hosts": "hello.example.com"}))
        write(tmp_path, listed(port))
        async with World(tmp_path) as world:
            for host in ("hello.example.com", "hello.shop", "hello.shop.svc.cluster.local"):
                assert (await world.get(host)).text == "hi"
            one = await world.api(HELLO)
            assert one["kind"] == "service"
            assert one["route"]["hosts"][0] == "hello.shop"
            assert one["probe"]["kind"] == "tcp"
            assert [each["reason"] for each in one["objectWarnings"]] == ["no-scalable-target"]
            [listed_one] = (await world.api("/api/v1/revisions?kind=service"))["revisions"]
            assert listed_one["name"] == "hello"
            assert (await world.api("/api/v1/revisions?kind=revision"))["revisions"] == []


async def test_a_request_waits_until_the_probe_of_the_container_passes(tmp_path: Path) -> None:
    pod = Pod("hi")
    async with running(pod) as port:
        fields = [{"name": "X-A", "value": "1"}]
        probe = {"httpGet": {"port": port, "path": "/up", "httpHeaders": fields}}
        write(tmp_path, service(ports=[{"port": 80, "targetPort": port}]))
        write(tmp_path, deployment(container(port=port, readinessProbe=probe)))
        async with World(tmp_path) as world:
            await waits_for_the_probe(world, pod, port)


async def waits_for_the_probe(world: World, pod: Pod, port: int) -> None:
    waiting = asyncio.ensure_future(world.get("hello.shop"))
    throttler = world.runtime.driver.throttler.find("shop", "hello", RevisionKind.SERVICE)
    await until(lambda: throttler.statistics().waiting == 1)
    found = await world.api(HELLO)
    assert (found["probe"]["kind"], found["probe"]["target"]) == ("http", "/up")
    assert found["probe"]["why"] == "This is the readiness probe of container app."
    world.write(listed(port, ready=False))  # Kubernetes is not that far yet
    assert (await asyncio.wait_for(waiting, PATIENCE)).text == "hi"
    assert pod.heads[0].startswith("GET /up HTTP/1.1\r\n")
    assert "X-A: 1\r\n" in pod.heads[0]


async def test_an_annotation_that_is_broken_later_leaves_the_service_as_it_was(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(Pod("hi")) as port:
        write(tmp_path, service({"hosts": "a.com"}))
        write(tmp_path, listed(port))
        async with World(tmp_path) as world:
            world.write(service({"hosts": "a.com", "probe": "exec"}))
            await until(lambda: "activator.dev/probe" in caplog.text)
            assert (await world.get("a.com")).text == "hi"
            warnings = (await world.api(HELLO))["objectWarnings"]
            [invalid] = [each for each in warnings if each["reason"] == "invalid"]
            assert "[activator.dev/probe]: expected http:/PATH, tcp, grpc" in invalid["warning"]
            assert invalid["warning"].endswith("got 'exec'; its last good state stays in force")


async def test_a_revision_and_a_service_of_one_name_are_two(tmp_path: Path) -> None:
    async with running(Pod("plain")) as port:
        plain = service({"hosts": "plain.example.com"})
        plain["metadata"]["namespace"] = "default"
        pods = listed(port)
        pods["metadata"]["namespace"] = "default"
        write(tmp_path, plain)
        write(tmp_path, pods)
        write_object(tmp_path, revision("hello"))
        write_object(
            tmp_path, private_endpoints("hello", [PodAddress("127.0.0.1", 1, uid="u", ready=True)])
        )
        async with World(tmp_path) as world:
            assert (await world.get("plain.example.com")).text == "plain"
            path = "/api/v1/revisions/default/hello"
            assert (await world.api(path))["kind"] == "revision"
            assert (await world.api(f"{path}?kind=service"))["kind"] == "service"
            kinds = {each["kind"] for each in (await world.api("/api/v1/revisions"))["revisions"]}
            assert kinds == {"revision", "service"}
