from __future__ import annotations

import asyncio

from tests.activator.lab.control_plane.world import SERVICES, SLICES, service, slice_


def owned_by(uid: str) -> dict[str, object]:
    owner = {"apiVersion": "v1", "kind": "Service", "name": "web", "uid": uid}
    return slice_("web-activator", "10.0.0.1", ownerReferences=[owner])


async def gone_after(world, path: str) -> float:
    """Return the seconds until an object is deleted."""
    loop = asyncio.get_running_loop()
    watch = await world.watch(f"{path}?watch=1&resourceVersion={world.plane.store.version}")
    began = loop.time()
    assert b'"DELETED"' in await anext(watch.lines())
    watch.close()
    return loop.time() - began


async def test_slice_is_deleted_half_a_second_after_its_service(world):
    made = await world.send("POST", SERVICES, service())
    await world.send("POST", SLICES, owned_by(made["metadata"]["uid"]))
    await world.send("DELETE", f"{SERVICES}/web")
    assert await gone_after(world, SLICES) == 0.5


async def test_slice_with_a_wrong_owner_is_accepted_and_deleted_within_four_seconds(world):
    await world.send("POST", SERVICES, service())
    await world.send("POST", SLICES, owned_by("old-uid"))
    assert await gone_after(world, SLICES) == 4.0


async def test_slice_stays_while_one_owner_exists(world):
    made = await world.send("POST", SERVICES, service())
    found = owned_by("old-uid")
    found["metadata"]["ownerReferences"] += owned_by(made["metadata"]["uid"])["metadata"][  # type: ignore[index] # JSON has no types
        "ownerReferences"
    ]
    await world.send("POST", SLICES, found)
    await world.send("POST", SERVICES, service("other"))
    await world.send("DELETE", f"{SERVICES}/other")
    loop = asyncio.get_running_loop()
    waiting = loop.create_future()
    loop.call_later(10, waiting.set_result, None)
    await waiting
    await world.send("GET", f"{SLICES}/web-activator")
