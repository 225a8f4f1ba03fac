"""The traces of a request's wait: cold starts, and fields for clients that may see them."""

from __future__ import annotations

import re

import pytest

from activator.proxy.exchange.wait import WARM
from tests.activator.proxy.world import (
    NAME,
    NAMESPACE,
    about,
    answer_whole,
    ok,
    request,
    turns,
    until,
)
from tests.conftest import in_virtual_time
from throttler.model import RevisionID
from throttler.throttler import Limits

TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
METRIC = rf"({TOKEN})(?:;({TOKEN})=({TOKEN}|\"[^\"\\]*\"))"
#: https://www.w3.org/TR/server-timing/#the-server-timing-header-field, without unused parts.
SERVER_TIMING = re.compile(rf"{METRIC}(, {METRIC})*")


def timing(answer):
    """Return the metrics of the activator's field: durations in seconds, descriptions."""
    (value,) = (v for k, v in answer.headers if k == b"server-timing" and b"queue;" in v)
    text = value.decode()
    assert SERVER_TIMING.fullmatch(text), text
    found = {name: said for name, _, said in re.findall(METRIC, text)}
    return {n: said if said[0] == '"' else float(said) / 1000 for n, said in found.items()}


def cold_starts(world, name=NAME):
    return world.driver.cold_starts.views(RevisionID(NAMESPACE, name))


async def waiter(world, data=None):
    before = world.waiting
    client = await world.client()
    client.send(data or request())
    await until(lambda: world.waiting == before + 1)
    return client


async def one_has_the_slot_and_one_waits(world):
    """Return the only pod, whose next response is whole, and the clients of both requests."""
    pod = await world.serving(container_concurrency=1)
    pod.on_data = lambda connection: None
    first = await world.client()
    first.send(request())
    await until(lambda: pod.requests)
    second = await waiter(world)
    pod.on_data = answer_whole
    return pod, first, second


def passes(world):
    for pod in world.revision().pods():
        world.driver.probe_passed(pod, pod.epoch)


# -- cold starts ---------------------------------------------------------------------------------


async def test_a_cold_start_ends_with_the_first_byte_of_the_first_response(world):
    world.revise(container_concurrency=1)
    pod = await world.pod()
    pod.on_data = lambda connection: None
    clients = [await waiter(world) for _ in range(3)]
    await world.clock_moves(0.1)
    world.list(pod)
    await until(lambda: pod.requests)
    assert cold_starts(world)[0]["outcome"] is None
    await world.clock_moves(0.1)
    pod.on_data = answer_whole
    answer_whole(pod.connections[0])
    for client in clients:
        assert (await client.answer()).status == 200
    await world.idle()
    (cold_start,) = cold_starts(world)
    assert (cold_start["outcome"], cold_start["requests"], cold_start["pod"]) == (
        *("served", 3),
        pod.endpoint.address,
    )
    phases = cold_start["phases"]
    # This world's prober does not report the times of its probes, and there is no autoscaler.
    assert list(phases) == ["address", "probe-passed", "dispatched", "first-byte"]
    assert phases["address"] == about(0.1, within=0.09)
    assert phases["first-byte"] - phases["dispatched"] == about(0.1, within=0.09)
    assert world.counters().cold_starts == {"served": 1}


async def test_a_request_that_finds_a_pod_or_waits_for_a_slot_is_no_cold_start(world):
    pod, first, second = await one_has_the_slot_and_one_waits(world)
    answer_whole(pod.connections[0])
    for client in (first, second):
        assert (await client.answer()).status == 200
    assert cold_starts(world) == []
    assert world.counters().cold_starts == {}


@in_virtual_time
async def test_clients_that_leave_and_deadlines_end_a_cold_start(world):
    world.revise(timeout=0.25)
    first, second = await waiter(world), await waiter(world)
    first.abort()
    assert (await second.answer()).status == 504
    await world.idle()
    assert [w["outcome"] for w in cold_starts(world)] == ["timed-out"]
    third = await waiter(world)
    third.abort()
    await world.idle()
    assert [w["outcome"] for w in cold_starts(world)] == ["cancelled", "timed-out"]


async def test_a_request_whose_only_pod_is_lost_for_a_moment_is_no_cold_start(world):
    pod = await world.serving()
    world.proxy.services.added_lines = WARM
    await pod.refuse()
    client = await waiter(world)
    await world.clock_moves(0.1)
    await pod.listen()
    passes(world)
    answer = await client.answer()
    assert (answer.status, answer.get(b"activator-cold-start")) == (200, b"false")
    assert cold_starts(world) == []


@in_virtual_time
async def test_a_dispatch_without_a_response_is_none(world):
    world.revise(timeout=0.25)
    pod = await world.pod()
    pod.on_data = lambda connection: None
    client = await waiter(world)
    world.list(pod)
    passes(world)
    await until(lambda: pod.requests)
    assert "dispatched" not in cold_starts(world)[0]["phases"]
    assert (await client.answer()).status == 504
    await world.idle()
    (cold_start,) = cold_starts(world)
    assert cold_start["outcome"] == "timed-out"
    assert "probe-passed" in cold_start["phases"]
    assert "dispatched" not in cold_start["phases"]


async def test_a_pod_that_refuses_after_its_probe_is_not_the_one_that_served(world):
    world.revise()
    client = await waiter(world)
    liar, other = await world.pod(), await world.pod()
    await liar.refuse()
    world.healthy = lambda tracker: False
    world.list(liar)
    passes(world)  # and refuses the request
    await turns(50)
    await until(lambda: world.counters().requeues == {"connect-failed": 1})
    await world.clock_moves(0.1)
    world.healthy = lambda tracker: tracker.endpoint == other.endpoint
    world.list(liar, other)
    assert (await client.answer()).status == 200
    (cold_start,) = cold_starts(world)
    assert (cold_start["requests"], cold_start["pod"]) == (1, other.endpoint.address)
    assert cold_start["phases"]["dispatched"] - cold_start["phases"]["probe-passed"] >= 0.09


async def test_a_revision_may_cold_start_again(world):
    for _ in range(2):
        world.revise()
        client = await waiter(world)
        world.list(pod := await world.pod())
        assert (await client.answer()).status == 200
        assert pod.requests
        await world.idle()
        world.list()
    assert [w["outcome"] for w in cold_starts(world)] == ["served", "served"]


async def test_a_web_socket_that_waited_ends_its_cold_start_with_the_101(world):
    world.proxy.services.added_lines, world.proxy.services.server_timing = WARM, True
    world.revise()
    client = await waiter(world, request(fields=b"Connection: Upgrade\r\nUpgrade: websocket\r\n"))
    pod = await world.pod()
    pod.on_data = lambda connection: connection.write(
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    )
    world.list(pod)
    await until(lambda: b"\r\n\r\n" in client.received)
    assert b"\r\nActivator-Cold-Start: true\r\n" in client.received
    assert b"\r\nServer-Timing: queue;dur=" in client.received
    assert cold_starts(world)[0]["outcome"] == "served"
    client.close()


# -- what clients see of it ----------------------------------------------------------------------


async def test_a_response_has_no_server_timing_unless_it_is_enabled(world):
    world.revise()
    client = await waiter(world)
    world.list(await world.pod())
    answer = await client.answer()
    assert answer.get(b"server-timing") is answer.get(b"activator-cold-start") is None


async def test_a_cold_response_says_where_its_time_went(world):
    world.proxy.services.server_timing = True
    world.healthy = lambda tracker: False
    world.revise()
    client = await waiter(world)
    await world.clock_moves(0.2)
    pod = await world.pod()
    pod.on_data = lambda connection: None
    world.list(pod)
    await world.clock_moves(0.1)
    passes(world)
    await until(lambda: pod.requests)
    await world.clock_moves(0.05)
    answer_whole(pod.connections[0])
    found = timing(await client.answer())
    assert list(found) == ["queue", "start", "scale", "probe", "pod"]
    assert found["start"] == '"cold"'
    assert found["scale"] == about(0.2, within=0.05)
    assert found["probe"] == about(0.1, within=0.05)
    assert found["pod"] == about(0.05, within=0.05)
    assert found["queue"] == pytest.approx(found["scale"] + found["probe"], abs=0.01)


async def test_a_later_request_gets_its_own_time_alone(world):
    world.proxy.services.server_timing = True
    world.healthy = lambda tracker: False
    world.revise()
    first = await waiter(world)
    await world.clock_moves(0.2)
    world.list(await world.pod())
    second = await waiter(world)
    await world.clock_moves(0.1)
    passes(world)
    await first.answer()
    found = timing(await second.answer())
    assert list(found) == ["queue", "start", "probe", "pod"]
    assert found["queue"] == about(0.1, within=0.05)


async def test_a_wait_for_room_is_warm_and_one_that_did_not_wait_says_nothing(world):
    world.proxy.services.server_timing = True
    pod, first, second = await one_has_the_slot_and_one_waits(world)
    await world.clock_moves(0.1)
    answer_whole(pod.connections[0])
    assert (await first.answer()).get(b"server-timing") is None
    found = timing(await second.answer())
    assert list(found) == ["queue", "start", "pod"]
    assert found["start"] == '"warm"'
    assert found["queue"] == about(0.1, within=0.05)


async def test_the_pods_own_server_timing_stays_beside_ours(world):
    world.proxy.services.server_timing = True
    world.revise()
    client = await waiter(world)
    pod = await world.pod()
    pod.answer = ok(fields=b"Server-Timing: db;dur=53\r\n")
    world.list(pod)
    answer = await client.answer()
    fields = [v for k, v in answer.headers if k == b"server-timing"]
    assert len(fields) == 2
    assert fields[0] == b"db;dur=53"
    assert timing(answer)["start"] == '"cold"'


async def test_own_responses_say_it_as_well(world):
    world.proxy.services.added_lines, world.proxy.services.server_timing = WARM, True
    world.revise(timeout=0.25)
    answer = await (await waiter(world)).answer()
    assert (answer.status, answer.get(b"activator-cold-start")) == (504, b"true")
    found = timing(answer)
    assert list(found) == ["queue", "start"]
    assert found["queue"] == about(0.25, within=0.1)


@pytest.mark.parametrize("version", [b"1.1", b"1.0"])
async def test_every_response_says_whether_it_was_cold(world, version):
    world.proxy.services.added_lines = WARM
    data = request().replace(b"HTTP/1.1", b"HTTP/" + version)
    world.revise()
    client = await waiter(world, data)
    world.list(await world.pod())
    assert (await client.answer()).get(b"activator-cold-start") == b"true"
    assert (await world.ask(data)).get(b"activator-cold-start") == b"false"


async def test_a_request_that_may_not_wait_was_not_cold(new_world):
    world = await new_world(queue=Limits(queue_depth=1))
    world.proxy.services.added_lines, world.proxy.services.server_timing = WARM, True
    world.revise()
    await waiter(world)
    answer = await world.ask()
    assert (answer.status, answer.get(b"activator-cold-start")) == (503, b"false")
    assert answer.get(b"server-timing") is None
    (cold_start,) = cold_starts(world)
    assert cold_start["requests"] == 1
    world.clients[0].abort()
