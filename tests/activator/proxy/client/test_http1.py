"""A client's connection: the proxy splits its bytes into requests, and responds in order."""

from __future__ import annotations

import socket

import pytest

from activator.proxy.message.request import RequestLimits
from tests.activator.proxy.world import about, ok, request, turns, until
from tests.conftest import both_loops, in_virtual_time, on_uvloop

NOT_FOUND = b"Host: nowhere\r\n"
SMALL_BUFFER = 4096
#: More than the kernel's buffers between two sockets of this machine take. It is more than two
#: kernels and the activator keep of unread bytes. A connection to a pod may keep 32 MiB.
LARGE = 48 << 20


@both_loops
async def test_a_request_gets_the_response_of_its_pod(world):
    pod = await world.serving()

    answer = await world.ask(request(b"/path?query"))

    assert (answer.status, answer.body) == (200, b"hello")
    assert [seen.target for seen in pod.requests] == [b"/path?query"]


async def test_a_request_in_single_bytes_is_the_same_request(world):
    pod = await world.serving()
    client = await world.client()

    await client.drip(request(b"/", b"POST", body=b"twelve bytes"))

    assert (await client.answer()).status == 200
    assert [seen.body for seen in pod.requests] == [b"twelve bytes"]


@both_loops
async def test_keep_alive_serves_one_request_after_the_other(world):
    pod = await world.serving()
    client = await world.client()
    for number in range(3):
        client.send(request(b"/%d" % number))
        assert (await client.answer()).status == 200

    assert [seen.target for seen in pod.requests] == [b"/0", b"/1", b"/2"]
    assert len(pod.connections) == 1
    assert not client.eof


@both_loops
@pytest.mark.parametrize("size", [1, 7, 100_000])
async def test_pipelined_requests_get_responses_in_order_also_with_own_ones_between(world, size):
    pod = await world.serving()
    pod.answer = lambda seen: ok(seen.target)
    client = await world.client()
    unknown = b"GET /x HTTP/1.1\r\n" + NOT_FOUND + b"\r\n"
    probe = b"HEAD /x HTTP/1.1\r\nHost: h\r\nK-Network-Probe: activator\r\n\r\n"
    wire = request(b"/1") + unknown + request(b"/2", b"POST", body=b"two") + probe + request(b"/3")

    await client.drip(wire, size)

    assert (await client.answer()).body == b"/1"
    assert (await client.answer()).status == 404
    assert (await client.answer()).body == b"/2"
    assert (await client.answer(b"HEAD")).get(b"content-length") == b"9"
    assert (await client.answer()).body == b"/3"
    assert [seen.target for seen in pod.requests] == [b"/1", b"/2", b"/3"]
    assert not client.eof


@both_loops
@pytest.mark.parametrize(
    "fields", [NOT_FOUND, b"Host: h\r\nK-Network-Probe: activator\r\n"], ids=["404", "probe"]
)
@pytest.mark.parametrize("size", [1, 100_000])
async def test_a_body_that_an_own_response_leaves_unread_is_no_request(world, fields, size):
    pod = await world.serving()
    client = await world.client()
    smuggled = request(b"/smuggled")
    head = b"POST / HTTP/1.1\r\n%bContent-Length: %d\r\n\r\n" % (fields, len(smuggled) + 1)

    await client.drip(head + smuggled, size)

    answer = await client.answer()
    assert answer.get(b"connection") == b"close" or not client.eof
    await turns(50)
    assert not pod.requests


async def test_what_follows_connection_close_is_not_served(world):
    pod = await world.serving()
    client = await world.client()

    client.send(request(b"/1", fields=b"Connection: close\r\n") + request(b"/2"))

    assert (await client.answer()).get(b"connection") == b"close"
    await client.ended()
    await turns(50)
    assert [seen.target for seen in pod.requests] == [b"/1"]


async def test_connection_close_holds_for_own_responses_too(world):
    for wire in (
        b"GET / HTTP/1.1\r\nHost: nowhere\r\nConnection: close\r\n\r\n",
        b"GET / HTTP/1.0\r\n\r\n",
    ):
        client = await world.client()
        client.send(wire)
        answer = await client.answer()
        assert (answer.status, answer.get(b"connection")) == (404, b"close")
        await client.ended()


async def test_http_1_0_is_closed_unless_keep_alive_is_asked_for(world):
    pod = await world.serving()
    client = await world.client()
    old = request().replace(b"HTTP/1.1", b"HTTP/1.0")
    client.send(old.replace(b"\r\n\r\n", b"\r\nConnection: keep-alive\r\n\r\n"))
    answer = await client.answer()
    assert answer.get(b"connection") == b"keep-alive"

    client.send(old)
    assert (await client.answer()).get(b"connection") == b"close"
    await client.ended()
    assert len(pod.requests) == 2


@both_loops
async def test_http_1_0_gets_a_body_of_unknown_length_until_the_close(world):
    pod = await world.serving()
    pod.answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    client = await world.client()

    client.send(b"GET / HTTP/1.0\r\nKnative-Serving-Namespace: ns\r\n")
    client.send(b"Knative-Serving-Revision: rev\r\nConnection: keep-alive\r\n\r\n")

    await client.ended()
    answer = await client.answer()
    assert answer.body == b"abc"
    assert answer.get(b"transfer-encoding") is None
    assert client.received.endswith(b"\r\n\r\nabc")


@both_loops
async def test_a_half_closed_client_gets_the_responses_to_all_it_sent(world):
    pod = await world.serving()
    pod.answer = lambda seen: ok(seen.target)
    client = await world.client()

    client.send(request(b"/1") + request(b"/2") + request(b"/3"))
    client.end_sending()

    for number in (b"/1", b"/2", b"/3"):
        assert (await client.answer()).body == number
    await client.ended()
    assert len(pod.requests) == 3


@both_loops
async def test_a_half_closed_client_that_waits_is_served_when_a_pod_comes(world):
    pod = await world.pod()
    world.revise()
    client = await world.client()
    client.send(request())
    client.end_sending()
    await until(lambda: world.waiting == 1)
    await turns(20)
    assert world.waiting == 1

    world.list(pod)

    assert (await client.answer()).status == 200
    await client.ended()


@both_loops
@pytest.mark.parametrize("leave", ["close", "abort"])
async def test_a_client_that_leaves_while_it_waits_frees_its_place(world, leave):
    world.revise()
    client = await world.client()
    client.send(request())
    await until(lambda: world.waiting == 1)

    getattr(client, leave)()

    # A close looks like a half-close until a write. The client writes at once, and checks a moment
    # later.
    await world.in_time(lambda: not world.busy)


@both_loops
async def test_an_end_in_the_middle_of_a_body_is_no_whole_request(world):
    pod = await world.serving()
    client = await world.client()
    client.send(request(b"/", b"POST", fields=b"Content-Length: 10\r\n") + b"five!")
    await until(lambda: pod.requests and pod.requests[0].body == b"five!")

    client.end_sending()

    assert (await client.answer()).status == 400
    await client.ended()
    assert not pod.requests[0].whole
    await until(lambda: not pod.open)


async def test_a_head_that_never_ends_gets_408(new_world):
    world = await new_world(header_timeout=1.0)
    client = await world.client()
    started = world.now()
    client.send(b"GET / HTTP/1.1\r\nHost: h\r\n")

    answer = await client.answer()

    assert answer.status == 408
    assert answer.get(b"connection") == b"close"
    await client.ended()
    assert world.now() - started == about(1.0, within=0.2)


@in_virtual_time
async def test_dripping_a_head_does_not_win_time(new_world):
    world = await new_world(header_timeout=0.3)
    client = await world.client()
    client.send(b"GET / HTTP/1.1\r\n")
    for _ in range(100):
        if client.eof:
            break
        client.send(b"X-A: b\r\n")
        await world.clock_moves(0.02)

    assert client.received.startswith(b"HTTP/1.1 408 ")
    assert world.now() < 100 * 0.02 or client.eof


@in_virtual_time
async def test_an_idle_connection_stays_and_may_ask_later(new_world):
    world = await new_world(header_timeout=0.05)
    await world.serving()
    client = await world.client()
    client.send(request())
    assert (await client.answer()).status == 200
    await world.clock_moves(0.2)
    client.send(request())
    assert (await client.answer()).status == 200


@pytest.mark.parametrize(
    ("limits", "wire", "status"),
    [
        pytest.param(
            RequestLimits(max_head=2000),
            b"GET / HTTP/1.1\r\nHost: h\r\nX: " + b"a" * 3000,
            431,
            id="head",
        ),
        pytest.param(
            RequestLimits(max_head=2000),
            b"GET / HTTP/1.1\r\nHost: h\r\nX: " + b"a" * 3000 + b"\r\n\r\n",
            431,
            id="whole-head",
        ),
        pytest.param(
            RequestLimits(max_fields=10),
            b"GET / HTTP/1.1\r\nHost: h\r\n" + b"X: y\r\n" * 10 + b"\r\n",
            431,
            id="fields",
        ),
        pytest.param(
            RequestLimits(max_target=100), b"GET /" + b"a" * 300 + b" HTTP/1.1", 414, id="target"
        ),
        pytest.param(
            RequestLimits(max_target=100),
            b"GET /" + b"a" * 100 + b" HTTP/1.1\r\nHost: h\r\n\r\n",
            414,
            id="whole-target",
        ),
    ],
)
@pytest.mark.parametrize("size", [97, 100_000])
async def test_a_head_beyond_a_limit_is_refused(new_world, limits, wire, status, size):
    world = await new_world(limits=limits)
    client = await world.client()

    await client.drip(wire, size)

    answer = await client.answer()
    assert (answer.status, answer.get(b"connection")) == (status, b"close")
    await client.ended()


@both_loops
async def test_a_refusal_arrives_although_the_client_goes_on_sending(new_world):
    world = await new_world(limits=RequestLimits(max_head=2000))
    client = await world.client()

    client.send(b"GET / HTTP/1.1\r\nHost: h\r\nX: " + b"a" * 60_000)

    assert (await client.answer()).status == 431
    await client.ended()
    assert not client.reset


# In real time: the kernel, too, waits now and then where the window is small.
@on_uvloop
async def test_a_client_that_reads_slowly_stops_the_pod(world):
    pod = await world.serving()
    pod.answer = ok(b"x" * LARGE)
    client = await world.client(SMALL_BUFFER)
    client.transport.pause_reading()
    client.send(request())
    await until(lambda: pod.requests)
    await turns(500)

    assert pod.connections[0].transport.get_write_buffer_size() > 0
    (downstream,) = world.proxy.connections
    assert downstream.transport.get_write_buffer_size() < 1 << 20

    client.transport.resume_reading()
    await client.size(LARGE)
    assert client.received[-3:] == b"xxx"


@both_loops
async def test_the_pods_connection_is_of_use_again_after_a_slow_client(world):
    """The last piece of a response may fill the client's buffer after the pod has finished."""
    for size in (300_000, 3_000_000, 6_000_000):
        pod = await world.serving()
        pod.answer = ok(b"x" * size)
        client = await world.client(SMALL_BUFFER)
        client.transport.pause_reading()
        client.send(request())
        await until(lambda pod=pod: pod.requests)
        await turns(300)

        pod.answer = ok(b"small")
        for _ in range(3):
            assert (await world.ask()).status == 200
        client.abort()


@both_loops
async def test_a_client_that_reads_no_responses_is_read_no_more(world):
    await world.serving(answer=ok(b"x" * 100_000))
    client = await world.client(SMALL_BUFFER)
    client.transport.pause_reading()
    client.send(request() * 400)
    await turns(3000)

    (downstream,) = world.proxy.connections
    assert downstream.transport.get_write_buffer_size() < 1 << 20
    assert world.loads.popitem()[1].ever < 400


@both_loops
async def test_own_responses_do_not_pile_up_for_a_client_that_reads_none(world):
    client = await world.client(SMALL_BUFFER)
    client.transport.pause_reading()
    client.send(b"GET / HTTP/1.1\r\nHost: nowhere\r\n\r\n" * 600_000)
    await turns(2000)

    (downstream,) = world.proxy.connections
    assert downstream.transport.get_write_buffer_size() < 1 << 20
    assert client.transport.get_write_buffer_size() > 0  # nor are its requests read any more
    answered = world.proxy.counters.unknown_revisions
    assert answered < 600_000

    client.transport.resume_reading()
    await until(lambda: world.proxy.counters.unknown_revisions > answered)


@both_loops
async def test_all_pipelined_requests_get_responses_once_a_slow_client_reads(world):
    pod = await world.serving()
    pod.answer = lambda seen: ok(seen.target + b"x" * 100_000)
    client = await world.client(SMALL_BUFFER)
    client.transport.pause_reading()
    client.send(b"".join(request(b"/%03d" % number) for number in range(100)))
    await turns(1000)
    client.transport.resume_reading()

    for number in range(100):
        assert (await client.answer()).body[:4] == b"/%03d" % number


@both_loops
async def test_a_client_that_sends_on_while_its_request_waits_is_read_no_more(world):
    pod = await world.pod()
    pod.answer = lambda seen: ok(seen.target)
    world.revise()
    client = await world.client()
    kernel = client.transport.get_extra_info("socket")
    kernel.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 << 10)
    targets = [b"/%d" % number for number in range(200)]  # 4 MB, more than the kernel takes
    client.send(b"".join(request(target, b"POST", body=bytes(20_000)) for target in targets))
    await until(lambda: world.waiting == 1)
    await turns(3000)
    assert client.transport.get_write_buffer_size() > 2 << 20

    world.list(pod)

    assert [(await client.answer()).body for _ in targets] == targets
    assert [seen.target for seen in pod.requests] == targets


# -- clients that leave while the proxy does not read from them ------------------------------


def upload(length: int, sent: int) -> bytes:
    """Return the beginning of a POST of ``length`` bytes, more than the proxy holds."""
    return request(b"/", b"POST", b"Content-Length: %d\r\n" % length) + b"x" * sent


def chunked(sent: int) -> bytes:
    head = request(b"/", b"POST", b"Transfer-Encoding: chunked\r\n")
    return head + b"%x\r\n" % sent + b"x" * sent


@both_loops
@pytest.mark.parametrize(
    "data", [upload(900_000, 100_000), chunked(100_000)], ids=["length", "chunks"]
)
@pytest.mark.parametrize("leave", ["close", "abort"])
async def test_a_client_that_leaves_with_its_body_unread_frees_its_place(new_world, data, leave):
    world = await new_world(hold_bytes=1000)
    world.revise(timeout=1000.0)
    client = await world.client()
    client.send(data[:2000])
    await until(lambda: world.waiting)
    client.send(data[2000:])
    await until(lambda: client.transport.get_write_buffer_size() == 0)
    getattr(client, leave)()
    await until_in_time(world, lambda: not world.waiting, 20.0)


@both_loops
async def test_a_client_that_has_ended_its_side_and_waits_is_served(new_world):
    """As ``nc -N`` does; the whole body is in the kernel."""
    world = await new_world(hold_bytes=1000)
    pod = await world.pod()
    world.revise(timeout=1000.0)
    client = await world.client()
    data = upload(100_000, 100_000)
    client.send(data[:2000])
    await until(lambda: world.waiting)
    client.send(data[2000:])
    client.end_sending()
    await world.clock_moves(0.5)
    world.list(pod)
    assert (await client.answer(b"POST")).status == 200
    assert pod.requests[0].body == b"x" * 100_000


async def test_a_client_that_is_only_not_read_from_gets_no_byte(new_world):
    """Some clients take an unexpected 100 as the response: nginx passes it on as one."""
    world = await new_world(hold_bytes=1000)
    pod = await world.pod()
    world.revise(timeout=1000.0)
    client = await world.client()
    client.send(upload(100_000, 50_000))
    await until(lambda: world.waiting)
    await world.clock_moves(0.5)
    assert client.received == b""
    client.send(b"x" * 50_000)
    world.list(pod)
    answer = await client.answer(b"POST")
    assert (answer.status, answer.interim) == (200, [])


async def until_in_time(world, condition, seconds: float) -> None:
    """Wait for a condition that needs time to pass."""
    started = world.now()
    while not condition():
        assert world.now() - started < seconds
        await world.clock_moves(0.05)
