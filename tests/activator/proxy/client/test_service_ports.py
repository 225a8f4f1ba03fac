"""The ports of plain Services: opened, closed and tried again while the activator runs."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest

from activator.proxy.client.listener import LINGER, PATIENCE, RETRY, ServicePorts, listen
from activator.proxy.tcp.clients import TcpClients
from tests.activator.proxy.world import Client, World, turns, until
from throttler.model import RevisionID, RevisionKind, ServiceRoute
from throttler.request_policies import RouteRule

SHOP = RevisionID("ns", "rev", RevisionKind.SERVICE)
OTHER = RevisionID("ns", "other", RevisionKind.SERVICE)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


class Ports(World):
    """The proxy's world, and the ports of its Services."""

    async def start(self, **settings: Any) -> None:
        await super().start(**settings)
        self.ports = ServicePorts(self.proxy, "127.0.0.1", TcpClients(self.proxy).accept)
        self.ports.start()

    async def status(self, port: int) -> int:
        """Send a request without any name to a port; return the status, 0 if it is closed."""
        loop = asyncio.get_running_loop()
        try:
            _, client = await loop.create_connection(Client, "127.0.0.1", port)
        except ConnectionRefusedError:
            return 0
        client.send(b"GET / HTTP/1.1\r\nHost: 10.0.0.1\r\n\r\n")
        answer = await client.answer()
        client.close()
        return answer.status


@pytest.fixture
async def world(anyio_backend: Any) -> AsyncIterator[Ports]:
    world = Ports()
    await world.start()
    yield world
    world.ports.close()
    await world.close()


async def test_a_port_opens_moves_and_closes_with_its_route(world: Ports) -> None:
    pod = await world.pod()
    throttler = world.serve(pod)
    await until(lambda: throttler.statistics().healthy == 1)
    first, second = free_port(), free_port()
    world.ports.set_route(SHOP, ServiceRoute(port=first))
    assert await world.status(first) == 200
    world.ports.set_route(SHOP, ServiceRoute(port=second))
    assert (await world.status(first), await world.status(second)) == (0, 200)
    world.ports.set_route(SHOP, ServiceRoute())
    assert await world.status(second) == 0
    assert world.ports.numbers() == {}


async def test_ports_open_only_once_the_activator_is_ready(world: Ports) -> None:
    accept, number = TcpClients(world.proxy).accept, free_port()
    ports = ServicePorts(world.proxy, "127.0.0.1", accept)
    ports.set_route(SHOP, ServiceRoute(port=number))
    assert await world.status(number) == 0
    ports.start()
    assert await world.status(number) == 404, "the Service itself is not known yet"
    ports.close()
    assert await world.status(number) == 0


async def test_a_port_in_use_is_logged_once_and_tried_again(
    world: Ports, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    taken = listen("127.0.0.1", 0, "here")
    number, free = taken.getsockname()[1], free_port()
    world.ports.set_route(SHOP, ServiceRoute(port=number))
    world.ports.set_route(OTHER, ServiceRoute(port=free))
    assert world.ports.numbers() == {OTHER: free}, "the others are not affected"
    await world.clock_moves(3 * RETRY)
    warnings = [each.message for each in caplog.records if each.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert f"127.0.0.1:{number}" in warnings[0]
    assert "the port of service ns/rev" in warnings[0]
    [warning] = world.ports.warnings({})
    assert warning[:4] == ("Service", "ns", "rev", "rev")
    assert (warning.reason, warning.revision_kind) == ("port-conflict", RevisionKind.SERVICE)
    assert warning.text == (
        f"cannot listen on 127.0.0.1:{number} (the port of service ns/rev): address already in "
        f"use; choose another activator.dev/listen-port, or in a cluster other --takeover-ports"
    )
    [warning] = world.ports.warnings({number: "port http"})
    assert "already in use; the activator itself (port http) listens there; choose" in warning.text
    taken.close()
    await world.clock_moves(RETRY)
    assert world.ports.numbers() == {SHOP: number, OTHER: free}
    assert f"listening on port {number} of service ns/rev" in caplog.messages
    assert list(world.ports.warnings({})) == []


async def test_one_port_is_one_service(world: Ports) -> None:
    number = free_port()
    world.ports.set_route(SHOP, ServiceRoute(port=number))
    world.ports.set_route(OTHER, ServiceRoute(port=number))
    assert world.ports.numbers() == {SHOP: number}
    [warning] = world.ports.warnings({})
    assert warning.name == "other"
    assert "; Service ns/rev listens there; " in warning.text
    world.ports.set_route(SHOP, ServiceRoute())
    await world.clock_moves(RETRY)
    assert world.ports.numbers() == {OTHER: number}


RULES = (RouteRule(("rev.ns",)),)


@pytest.mark.parametrize("moves", [False, True])
async def test_a_port_without_its_slice_stays_open_while_connections_may_come(
    world: Ports, moves: bool
) -> None:
    pod = await world.pod()
    throttler = world.serve(pod)
    await until(lambda: throttler.statistics().healthy == 1)
    first, second = free_port(), free_port() if moves else 0
    world.ports.set_route(SHOP, ServiceRoute(rules=RULES, port=first))
    world.ports.set_route(SHOP, ServiceRoute(rules=RULES, port=second))
    assert world.ports.numbers() == ({SHOP: second} if moves else {})
    assert await world.status(first) == 200
    await world.clock_moves(LINGER)
    assert await world.status(first) == 0
    assert not moves or await world.status(second) == 200


async def test_a_service_that_gets_its_port_back_never_refuses_a_client(world: Ports) -> None:
    pod = await world.pod()
    throttler = world.serve(pod)
    await until(lambda: throttler.statistics().healthy == 1)
    number = free_port()
    world.ports.set_route(SHOP, ServiceRoute(rules=RULES, port=number))
    world.ports.set_route(SHOP, ServiceRoute(rules=RULES))
    world.ports.set_route(SHOP, ServiceRoute(rules=RULES, port=number))
    assert world.ports.numbers() == {SHOP: number}
    await world.clock_moves(LINGER + PATIENCE)
    client_sees = await world.status(number)
    assert client_sees == 200
    port = world.ports.ports[SHOP].port
    assert (port.reconnect, port.insists) == (False, False)


async def test_a_port_that_stays_open_makes_room_for_another_service(world: Ports) -> None:
    number = free_port()
    world.ports.set_route(SHOP, ServiceRoute(rules=RULES, port=number))
    world.ports.set_route(SHOP, ServiceRoute(rules=RULES))
    world.ports.set_route(OTHER, ServiceRoute(rules=(RouteRule(("other.ns",)),), port=number))
    assert world.ports.numbers() == {OTHER: number}
    await world.clock_moves(LINGER)
    assert world.ports.numbers() == {OTHER: number}
    assert await world.status(number) == 404


async def test_a_port_that_stays_open_closes_with_the_activator_or_its_service(
    world: Ports,
) -> None:
    first, second = free_port(), free_port()
    world.ports.set_route(SHOP, ServiceRoute(rules=RULES, port=first))
    world.ports.set_route(SHOP, ServiceRoute())
    assert await world.status(first) == 0, "its requests would only get 404"
    world.ports.set_route(SHOP, ServiceRoute(rules=RULES, port=first))
    world.ports.set_route(SHOP, ServiceRoute(rules=RULES))
    assert await world.status(first) == 404
    world.ports.set_route(SHOP, ServiceRoute())
    assert await world.status(first) == 0
    world.ports.set_route(OTHER, ServiceRoute(rules=(RouteRule(("other.ns",)),), port=second))
    world.ports.set_route(OTHER, ServiceRoute(rules=(RouteRule(("other.ns",)),)))
    assert await world.status(second) == 404
    world.ports.close()
    assert await world.status(second) == 0


@pytest.mark.parametrize("port", [65536, 99_999])
async def test_a_number_that_is_no_port_harms_nothing(world: Ports, port: int) -> None:
    world.ports.set_route(SHOP, ServiceRoute(port=port))
    assert world.ports.numbers() == {}


async def test_clients_are_asked_to_reconnect_while_the_route_says_so(world: Ports) -> None:
    number = free_port()
    world.ports.set_route(SHOP, ServiceRoute(port=number))
    port = world.ports.ports[SHOP].port
    world.ports.set_route(SHOP, ServiceRoute(port=number, reconnect=True))
    assert (port.reconnect, port.insists) == (True, False)
    await world.clock_moves(PATIENCE)
    assert port.insists
    world.ports.set_route(SHOP, ServiceRoute(port=number))
    assert (port.reconnect, port.insists) == (False, False)
    world.ports.set_route(SHOP, ServiceRoute(port=number, reconnect=True))
    world.ports.set_route(SHOP, ServiceRoute(port=number))
    await world.clock_moves(PATIENCE)
    await turns()
    assert not port.insists


async def test_pods_see_the_ipv4_address_of_a_client_that_a_port_of_both_families_accepts(
    world: Ports,
) -> None:
    pod = await world.pod()
    throttler = world.serve(pod)
    await until(lambda: throttler.statistics().healthy == 1)
    both = ServicePorts(world.proxy, "::", TcpClients(world.proxy).accept)
    both.start()
    number = free_port()
    both.set_route(SHOP, ServiceRoute(port=number))
    if not both.numbers():  # a kernel without IPv6
        both.close()
        return
    assert await world.status(number) == 200
    both.close()
    fields = {name.lower(): value for name, value in pod.requests[-1].headers}
    assert fields[b"x-forwarded-for"] == b"127.0.0.1"
