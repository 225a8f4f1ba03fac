from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from activator.lab.cluster import ServiceProxy, endpoints_of
from activator.lab.control_plane.api import SLICES


@asynccontextmanager
async def proxied(world) -> AsyncIterator[ServiceProxy]:
    proxy = ServiceProxy(world.plane, "web", delay=1.0)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.close()


def found(port: int, *endpoints: tuple[str, bool, bool, bool], name: str = "http") -> Any:
    return {
        "metadata": {"labels": {"kubernetes.io/service-name": "web"}},
        "ports": [{"name": name, "port": port}],
        "endpoints": [
            {
                "addresses": [address],
                "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
            }
            for address, ready, serving, terminating in endpoints
        ],
    }


READY, STARTING = ("10.0.0.1", True, True, False), ("10.0.0.2", False, False, False)
LEAVING, GONE = ("10.0.0.3", False, True, True), ("10.0.0.4", False, False, True)


def test_ready_endpoints_come_first_then_those_that_terminate():
    assert endpoints_of([found(80, READY, STARTING, LEAVING, GONE)], "http") == [("10.0.0.1", 80)]
    assert endpoints_of([found(80, STARTING, LEAVING, GONE)], "http") == [("10.0.0.3", 80)]
    assert endpoints_of([found(80, STARTING, GONE)], "http") == []


def test_slices_of_all_authors_count_with_their_ports():
    slices = [found(80, READY), found(10_001, ("10.0.0.9", True, True, False))]
    assert endpoints_of(slices, "http") == [("10.0.0.1", 80), ("10.0.0.9", 10_001)]
    assert endpoints_of([found(80, READY, name="other")], "http") == []
    assert endpoints_of([{**found(80), "ports": None, "endpoints": None}], "http") == []


async def test_connection_goes_to_an_endpoint_and_back(world):
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readexactly(5))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    world.create(replicas=1, port=port)
    await world.settle()
    world.report("web-1", ready=True, address="127.0.0.1")
    await world.settle()
    async with proxied(world) as proxy:
        reader, writer = await asyncio.open_connection(*proxy.where)
        writer.write(b"hello")
        assert await reader.read() == b"hello"
        writer.close()
        await writer.wait_closed()
    server.close()


async def test_change_of_a_slice_has_an_effect_after_a_delay(world):
    world.create(replicas=1)
    await world.settle()
    async with proxied(world) as proxy:
        assert proxy.endpoints == []
        world.report("web-1", ready=True, address="127.0.9.1")
        await world.settle(0.5)
        assert proxy.endpoints == []
        await world.settle(0.6)
        assert proxy.endpoints == [("127.0.9.1", 8012)]


async def test_connection_without_an_endpoint_is_refused(world):
    world.create(replicas=0)
    await world.settle()
    assert world.plane.store.select(SLICES, "default", lambda each: True)
    async with proxied(world) as proxy:
        reader, writer = await asyncio.open_connection(*proxy.where)
        with pytest.raises(ConnectionError):
            await reader.read()
        writer.close()
        assert proxy.refused == 1


async def test_endpoint_that_refuses_connections_is_counted(world):
    world.create(replicas=1, port=1)
    await world.settle()
    world.report("web-1", ready=True, address="127.0.9.1")
    await world.settle()
    async with proxied(world) as proxy:
        reader, writer = await asyncio.open_connection(*proxy.where)
        with pytest.raises(ConnectionError):
            await reader.read()
        writer.close()
        assert proxy.refused == 1
