"""One request and its response: when it is sent again; shown with HTTP/1."""

from __future__ import annotations

import pytest

from activator.proxy.pods.pool import PoolLimits
from tests.activator.proxy.world import (
    PodConnection,
    World,
    about,
    answer_whole,
    ok,
    own_world,
    request,
    turns,
    until,
)
from tests.conftest import both_loops, in_virtual_time
from tests.rows import all_pairs

#: More than the kernel's buffers between two sockets of this machine take.
LARGE = 12 << 20


# -- a pod that fails: when a request is sent again ----------------------------------------------


@both_loops
async def test_a_refused_connection_puts_the_request_back_for_another_pod(world):
    pods = [await world.pod(), await world.pod()]
    gone, other = sorted(pods, key=lambda pod: pod.endpoint)  # the policy takes the first free pod
    other.answer = ok(b"other")
    world.revise(gone, other, container_concurrency=1)
    await until(lambda: world.revision().statistics().healthy == 2)
    await gone.refuse()

    for _ in range(4):
        assert (await world.ask(request(b"/", b"POST", body=b"x"), b"POST")).body == b"other"

    assert world.counters().requeues == {"connect-failed": 1}


async def test_a_request_that_no_pod_takes_waits_first_in_line(world):
    pod = await world.pod()
    world.revise(pod, container_concurrency=1)
    await until(lambda: world.revision().statistics().healthy == 1)
    await pod.refuse()
    first = await world.client()
    first.send(request(b"/first", b"POST", body=b"x"))
    await until(lambda: world.waiting == 1)
    second = await world.client()
    second.send(request(b"/second"))
    await until(lambda: world.waiting == 2)

    await pod.listen()
    (tracker,) = world.revision().pods()
    world.driver.probe_passed(tracker, tracker.epoch)

    assert (await first.answer()).status == 200
    assert (await second.answer()).status == 200
    assert [seen.target for seen in pod.requests] == [b"/first", b"/second"]


@in_virtual_time
async def test_a_connect_without_a_reply_of_the_pod_times_out(new_world):
    world = await new_world(pool=PoolLimits(connect_timeout=0.2))
    hole, other = await world.unreachable(), await world.pod()
    world.revise(hole, other, container_concurrency=1)
    await until(lambda: world.revision().statistics().healthy == 2)
    clients = [await world.client() for _ in range(2)]
    started = world.now()
    for client in clients:
        client.send(request(b"/", b"POST", body=b"x"))

    for client in clients:
        assert (await client.answer()).status == 200

    assert world.now() - started == about(0.2, within=0.15)
    assert world.counters().requeues == {"connect-timeout": 1}


async def test_the_deadline_holds_while_a_connection_is_opened(new_world):
    world = await new_world(pool=PoolLimits(connect_timeout=5.0))
    hole = await world.unreachable()
    world.revise(hole, timeout=0.3)
    await until(lambda: world.revision().statistics().healthy == 1)
    client = await world.client()
    started = world.now()
    client.send(request())

    answer = await client.answer()

    assert (answer.status, answer.body) == (504, b"activator request timeout")
    assert answer.get(b"activator-reason") == b"response-late; timeoutSeconds 0.3; still connecting"
    assert world.now() - started == about(0.3, within=0.15)


@both_loops
async def test_a_client_that_leaves_while_a_connection_is_opened_frees_the_slot(new_world):
    world = await new_world(pool=PoolLimits(connect_timeout=5.0))
    hole = await world.unreachable()
    world.revise(hole, container_concurrency=1)
    await until(lambda: world.revision().statistics().healthy == 1)
    client = await world.client()
    client.send(request())
    await until(lambda: world.in_flight == 1)
    client.abort()
    await world.idle()


@both_loops
async def test_an_idle_connection_that_the_pod_has_closed_is_not_used(world):
    pod = await world.serving()
    for method in (b"POST", b"GET", b"PUT"):
        assert (await world.ask(request(b"/", method, body=b"x"), method)).status == 200
        for connection in pod.open:
            connection.close()
        # No turn of the loop in between: only the kernel knows of the close yet.
        assert (await world.ask(request(b"/", method, body=b"x"), method)).status == 200
    assert not world.counters().outcomes["upstream-failed"]


@both_loops
@pytest.mark.parametrize("end", ["close", "reset"])
async def test_a_pod_that_accepts_and_drops_has_not_seen_the_request(world, end):
    pod, drops = await world.pod(), await world.pod()
    drops.on_connect = lambda connection: getattr(connection, end)()
    world.healthy = lambda tracker: not tracker.probe.failures
    world.revise(drops, container_concurrency=1)
    await until(lambda: world.revision().statistics().healthy == 1)
    client = await world.client()
    client.send(request())
    await until(lambda: world.waiting or drops.connections)
    await turns(30)
    world.list(pod)

    answer = await client.answer()

    assert answer.status == 200
    assert len(pod.requests) == 1


REQUESTS = {
    "GET": request(b"/x"),
    "HEAD": request(b"/x", b"HEAD"),
    "OPTIONS": request(b"/x", b"OPTIONS"),
    "PUT": request(b"/x", b"PUT", body=b"small body"),
    "PUT-chunked": request(b"/x", b"PUT", fields=b"Transfer-Encoding: chunked\r\n")
    + b"5\r\nsmall\r\n0\r\n\r\n",
    "PUT-large": request(b"/x", b"PUT", body=b"b" * 200_000),
    "POST": request(b"/x", b"POST"),
    "POST-body": request(b"/x", b"POST", body=b"small body"),
    "POST-large": request(b"/x", b"POST", body=b"b" * 200_000),
    "PATCH": request(b"/x", b"PATCH", body=b"small body"),
    "FROB": request(b"/x", b"FROB"),
}
OFFSETS = ("0", "1", "in-head", "head", "in-body", "whole")


@both_loops
@pytest.mark.parametrize("name", REQUESTS)
async def test_a_pod_that_closes_anywhere_in_a_request(anyio_backend, name):
    """The proxy repeats an idempotent request while it holds all of it; otherwise it sends 502."""
    for row in all_pairs(OFFSETS, ("close", "reset"), (False, True)):
        async with own_world(*row) as world:
            await closes_in_a_request(world, name, *row)


async def closes_in_a_request(world: World, name: str, offset: str, end: str, reused: bool) -> None:
    pod = await world.serving()
    wire = REQUESTS[name]
    method = name.partition("-")[0].encode()
    if reused:
        assert (await world.ask()).status == 200
    before = len(pod.connections) - reused
    total = 0

    def cut(connection: PodConnection) -> None:
        nonlocal total
        received = connection.received[request_at(connection) :]
        head = received.find(b"\r\n\r\n") + 4
        reached = {
            "0": True,
            "1": len(received) >= 1,
            "in-head": len(received) >= 50,
            "head": head > 4,
            "in-body": len(received) > head > 4,
            "whole": connection.requests[-1].whole if connection.requests else False,
        }[offset]
        if reached or (connection.requests and connection.requests[-1].whole):
            total += 1
            pod.on_data = answer_whole
            getattr(connection, end)()

    pod.on_data = cut
    client = await world.client()
    client.send(wire)
    answer = await client.answer(method)

    client.end_sending()
    await client.ended()
    assert client.received.count(b"HTTP/1.1 ") == 1, "exactly one answer"
    seen = [s for c in pod.connections[before:] for s in c.requests if s.target == b"/x"]
    if method in (b"GET", b"HEAD", b"OPTIONS") or name in ("PUT", "PUT-chunked"):
        assert answer.status == 200
        assert sum(s.whole for s in seen) <= 2
    elif name == "PUT-large":
        assert answer.status in (200, 502)
    else:
        assert answer.status == 502
        assert len(seen) <= 1, "what may have had an effect is sent once"


def request_at(connection: PodConnection) -> int:
    """Return where the last request on a reused connection begins."""
    return max(0, connection.received.rfind(b" /x HTTP/1.1") - 10)


@both_loops
@pytest.mark.parametrize("end", ["close", "reset"])
async def test_a_pod_that_closes_anywhere_in_its_response(world, end):
    """One byte of a response proves that the pod has the request: the proxy never repeats it."""
    answer = ok(b"hello", b"X-A: b\r\n")
    for cut_at in range(1, len(answer)):
        pod = await world.serving()

        def cut(connection: PodConnection, cut_at: int = cut_at) -> None:
            connection.write(answer[:cut_at])
            world.loop.call_later(0.001, getattr(connection, end))

        pod.on_data = cut
        client = await world.client()
        client.send(request())
        await client.ended_or_answered()
        head = answer.index(b"\r\n\r\n") + 4
        if cut_at < head:
            assert (await client.answer()).status == 502, cut_at
        else:
            await client.ended()
            assert b"502" not in client.received, cut_at
        assert len(pod.requests) == 1, cut_at
        client.abort()


async def test_a_pod_that_always_closes_ends_in_502_after_some_tries(world):
    pod = await world.serving()
    world.healthy = lambda tracker: True
    pod.on_data = lambda connection: connection.close()
    client = await world.client()
    client.send(request())
    assert (await client.answer()).status == 502
    assert 1 < len(pod.requests) <= 4


@both_loops
@pytest.mark.parametrize(
    "wire",
    [
        request(b"/x"),
        request(b"/x", b"POST", body=b"small body"),
        request(b"/x", b"PUT", body=b"b" * 200_000),
        request(b"/x", fields=b"Connection: Upgrade\r\nUpgrade: websocket\r\n"),
    ],
    ids=["get", "post", "large-put", "websocket"],
)
async def test_a_connection_that_the_pod_closes_at_its_reuse_costs_no_request(world, wire):
    """The kernel knows of the close, the loop does not yet."""
    pod = await world.serving()
    assert (await world.ask()).status == 200
    (load,) = world.loads.values()
    load.calm()
    load.on_first = pod.connections[0].end_behind_the_loop
    client = await world.client()

    client.send(wire)

    assert (await client.answer()).status == 200
    assert [seen.target for seen in pod.requests] == [b"/", b"/x"]
    assert len(pod.connections) == 2


@both_loops
async def test_a_repeated_request_is_read_on_though_its_first_pod_was_full(new_world):
    world = await new_world(hold_bytes=64 << 20)
    pod = await world.pod(receive_buffer=4096)
    pod.on_connect = lambda connection: connection.transport.pause_reading()
    world.revise(pod)
    await until(lambda: world.revision().statistics().healthy == 1)
    client = await world.client()
    client.send(request(b"/", b"PUT", fields=b"Content-Length: %d\r\n" % (2 * LARGE)))
    await until(lambda: pod.connections)
    client.send(b"b" * 2 * LARGE)
    await turns(300)
    assert client.transport.get_write_buffer_size() > 0

    pod.on_connect = lambda connection: connection.widen()
    pod.connections[0].reset()

    assert (await client.answer()).status == 200
    assert len(pod.requests[-1].body) == 2 * LARGE
