"""How far the start of a revision is, at each step."""

from __future__ import annotations

from activator.proxy.exchange.peek import phase_of, start_of
from activator.proxy.message.waiting_page import StartPhase
from tests.activator.proxy.world import World, answer_whole, request, until


async def test_the_phase_follows_the_start(world: World) -> None:
    world.healthy = lambda pod: False
    world.revise(container_concurrency=1, service="shop")
    throttler = world.revision()
    assert phase_of(throttler) is StartPhase.ASKED
    pod = await world.pod()
    world.list(pod)
    assert phase_of(throttler) is StartPhase.LISTED
    (tracker,) = throttler.pods()
    world.driver.probe_failed(tracker, tracker.epoch, "refused")
    assert phase_of(throttler) is StartPhase.PROBED
    start = start_of(world.driver, throttler, world.now())
    assert (start.name, start.namespace, start.reason.value) == ("shop", "ns", "probe-failing")
    world.driver.probe_passed(tracker, tracker.epoch)
    pod.on_data = lambda connection: None
    client = await world.client()
    client.send(request())
    await until(lambda: pod.requests)
    assert phase_of(throttler) is StartPhase.BUSY
    answer_whole(pod.connections[0])
    assert (await client.answer()).status == 200
