"""Programs in front of an activator, with the examples as they are.

Only addresses and ports are replaced: the examples look up a name of the cluster.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from asyncio.subprocess import DEVNULL, STDOUT
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from activator.lab.objects import write_object
from activator.lab.programs import ClientResponse, fetch
from tests.manifests.test_examples import BACKEND, EXAMPLES, objects
from tests.ports import hold, network, port_of
from tests.process import ANY_PORTS, PATIENCE, Activator, activator, until
from tests.programs import need, skip

HOST = "hello.example.com"
#: A host that no Service has.
LOADED = "loaded.example.org"
POD_PORT = 8080
#: More than the body that nginx accepts by default.
UPLOAD = bytes(2 * 1024 * 1024)
#: The handshake of RFC 6455, section 1.3.
UPGRADE = (
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)
SWITCHED = (
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
)
ADMISSION = BACKEND.rpartition(":")[0] + ":8014"


class Addresses(NamedTuple):
    """What replaces the names and ports of an example, as ``IP:PORT``."""

    proxy: str
    activator: str
    pod: str


class Proxy(NamedTuple):
    """A program and its example.

    Attributes:
        program: its name.
        example: the file.
        configure: the text of its configuration, from the text of the example.
        command: its arguments for a configuration file.
        keeps_pods: several requests use one connection to the pod.
        passes_reasons: error responses of the activator reach the client as they are.
    """

    program: str
    example: str
    configure: Callable[[str, Addresses], str]
    command: Callable[[Path, Addresses], list[str | Path]]
    keeps_pods: bool = True
    passes_reasons: bool = True

    @property
    def is_asked(self) -> bool:
        """Whether the program asks for a pod, and sends the request itself."""
        return self.example.startswith("admission")


# -- the programs ----------------------------------------------------------------------------------


def _packaged(program: str) -> Path:
    """Return the path of a program that a Python package brings, since Debian has none."""
    path = Path(sys.prefix, "bin", program)
    if not path.exists():  # its package is for Linux on amd64 only
        skip(f"{program} is missing; pip install -e '.[dev]'")
    return path


def _listening(pattern: str, listen: str) -> Callable[[str, Addresses], str]:
    """Replace the directive that names the port, and the activator's name."""

    def configure(text: str, addresses: Addresses) -> str:
        assert len(re.findall(pattern, text)) >= 1
        text = re.sub(pattern, listen.format(addresses.proxy), text)
        text, count = re.subn(rf"{BACKEND}(14)?\b", addresses.activator, text)
        assert count == 1
        return text

    return configure


def _nginx(config: Path, _: Addresses) -> list[str | Path]:
    folder = config.parent
    # Debian's user of the workers cannot read the folders of tests.
    user = "user root; " if os.getuid() == 0 else ""
    main = f"{user}daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log;"
    program = need("nginx", "nginx-light")
    return [program, "-p", folder, "-e", folder / "error.log", "-c", config, "-g", main]


def _haproxy(config: Path, _: Addresses) -> list[str | Path]:
    return [need("haproxy", "haproxy"), "-db", "-C", EXAMPLES, "-f", config]


def _caddy(config: Path, _: Addresses) -> list[str | Path]:
    return [need("caddy", "caddy"), "run", "--adapter", "caddyfile", "--config", config]


def _caddyfile(text: str, addresses: Addresses) -> str:
    site = f"http://{HOST}"
    port = addresses.proxy.rpartition(":")[2]
    text = _listening(re.escape(site), f"{site}:{port}")(text, addresses)
    return "{\n\tadmin off\n\tdefault_bind 127.0.0.1\n}\n" + text


def _envoy_yaml(text: str, addresses: Addresses) -> str:
    text = yaml.safe_load(text)["data"]["envoy.yaml"]
    places = ("0.0.0.0", "8080", addresses.proxy), (*ADMISSION.split(":"), addresses.activator)
    for host, port, new in places:
        assert text.count(f"address: {host}") == text.count(f"port_value: {port}") == 1
        text = text.replace(f"address: {host}", f"address: {new.split(':')[0]}")
        text = text.replace(f"port_value: {port}", f"port_value: {new.split(':')[1]}")
    return text


def _envoy(config: Path, _: Addresses) -> list[str | Path]:
    one = ("--concurrency", "1", "--use-dynamic-base-id", "--log-level", "warning")
    return [_packaged("envoy"), *one, "-c", config]


def _traefik_file(text: str, addresses: Addresses) -> str:
    """Return the kinds of Kubernetes as a file; fields of a Middleware have the same names."""
    route, *middlewares = yaml.safe_load_all(text)
    (rule,) = route["spec"]["routes"]
    specs = {each["metadata"]["name"]: each["spec"] for each in middlewares}
    for spec in specs.values():
        if "forwardAuth" in spec:
            spec["forwardAuth"]["address"] = f"http://{addresses.activator}/"
    (service,) = rule["services"]
    url = addresses.activator if service["name"] == "activator-service" else addresses.pod
    router = {
        "rule": rule["match"],
        "middlewares": [each["name"] for each in rule["middlewares"]],
        "service": "only",
    }
    services = {"only": {"loadBalancer": {"servers": [{"url": f"http://{url}"}]}}}
    # Traefik listens before it has read the file.
    routers = {"only": router, "loaded": {"rule": f"Host(`{LOADED}`)", "service": "ping@internal"}}
    return yaml.safe_dump(
        {"http": {"routers": routers, "middlewares": specs, "services": services}}
    )


def _traefik(config: Path, addresses: Addresses) -> list[str | Path]:
    # The example has the other arguments in its comment.
    text = (EXAMPLES / "traefik.yaml").read_text()
    arguments = re.findall(r"--entryPoints\.\S+", text)
    file = config.rename(config.with_suffix(".yml"))
    own = (f"--entryPoints.web.address={addresses.proxy}", f"--providers.file.filename={file}")
    return [_packaged("traefik"), *own, "--ping.manualRouting", *arguments]


SHARED = [
    Proxy("nginx", "nginx.conf", _listening(r"listen 80\b", "listen {}"), _nginx),
    Proxy("haproxy", "haproxy.cfg", _listening(r"bind :80\b", "bind {}"), _haproxy),
    Proxy("traefik", "traefik.yaml", _traefik_file, _traefik),
]
ASKING = [
    Proxy(
        "nginx",
        "admission-nginx.conf",
        _listening(r"listen 80\b", "listen {}"),
        _nginx,
        keeps_pods=False,
    ),
    Proxy("haproxy", "admission-haproxy.cfg", _listening(r"bind :80\b", "bind {}"), _haproxy),
    Proxy("caddy", "admission.Caddyfile", _caddyfile, _caddy),
    Proxy("envoy", "admission-envoy.yaml", _envoy_yaml, _envoy, passes_reasons=False),
    Proxy("traefik", "admission-traefik.yaml", _traefik_file, _traefik),
]


# -- what is behind them ---------------------------------------------------------------------------


class Pod:
    """A server behind the Service: JSON for each request, an echo after an upgrade."""

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
        connection = writer.get_extra_info("peername")[1]
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[:-2]
                fields = [line.split(": ", 1) for line in lines]
                known = {name.lower(): value for name, value in fields}
                if known.get("upgrade") == "websocket":
                    writer.write(SWITCHED.encode())
                    while data := await reader.read(1024):
                        writer.write(data)
                    break
                received = len(await reader.readexactly(int(known.get("content-length", 0))))
                seen = {"request": first, "fields": fields, "received": received}
                body = json.dumps(seen | {"connection": connection}).encode()
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
        self._folder = folder
        self._pod = pod
        self.activator = running
        self.port = port

    async def fetch(
        self, path: str = "/", body: bytes = b"", host: str = HOST, **headers: str
    ) -> ClientResponse:
        """Send a request to the program in front, a POST if it has a body."""
        given = {name.replace("_", "-"): value for name, value in headers.items()} | {"Host": host}
        method = "POST" if body else "GET"
        return await fetch("127.0.0.1", self.port, path, method, given, body)

    async def seen(
        self, path: str = "/", body: bytes = b"", host: str = HOST, **headers: str
    ) -> dict[str, Any]:
        """Send a request that a pod serves, and return the request as the pod has seen it."""
        response = await self.fetch(path, body, host, **headers)
        assert response.status == 200, response.body
        seen: dict[str, Any] = json.loads(response.body)
        return seen

    async def connections(self, count: int) -> set[int]:
        """Send requests on one connection, and return the pod's ports on which they arrived."""
        ports = set()
        async with asyncio.timeout(PATIENCE):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            try:
                for _ in range(count):
                    writer.write(f"GET / HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
                    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                    size = head.partition("content-length: ")[2].partition("\r\n")[0]
                    ports.add(json.loads(await reader.readexactly(int(size)))["connection"])
            finally:
                writer.close()
        return ports

    def start_pod(self) -> None:
        """Let the pod appear in the folder."""
        write_object(self._folder, self._pod.endpoint_slice())

    async def opens_websocket(self) -> None:
        """Upgrade a connection, and get an echo.

        Raises:
            AssertionError: the response is not 101.
        """
        async with asyncio.timeout(PATIENCE):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            try:
                writer.write(f"GET / HTTP/1.1\r\nHost: {HOST}\r\n{UPGRADE}\r\n".encode())
                head = await reader.readuntil(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 101"), head
                writer.write(b"frames")
                assert await reader.readexactly(6) == b"frames"
            finally:
                writer.close()


@asynccontextmanager
async def world(proxy: Proxy, folder: Path, **annotations: str) -> AsyncIterator[World]:
    """Start everything but the pod's endpoint: the Service sleeps.

    Arguments:
        annotations: added to the Service's, without ``activator.dev/``; ``_`` is ``-``.
    """
    manifests = folder / "objects"
    manifests.mkdir()
    for obj in objects("sleeping-deployment.yaml"):
        for name, value in annotations.items() if obj["kind"] == "Service" else ():
            obj["metadata"]["annotations"][f"activator.dev/{name.replace('_', '-')}"] = value
        write_object(manifests, obj)
    async with AsyncExitStack() as stack:
        pod = Pod()
        await stack.enter_async_context(pod.listening())
        port = port_of(stack.enter_context(hold()))
        local = ("local", "--manifests", str(manifests), *ANY_PORTS, "--admit-port", "0")
        running = await stack.enter_async_context(activator(*local))
        behind = "{}:{}".format(*await running.address("admit" if proxy.is_asked else "http"))
        addresses = Addresses(f"127.0.0.1:{port}", behind, f"{pod.ip}:{POD_PORT}")
        config = folder / proxy.example
        config.write_text(proxy.configure((EXAMPLES / proxy.example).read_text(), addresses))
        await stack.enter_async_context(_running(proxy.command(config, addresses)))
        found = World(manifests, running, port, pod)
        await until(lambda: _serves(port, proxy), f"{proxy.example} is served")
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


async def _serves(port: int, proxy: Proxy) -> bool:
    try:
        response = await fetch("127.0.0.1", port, "/", headers={"Host": LOADED})
    except OSError:
        return False
    return proxy.program != "traefik" or response.status == 200
