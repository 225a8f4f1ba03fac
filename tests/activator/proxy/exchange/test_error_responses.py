"""Error responses to requests that may not wait, or that have expired."""

from __future__ import annotations

from tests.activator.proxy.world import request, until
from tests.conftest import in_virtual_time
from throttler.throttler import Limits


async def test_a_full_queue_gets_503_at_once(new_world):
    world = await new_world(queue=Limits(queue_depth=1))
    world.revise()
    first = await world.client()
    first.send(request())
    await until(lambda: world.waiting == 1)

    second = await world.client()
    second.send(request())
    answer = await second.answer()

    assert (answer.status, answer.body) == (503, b"pending request queue full\n")
    assert answer.get(b"activator-reason") == b"queue-full; revision-depth"
    assert answer.get(b"retry-after") == b"4"
    assert not second.eof
    first.abort()


async def test_a_refused_request_gets_a_retry_time_by_how_long_it_took(new_world):
    world = await new_world(queue=Limits(queue_depth=2))
    pod = await world.serving(container_concurrency=1)
    pod.on_data = lambda connection: None
    clients = [await world.client() for _ in range(4)]
    for number, client in enumerate(clients):
        client.send(request())
        await until(lambda number=number: world.waiting == min(number, 2))
    assert (await clients[3].answer()).get(b"retry-after") == b"4", "nothing is known yet"
    world.revision().forecast.turnovers.add(20.0)

    again = await world.ask()

    # Two requests wait; the third turn is due after 60 s, and jitter takes off a fifth.
    assert (again.status, again.get(b"retry-after")) == (503, b"48")
    for client in clients[:3]:
        client.abort()


async def test_with_early_shedding_a_request_that_would_expire_is_refused_at_once(new_world):
    world = await new_world(queue=Limits(shed_early=True))
    pod = await world.serving(container_concurrency=1, timeout=50.0)
    pod.on_data = lambda connection: None
    world.revision().forecast.turnovers.add(30.0)
    clients = [await world.client() for _ in range(3)]
    for number, client in enumerate(clients):
        client.send(request())
        await until(lambda number=number: world.waiting == min(number, 1) and pod.requests)

    answer = await clients[2].answer()

    assert (answer.status, answer.body) == (503, b"expected wait exceeds the time-out\n")
    assert answer.get(b"activator-reason") == b"wait-too-long; 60.0 s expected, 50.0 s left"
    assert answer.get(b"retry-after") == b"48"
    assert world.counters().outcomes["shed"] == 1
    for client in clients[:2]:
        client.abort()


@in_virtual_time
async def test_who_is_refused_while_this_activator_ends_may_come_to_another_at_once(new_world):
    world = await new_world(queue=Limits(queue_depth=1, shed_early=True))
    pod = await world.serving(container_concurrency=1, timeout=0.25)
    pod.on_data = lambda connection: None
    busy, waiting = await world.client(), await world.client()
    busy.send(request())
    await until(lambda: pod.requests)
    waiting.send(request())
    await until(lambda: world.waiting == 1)
    world.proxy.services.draining = True
    full = await world.ask()
    world.revision().forecast.turnovers.add(30.0)
    shed = await world.ask()
    answers = [full, shed, await busy.answer(), await waiting.answer()]
    assert [answer.status for answer in answers] == [503, 503, 504, 504]
    assert shed.get(b"activator-reason").startswith(b"wait-too-long")
    assert [answer.get(b"retry-after") for answer in answers] == [b"0"] * 4
    assert world.proxy.too_many_connections().retry_after == 0
