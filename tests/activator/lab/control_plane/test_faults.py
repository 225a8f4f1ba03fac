from __future__ import annotations

from activator.lab.control_plane.status import ApiError
from tests.activator.lab.control_plane.world import SERVICES, service


async def test_right_can_be_taken_and_given_back(world):
    faults = world.plane.faults
    faults.forbid("create", "services", "")
    assert (await world.refused("POST", SERVICES, service()))[0] == 403
    faults.allow("create", "services", "")
    await world.send("POST", SERVICES, service())


async def test_scripted_responses_come_first_and_once(world):
    busy = ApiError(429, "TooManyRequests", "too many requests").response()
    world.plane.faults.script("list", "services", busy, busy)
    statuses = [(await world.try_("GET", SERVICES))[0] for _ in range(3)]
    assert statuses == [429, 429, 200]
