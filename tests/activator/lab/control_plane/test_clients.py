"""The clients in tests/control_plane.py, with the reader of lists and the actuator's requests."""

from __future__ import annotations

import json

import pytest

from activator.discovery.backoff import Timings
from activator.discovery.reflector import Resource, pages
from activator.discovery.wire import ConnectionLostError
from activator.scale.cluster.api import ApiUnreachable
from tests.activator.lab.control_plane.world import APPS, SERVICES, deployment, service
from tests.control_plane import InProcessClient


async def test_lists_and_watches_work_without_a_socket(world):
    await world.send("POST", SERVICES, service("a"))
    client = InProcessClient(world.plane)
    found = [page async for page in pages(client, Resource("Service", SERVICES), Timings())]
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
    with pytest.raises(ApiUnreachable):
        await client.send("GET", f"{APPS}/w/scale")
    with pytest.raises(ConnectionLostError):
        async with client.get(SERVICES, {}, 60.0):
            pass
