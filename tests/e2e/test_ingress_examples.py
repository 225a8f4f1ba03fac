"""The examples of nginx and HAProxy as they are, in front of an activator, with real requests.

Only addresses and ports are replaced: the examples look up a name of the cluster.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from asyncio.subprocess import DEVNULL, STDOUT
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from activator.lab.client import ClientResponse, fetch
from activator.lab.objects import write_object
from tests.manifests.test_examples import BACKEND, EXAMPLES, objects
from tests.ports import hold, network, port_of
from tests.process import ANY_PORTS, PATIENCE, Activator, activator, until
from tests.programs import need

pytestmark = pytest.mark.e2e

HOST = "hello.example.com"
POD_PORT = 8080


class Proxy(NamedTuple):
    """A program and its example.

    Attributes:
        example: the file.
        listens: the directive that names its port, as in the example.
        listen: the same for another port.
        command: its arguments for a configuration file.
    """

    example: str
    listens: str
    listen: str
    command: Callable[[Path], list[str | Path]]


def _nginx(config: Path) -> list[str | Path]:
    folder = config.parent
    # Debian's user of the workers cannot read the folders of tests.
    user = "user root; " if os.getuid() == 0 else ""
    main = f"daemon off; {user}pid {folder}/nginx.pid; error_log {folder}/error.log;"
    program = need("nginx", "nginx-light")
    return [program, "-p", folder, "-e", folder / "error.log", "-c", config, "-g", main]


def _haproxy(config: Path) -> list[str | Path]:
    return [need("haproxy", "haproxy"), "-db", "-f", config]


PROXIES = [
    Proxy("nginx.conf", r"listen 80\b", "listen {}", _nginx),
    Proxy("haproxy.cfg", r"bind :80\b", "bind {}", _haproxy),
]


class Pod:
    """A server behind the Service: it returns each request head as JSON."""

    def __init__(self) -> None:
        self.ip = f"{network()}.1"

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Accept connections inside the block."""
        server = await asyncio.start_server(self._serve, self.ip, POD_PORT)
        try:
            yield
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[:-2]
                fields = [line.split(": ", 1) for line in lines]
                body = json.dumps({"request": first, "fields": fields}).encode()
                head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n"
                writer.write(head.encode() + body)
        writer.close()

    def endpoint_slice(self) -> dict[str, Any]:
        """Return a slice that lists this pod as not ready: the activator probes it itself."""
        conditions = {"ready": False, "serving": False, "terminating": False}
        return {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": "hello-x",
                "namespace": "default",
                "labels": {"kubernetes.io/service-name": "hello"},
            },
            "addressType": "IPv4",
            "ports": [{"name": "http", "port": POD_PORT, "protocol": "TCP"}],
            "endpoints": [{"addresses": [self.ip], "conditions": conditions}],
        }


class World:
    """The activator, the program in front of it, and a folder instead of a cluster."""

    def __init__(self, folder: Path, running: Activator, port: int, pod: Pod) -> None:
        self.folder = folder
        self.activator = running
        self.port = port
        self.pod = pod

    async def fetch(self, path: str = "/", **headers: str) -> ClientResponse:
        """Send a request to the program in front."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        return await fetch("127.0.0.1", self.port, path, headers=given)


@asynccontextmanager
async def world(proxy: Proxy, folder: Path) -> AsyncIterator[World]:
    """Start everything but the pod's endpoint: the Service sleeps."""
    manifests = folder / "objects"
    manifests.mkdir()
    for obj in objects("sleeping-deployment.yaml"):
        write_object(manifests, obj)
    async with AsyncExitStack() as stack:
        pod = Pod()
        await stack.enter_async_context(pod.listening())
        running = await stack.enter_async_context(
            activator("local", "--manifests", str(manifests), *ANY_PORTS)
        )
        held = stack.enter_context(hold())
        port = port_of(held)
        text = (EXAMPLES / proxy.example).read_text()
        text = text.replace(BACKEND, ":".join(map(str, await running.address("http"))))
        text = re.sub(proxy.listens, proxy.listen.format(f"127.0.0.1:{port}"), text)
        config = folder / proxy.example
        config.write_text(text)
        await stack.enter_async_context(_running(proxy.command(config)))
        found = World(manifests, running, port, pod)
        await until(lambda: _responds(found), f"{proxy.example} is served")
        yield found


@asynccontextmanager
async def _running(command: list[str | Path]) -> AsyncIterator[None]:
    process = await asyncio.create_subprocess_exec(
        *command, stdin=DEVNULL, stdout=DEVNULL, stderr=STDOUT
    )
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        async with asyncio.timeout(PATIENCE):
            await process.wait()


async def _responds(found: World) -> bool:
    try:
        return (await found.fetch("/", Host="unknown.example.org")).status == 404
    except OSError:
        return False


@pytest.mark.parametrize("proxy", PROXIES, ids=["nginx", "haproxy"])
async def test_a_sleeping_service_is_reached_by_host_and_by_name(
    proxy: Proxy, tmp_path: Path
) -> None:
    async with world(proxy, tmp_path) as found:
        # By host, from zero: the request waits until the pod exists.
        waiting = asyncio.ensure_future(found.fetch("/a?b=c", Host=HOST, X_Forwarded_For="9.9.9.9"))
        await found.activator.queued("hello", 1)
        write_object(found.folder, found.pod.endpoint_slice())
        response = await waiting
        assert response.status == 200, response.body
        seen = json.loads(response.body)
        fields = {name.lower(): value for name, value in seen["fields"]}
        assert seen["request"].split()[:2] == ["GET", "/a?b=c"]
        assert fields["host"] == HOST
        # The client, the program in front and the activator each add the address of their peer.
        forwarded = [value for name, value in seen["fields"] if name.lower() == "x-forwarded-for"]
        addresses = ", ".join(forwarded).split(", ")
        assert addresses[0] == "9.9.9.9"
        assert addresses[1:] == ["127.0.0.1", "127.0.0.1"]
        assert not {name for name in fields if name.startswith(("k-", "knative-", "activator-"))}

        # By name: the path is enough, whatever the host.
        response = await found.fetch("/hello", Host="any.example.org")
        seen = json.loads(response.body)
        assert response.status == 200
        assert ["Host", "any.example.org"] in seen["fields"]

        # A client cannot choose the Service.
        response = await found.fetch("/", Host=HOST, Activator_Service="default/secret")
        assert response.status == 200
        response = await found.fetch("/", Host="x.example.org", Activator_Service="default/hello")
        assert response.status == 404


def test_examples_have_the_directives_that_are_replaced() -> None:
    for proxy in PROXIES:
        text = (EXAMPLES / proxy.example).read_text()
        assert re.search(proxy.listens, text)
        assert text.count(BACKEND) == 1
    service = objects("sleeping-deployment.yaml")[1]
    assert service["metadata"]["annotations"]["activator.dev/hosts"] == HOST
