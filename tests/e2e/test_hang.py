"""A pod's process stops with requests in flight, as on a frozen node, and continues later."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from time import monotonic

import pytest

from activator.lab.programs import ClientResponse
from tests.e2e.world import Pod, World
from tests.process import PATIENCE, until

pytestmark = pytest.mark.e2e


async def test_a_pod_that_hangs_gets_nothing_new_until_it_goes_on(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        world.write_revision(container_concurrency=10)
        stuck, well = [await world.start_pod(f"hang-{number}") for number in (1, 2)]
        world.list_pods([pod.listed(ready=True) for pod in (stuck, well)])
        await world.start_activator()
        held = await _give_both_a_request(world, stuck, well)

        stuck.process.send_signal(signal.SIGSTOP)
        give_up = monotonic() + PATIENCE
        while (await world.seen(stuck))["decision"] == "use":
            assert monotonic() < give_up, "the pod that hangs is used"
            held.append(asyncio.ensure_future(world.fetch()))
            await asyncio.wait(held[-1:], timeout=0.2)  # the other pod serves this load
        replies = [await world.fetch() for _ in range(20)]
        assert [reply.status for reply in replies] == [200] * 20
        assert all(well.options.name in reply.body for reply in replies)
        page = await world.explain()
        (silent,) = [line for line in page.splitlines() if line.startswith("Silent")]
        assert stuck.options.address in silent
        assert "begun no response for" in silent
        (row,) = [row for row in page.splitlines() if row.startswith(stuck.options.address)]
        assert "wait" in row
        assert "no response in" in row

        stuck.process.send_signal(signal.SIGCONT)
        assert {reply.status for reply in await asyncio.gather(*held)} == {200}

        async def used() -> bool:
            return bool((await world.seen(stuck))["usable"])

        await until(used, "the pod that goes on is used")
        answered = sum(told["event"] == "responded" for told in stuck.events)
        await asyncio.gather(*(world.fetch("/sleep?ms=100") for _ in range(20)))
        await stuck.wait_for("responded", answered + 1)
        assert "Silent" not in await world.explain()


async def _give_both_a_request(
    world: World, stuck: Pod, well: Pod
) -> list[asyncio.Task[ClientResponse]]:
    """Send requests that take some seconds until both pods have one; return them."""
    held = []

    async def both() -> bool:
        held.append(asyncio.ensure_future(world.fetch("/sleep?ms=3000")))
        return all([(await world.seen(pod)).get("inFlight") for pod in (stuck, well)])

    await until(both, "both pods have a request")
    return held
