"""Probing, proxy and their common pool together: the cost of a cold start on the wire."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from activator.autoscaler.concurrency import ConcurrencyReporter
from activator.driver import Driver
from activator.knative.words import QUEUE_PROXY
from activator.probing.prober import PodProber
from activator.process.timers import Tasks
from activator.proxy.client.proxy import Proxy
from activator.proxy.exchange.services import ProxyServices
from activator.proxy.message.request import RequestLimits
from activator.proxy.pods.pool import ConnectionPools, PoolLimits
from activator.proxy.pods.probes import ProbePools
from activator.records.entries import Entries
from tests.activator.probing.world import APP
from tests.activator.proxy.world import protocol
from tests.conftest import both_loops
from throttler.model import AppProtocol, Endpoint, ListedEndpoints, MeshMode, Revision
from throttler.throttler import Limits, Throttler


class Pod:
    """Respond to every request with ``queue``; record the targets per connection."""

    def __init__(self) -> None:
        self.seen: list[list[str]] = []
        self.writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        targets: list[str] = []
        self.seen.append(targets)
        self.writers.append(writer)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                targets.append(head.split(b" ")[1].decode())
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nqueue")
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


class World:
    """The parts between a client and a pod, without the rest of the process."""

    def __init__(self, tasks: Tasks, clock: object) -> None:
        load_for = ConcurrencyReporter(lambda _: None).load
        throttler = Throttler(Limits(), lambda: 0.5)
        self.driver = Driver(throttler, Entries(throttler, load_for))
        if clock is not None:
            self.driver.clock = clock  # type: ignore[assignment] # a clock of the test
        self.pools = ConnectionPools(PoolLimits(), tasks.start, self.driver.clock)
        self.prober = PodProber(self.driver, ProbePools(self.pools), 0.3, 256, lambda: 0.5)
        self.driver.prober, self.driver.pools = self.prober, self.pools
        self.proxy = Proxy(
            ProxyServices(self.driver, self.pools, hold_bytes=1 << 16),
            request_limits=RequestLimits(1 << 20, 1000, 1 << 16),
            header_timeout=60.0,
            unhealthy=lambda: "",
        )
        self.port = 0

    async def get(self, target: str) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(
            f"GET {target} HTTP/1.1\r\nHost: app.default.svc.cluster.local\r\n"
            "Connection: close\r\n\r\n".encode()
        )
        response = await reader.read()
        writer.close()
        await writer.wait_closed()
        return response

    async def queued(self, count: int) -> None:
        queued = self.driver.throttler.find(*APP).queued
        while queued.waiting < count:  # noqa: ASYNC110 # the throttler has no events
            await asyncio.sleep(0)

    def list_pods(self, *addresses: str) -> None:
        endpoints = ListedEndpoints(not_ready=frozenset(map(Endpoint, addresses)))
        self.driver.set_endpoints(APP, {AppProtocol.HTTP1: endpoints})


@asynccontextmanager
async def proxying(container_concurrency: int) -> AsyncIterator[World]:
    loop = asyncio.get_running_loop()
    tasks = Tasks()
    world = World(tasks, time.monotonic if type(loop).__module__ == "uvloop" else loop.time)
    world.driver.set_revision(
        Revision(APP, container_concurrency=container_concurrency, probe=QUEUE_PROXY)
    )
    server = await loop.create_server(lambda: protocol(world.proxy), "127.0.0.1", 0)
    world.port = server.sockets[0].getsockname()[1]
    try:
        yield world
    finally:
        server.close()
        world.prober.close()
        world.proxy.timers.close()
        world.driver.close()
        await tasks.close()
        world.pools.close()


def address_of(listener: asyncio.Server) -> str:
    host, port = listener.sockets[0].getsockname()
    return f"{host}:{port}"


@both_loops
async def test_probed_connection_carries_the_first_request() -> None:
    pod = Pod()
    listener = await asyncio.start_server(pod.serve, "127.0.0.1", 0)
    async with proxying(container_concurrency=1) as world, asyncio.TaskGroup() as group:
        response = group.create_task(world.get("/first"))
        await world.queued(1)
        world.list_pods(address_of(listener))
        assert (await response).endswith(b"\r\n\r\nqueue")
        assert pod.seen == [["/healthz", "/first"]]
        for writer in pod.writers:
            writer.transport.abort()
    listener.close()


@both_loops
async def test_waiters_are_served_over_few_connections_when_their_turn_comes() -> None:
    pod = Pod()
    listener = await asyncio.start_server(pod.serve, "127.0.0.1", 0)
    async with proxying(container_concurrency=2) as world, asyncio.TaskGroup() as group:
        responses = [group.create_task(world.get(f"/{number}")) for number in range(40)]
        await world.queued(len(responses))
        world.list_pods(address_of(listener))
        for response in responses:
            assert (await response).startswith(b"HTTP/1.1 200 ")
        assert len(pod.seen) == 2
        assert sum(len(targets) for targets in pod.seen) == len(responses) + 1
        for writer in pod.writers:
            writer.transport.abort()
    listener.close()


class Http2Pod:
    """A server of HTTP/2 alone, like a gRPC server; it drops its first connection.

    Arguments:
        greets: whether its SETTINGS come before it has read anything.
    """

    SETTINGS = b"\0\0\0\4\0\0\0\0\0"
    GOAWAY = b"\0\0\x08\7\0\0\0\0\0" + bytes(4) + b"\0\0\0\1"
    #: HEADERS with :status 200, which end the stream.
    OK = b"\0\0\1\1\5\0\0\0\1\x88"

    def __init__(self, *, greets: bool) -> None:
        self._greets = greets
        self._connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        first = self._connections == 1
        try:
            if self._greets and not first:
                writer.write(self.SETTINGS)
            head = await reader.readuntil(b"\r\n\r\n")
            if first:
                return
            if not self._greets:
                writer.write(self.SETTINGS)
            if not head.startswith(b"PRI "):
                writer.write(self.GOAWAY)
                return
            await reader.readuntil(b"\r\n\r\n")  # the rest of the preface
            while True:
                length, kind = int.from_bytes(await reader.readexactly(3)), await reader.read(1)
                await reader.readexactly(5 + length)
                if kind == b"\1":
                    writer.write(self.OK)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@both_loops
@pytest.mark.parametrize("greets", [False, True])
async def test_a_pod_of_http2_alone_that_dropped_a_request_is_used_again(greets: bool) -> None:
    """Kubernetes' readiness is enough for such a pod, so any response will do: no probe passes."""
    listener = await asyncio.start_server(Http2Pod(greets=greets).serve, "127.0.0.1", 0)
    async with proxying(container_concurrency=1) as world:
        world.driver.set_mesh(MeshMode.DISABLED, False)
        endpoints = ListedEndpoints(ready=frozenset((Endpoint(address_of(listener)),)))
        world.driver.set_endpoints(APP, {AppProtocol.HTTP1: endpoints})
        response = await world.get("/")
        assert response.startswith(b"HTTP/1.1 200 "), response
    listener.close()
