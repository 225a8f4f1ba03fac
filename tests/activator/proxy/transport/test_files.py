"""The budget of open files: which connections wait, close for others, or are turned away."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from activator.proxy.client.listener import PausingListener, data_server, listen
from activator.proxy.http2 import frames
from activator.proxy.http2.frames import ErrorCode
from activator.proxy.pods.pool import PoolLimits
from activator.proxy.transport.files import FileBudget, FileShares, file_limit, share_out
from tests.activator.proxy.client.test_http2 import BEGIN, asked, goaways
from tests.activator.proxy.world import Client, Pod, World, ok, request, turns, until
from tests.conftest import both_loops, in_virtual_time
from tests.rows import in_one_test

pytestmark = both_loops

KUBELET = b"GET / HTTP/1.1\r\nHost: x\r\nK-Kubelet-Probe: activator\r\n\r\n"


@in_one_test("limit", [64, 128, 256, 1024, 4096, 20_000, 1 << 18, 1 << 20])
def test_the_shares_of_a_limit_fit_into_it_and_none_is_empty(limit: int) -> None:
    shares = share_out(limit)
    if limit >= 256:
        assert shares.reserve + shares.rejected + shares.traffic <= limit
        # Listeners and other fixed files take 32; three ports have connections of their own.
        assert 32 + 3 * shares.admin + shares.probes <= shares.reserve
    assert shares.clients <= 3 * shares.traffic // 4
    assert min(shares.rejected, shares.probes, shares.admin, shares.clients) > 0


def test_a_machine_without_a_limit_counts_as_roomy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    )
    assert file_limit() == 1 << 20
    assert share_out(file_limit()).roomy
    assert not share_out(1 << 16).roomy


def test_the_shares_can_be_read(caplog: pytest.LogCaptureFixture) -> None:
    assert str(share_out(256)) == (
        "open files: limit 256, 144 for traffic (at most 108 of them for clients), "
        "16 for clients that are rejected, 96 in reserve"
    )


# -- the queue -----------------------------------------------------------------------------------


class Waiter:
    wants_connection = True
    idle: object | None = None

    def take_idle(self) -> object | None:
        return self.idle


def shares(traffic: int, probes: int = 1) -> FileShares:
    return replace(share_out(256), traffic=traffic, probes=probes)


async def test_who_waits_is_served_in_order_and_probes_first() -> None:
    budget = FileBudget(shares(1))
    assert await budget.take(Waiter()) is None
    got: list[str] = []

    async def wait(name: str, *, probe: bool = False) -> None:
        await budget.take(Waiter(), probe=probe)
        got.append(name)

    names = ("first", False), ("second", False), ("probe", True), ("next probe", True)
    tasks = [asyncio.ensure_future(wait(name, probe=probe)) for name, probe in names]
    await until(lambda: got == ["probe"])  # it has a file of its own
    assert budget.waiting == 3
    for expected in ("next probe", "first", "second"):
        budget.release()
        if expected == "first":
            budget.release()  # the file that probes alone may have
        await until(lambda expected=expected: got[-1] == expected)
    assert budget.waiting == 0
    await asyncio.gather(*tasks)


async def test_who_wants_no_connection_any_more_gets_no_file() -> None:
    budget = FileBudget(shares(1))
    await budget.take(Waiter())
    gone, cancelled, last = Waiter(), Waiter(), Waiter()
    tasks = [asyncio.ensure_future(budget.take(each)) for each in (gone, cancelled, last)]
    await until(lambda: budget.waiting == 3)
    gone.wants_connection = False
    tasks[1].cancel()
    budget.release()
    assert await tasks[2] is None
    assert budget.pods == 1
    found = await asyncio.gather(*tasks[:2], return_exceptions=True)
    assert [type(each) for each in found] == [ConnectionAbortedError, asyncio.CancelledError]


async def test_who_is_cancelled_as_a_file_is_granted_gives_it_back() -> None:
    budget = FileBudget(shares(1))
    await budget.take(Waiter())
    task = asyncio.ensure_future(budget.take(Waiter()))
    await until(lambda: budget.waiting == 1)
    budget.release()
    await until(lambda: budget.pods == 1)
    task.cancel()
    await asyncio.wait([task])
    assert budget.pods == (0 if task.cancelled() else 1)


async def test_clients_that_come_and_leave_while_no_file_is_free_leave_nothing() -> None:
    budget = FileBudget(shares(1))
    await budget.take(Waiter())
    tasks = []
    for _ in range(5000):
        waiter = Waiter()
        tasks.append(asyncio.ensure_future(budget.take(waiter)))
        await asyncio.sleep(0)
        waiter.wants_connection = False
    assert budget.waiting <= 1024
    budget.release()
    assert len(await asyncio.gather(*tasks, return_exceptions=True)) == 5000
    assert budget.pods == 0


# -- with sockets --------------------------------------------------------------------------------


def limit(world: World, **sizes: int) -> None:
    world.pools.files.shares = replace(world.pools.files.shares, **sizes)


async def held(world: World, pod: Pod, target: bytes = b"/", name: bytes = b"rev") -> Client:
    """Return a client whose request is in flight; the pod does not respond."""
    client = await world.client()
    before = len(pod.requests)
    client.send(request(target).replace(b"Revision: rev", b"Revision: " + name))
    await until(lambda: len(pod.requests) > before)
    return client


async def two_pods(world: World) -> tuple[Pod, Pod]:
    pod = await world.serving()
    other = await world.pod()
    world.revise(other, name="other")
    await until(lambda: world.revision("other").statistics().healthy == 1)
    return pod, other


async def test_a_request_gets_the_file_of_an_idle_connection_to_another_pod(world):
    pod, other = await two_pods(world)
    client = await world.client()
    client.send(request())
    assert (await client.answer()).status == 200
    limit(world, traffic=2)
    client.send(request().replace(b"Revision: rev", b"Revision: other"))
    assert (await client.answer()).status == 200
    await until(lambda: not pod.open)
    assert len(other.open) == 1
    assert world.pools.resources.connections == 1


async def test_a_request_waits_for_a_file_and_gets_the_connection_that_becomes_idle(world, caplog):
    pod = await world.serving()
    pod.on_data = lambda connection: None
    limit(world, traffic=3)
    first = await held(world, pod, b"/first")
    second = await world.client()
    second.send(request(b"/second", b"POST", body=b"x"))
    await until(lambda: world.pools.files.waiting == 1)
    assert [seen.target for seen in pod.requests] == [b"/first"]
    pod.connections[0].write(ok())
    assert (await first.answer()).status == 200
    await until(lambda: len(pod.requests) == 2)
    pod.connections[0].write(ok())
    assert (await second.answer()).status == 200
    assert len(pod.connections) == 1
    shares = world.pools.files.shares
    assert caplog.messages == [
        "1 requests wait for a free file to connect to their pods: "
        f"raise the limit of open files, which is {shares.limit}"
    ]


async def test_a_request_that_waits_for_a_file_gets_that_of_a_client_that_leaves(world):
    pod, other = await two_pods(world)
    pod.on_data = lambda connection: None
    limit(world, traffic=3)
    first = await held(world, pod)
    second = await world.client()
    second.send(request().replace(b"Revision: rev", b"Revision: other"))
    await until(lambda: world.pools.files.waiting == 1)
    assert not other.connections
    first.abort()
    assert (await second.answer()).status == 200


@in_virtual_time
async def test_a_request_that_waits_for_a_file_gets_that_of_a_client_that_becomes_idle(world):
    pod = await world.serving()
    limit(world, traffic=4)
    idle = await world.client()
    idle.send(request())
    assert (await idle.answer()).status == 200
    pod.on_data = lambda connection: None
    busy = await held(world, pod)
    second = await world.client()
    second.send(request())
    await until(lambda: world.pools.files.waiting == 1)
    await idle.ended()
    await until(lambda: len(pod.requests) == 3)
    busy.abort()
    second.abort()


async def test_a_client_that_leaves_while_its_request_waits_for_a_file_leaves_nothing(world):
    pod = await world.serving()
    pod.on_data = lambda connection: None
    limit(world, traffic=3)
    first = await held(world, pod)
    second = await world.client()
    second.send(request())
    await until(lambda: world.pools.files.waiting == 1)
    second.abort()
    await until(lambda: len(world.proxy.connections) == 1)
    pod.connections[0].write(ok())
    assert (await first.answer()).status == 200
    await until(lambda: world.pools.files.waiting == 0)
    assert len(pod.requests) == 1


@in_virtual_time
async def test_a_request_that_gets_no_file_in_time_gets_an_error(world):
    pod, other = await two_pods(world)
    world.revise(other, name="other", timeout=1.0)
    pod.on_data = lambda connection: None
    limit(world, traffic=3)
    first = await held(world, pod)
    late = await world.client()
    late.send(request().replace(b"Revision: rev", b"Revision: other"))
    answer = await late.answer()
    first.abort()
    assert answer.status == 504
    limit_of_files = world.pools.files.shares.limit
    assert b"no file is free to connect, of %d" % limit_of_files in answer.get(b"activator-reason")


@in_virtual_time
async def test_the_pod_that_no_file_is_left_for_is_not_to_blame(world):
    pod, _ = await two_pods(world)
    pod.on_data = lambda connection: None
    limit(world, traffic=3)
    first = await held(world, pod)
    second = await world.client()
    second.send(request().replace(b"Revision: rev", b"Revision: other"))
    await until(lambda: world.pools.files.waiting == 1)
    await world.clock_moves(2.0)
    assert world.revision("other").statistics().healthy == 1
    first.abort()
    assert (await second.answer()).status == 200


async def test_the_idle_connection_of_another_pod_is_searched_for_among_many(new_world):
    world = await new_world(pool=PoolLimits(max_idle=1000))
    pods = [await world.pod() for _ in range(40)]
    for number, pod in enumerate(pods):
        world.revise(pod, name=f"r{number}")
    client = await world.client()
    for number in range(40):
        await until(lambda number=number: world.revision(f"r{number}").statistics().healthy == 1)
        limit(world, traffic=3)
        name = b"Revision: r%d" % number
        client.send(request().replace(b"Revision: rev", name))
        assert (await client.answer()).status == 200
        assert world.pools.resources.connections <= 2


# -- clients that are turned away ----------------------------------------------------------------


async def full(world: World) -> tuple[Pod, Client]:
    """A world in which no file is free: one request is at a pod."""
    pod = await world.serving()
    pod.on_data = lambda connection: None
    limit(world, traffic=2)
    return pod, await held(world, pod)


@pytest.mark.parametrize("size", [1, 7, 10_000])
async def test_a_client_without_a_file_gets_503_however_its_request_comes(world, size):
    _, busy = await full(world)
    client = await world.client()
    await client.drip(request(method=b"POST", body=b"x" * 100), size)
    answer = await client.answer(b"POST")
    assert (answer.status, answer.get(b"connection")) == (503, b"close")
    assert answer.get(b"activator-reason") == b"queue-full; too many connections"
    assert answer.get(b"retry-after") is not None
    await client.ended()
    assert not client.reset
    busy.abort()


async def test_a_client_that_sends_more_behind_its_request_reads_503_all_the_same(world):
    _, busy = await full(world)
    client = await world.client()
    client.send(request() * 3)
    assert (await client.answer()).status == 503
    await client.ended()
    assert not client.reset
    busy.abort()


async def test_kubelet_gets_a_response_while_no_file_is_free(world):
    _, busy = await full(world)
    answer = await world.ask(KUBELET)
    assert (answer.status, answer.get(b"connection")) == (200, b"close")
    busy.abort()


@in_virtual_time
async def test_a_client_without_a_file_that_sends_nothing_has_two_seconds(world):
    _, busy = await full(world)
    silent, slow = await world.client(), await world.client()
    slow.send(b"GET / HTTP/1.1\r\n")
    started = world.now()
    await silent.ended()
    assert (await slow.answer()).status == 408
    assert world.now() - started < world.proxy.header_timeout
    assert not silent.received
    busy.abort()


@in_virtual_time
async def test_a_client_of_http2_without_a_file_gets_503_and_goes(world):
    _, busy = await full(world)
    client = await world.client()
    client.send(BEGIN + asked(1))
    await until(lambda: b"too many connections" in client.received)
    await client.ended()
    assert goaways(bytes(client.received))[-1] == (1, ErrorCode.NO_ERROR)
    assert not client.reset
    busy.abort()


@in_virtual_time
@pytest.mark.parametrize("trailing", [b"", frames.ping(b"01234567", ack=False), b"\0\0"])
async def test_a_client_of_http2_with_several_requests_gets_each_503_before_goaway(world, trailing):
    _, busy = await full(world)
    client = await world.client()
    streams = [1, 3, 5, 7, 9]
    client.send(BEGIN + b"".join(asked(stream) for stream in streams) + trailing)
    await until(lambda: ended(client) == streams)
    await turns(20)
    assert goaways(bytes(client.received)) == []  # some clients would lose the responses by it
    client.send(asked(11)[len(trailing) if trailing == b"\0\0" else 0 :])
    await until(lambda: ended(client) == [*streams, 11])
    await client.ended()
    assert ended(client) == [*streams, 11]
    assert goaways(bytes(client.received)) == [
        (frames.MAX_31_BITS, ErrorCode.NO_ERROR),
        (11, ErrorCode.NO_ERROR),
    ]
    assert not client.reset
    busy.abort()


@in_virtual_time
async def test_a_client_of_http2_with_one_request_gets_goaway_in_one_write_with_its_503(world):
    _, busy = await full(world)
    client = await world.client()
    client.send(BEGIN + asked(1))
    await until(lambda: ended(client) == [1])
    assert goaways(bytes(client.received)) == [(frames.MAX_31_BITS, ErrorCode.NO_ERROR)]
    client.send(asked(3))  # it was on its way
    await until(lambda: ended(client) == [1, 3])
    await client.ended()
    assert goaways(bytes(client.received))[-1] == (3, ErrorCode.NO_ERROR)
    busy.abort()


@in_virtual_time
async def test_a_client_of_http2_that_is_turned_away_goes_even_if_it_uploads(world):
    _, busy = await full(world)
    client = await world.client()
    client.send(BEGIN + asked(1, ended=False) + asked(3, ended=False))
    await until(lambda: ended(client) == [1, 3])
    assert goaways(bytes(client.received)) == []
    await client.ended()
    assert goaways(bytes(client.received))[-1] == (3, ErrorCode.NO_ERROR)
    busy.abort()


def ended(client: Client) -> list[int]:
    """Return the HTTP/2 streams whose responses are complete, in order."""
    found, at = [], 0
    while at + 9 <= len(client.received):
        word, flags, stream = frames.HEAD.unpack_from(client.received, at)
        at += 9 + (word >> 8)
        if flags & 1 and word & 0xFF in (frames.FrameType.DATA, frames.FrameType.HEADERS):
            found.append(stream)
    return found


async def test_a_client_of_http2_whose_preface_comes_in_pieces_gets_503_too(world):
    _, busy = await full(world)
    client = await world.client()
    await client.drip(BEGIN + asked(1) + frames.ping(b"01234567", ack=False))
    await until(lambda: b"too many connections" in client.received)
    busy.abort()


async def test_when_a_file_is_free_again_the_next_client_is_served(world):
    pod, busy = await full(world)
    assert (await world.ask()).status == 503
    pod.connections[0].write(ok())
    assert (await busy.answer()).status == 200
    pod.on_data = lambda connection: connection.write(ok())
    busy.abort()
    await until(lambda: not world.proxy.connections)
    limit(world, traffic=3)
    assert (await world.ask()).status == 200
    assert world.proxy.counters.turned_away == 1
    assert world.proxy.turned_away.size == 0


# -- the listeners -------------------------------------------------------------------------------


@contextmanager
def no_more_files() -> Iterator[None]:
    """Let the process open no more files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    next_file = os.dup(0)
    os.close(next_file)
    resource.setrlimit(resource.RLIMIT_NOFILE, (next_file, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def connect(port: int) -> Client:
    _, client = await asyncio.get_running_loop().create_connection(Client, "127.0.0.1", port)
    return client


@pytest.mark.parametrize("limit_of_files", [256, 1 << 20])
async def test_the_data_ports_serve_with_either_kind_of_listener(world, limit_of_files):
    await world.serving()
    world.pools.files.shares = share_out(limit_of_files)
    server = data_server(world.proxy)
    sock = listen("127.0.0.1", 0, "--http-port")
    port = sock.getsockname()[1]
    task = world.tasks.start(server.serve([sock]))
    await until(lambda: server.started)
    assert isinstance(server.servers[0], PausingListener) is (limit_of_files == 256)
    client = await connect(port)
    client.send(request())
    assert (await client.answer()).status == 200
    client.close()
    server.should_exit = True
    await asyncio.wait([task])


async def test_a_port_without_a_file_leaves_clients_to_the_kernel_and_resets_none(world, caplog):
    await world.serving()
    assert (await world.ask()).status == 200
    world.pools.files.shares = share_out(256)
    server = data_server(world.proxy)
    sock = listen("127.0.0.1", 0, "--http-port")
    port = sock.getsockname()[1]
    task = world.tasks.start(server.serve([sock]))
    await until(lambda: server.started)
    with socket.socket() as client:
        with no_more_files():
            client.connect(("127.0.0.1", port))
            client.sendall(request())
            await until(lambda: caplog.messages)
            await turns(20)
        assert caplog.messages == ["cannot accept connections: Too many open files"]
        await world.clock_moves(0.3)
        await until(lambda: world.proxy.connections)
        client.setblocking(False)
        answer = await asyncio.get_running_loop().sock_recv(client, 1000)
        assert answer.startswith(b"HTTP/1.1 200 OK")
    server.should_exit = True
    await asyncio.wait([task])


async def test_where_the_door_is_full_clients_wait_until_one_leaves(world):
    await world.serving()
    assert (await world.ask()).status == 200
    await until(lambda: not world.proxy.connections)
    limit(world, traffic=1, rejected=2)  # one file is that of the idle connection to the pod
    world.pools.close()
    await until(lambda: not world.pools.resources.connections)
    server = data_server(world.proxy)
    sock = listen("127.0.0.1", 0, "--http-port")
    task = world.tasks.start(server.serve([sock]))
    await until(lambda: server.started)
    clients = [await connect(sock.getsockname()[1]) for _ in range(5)]
    await until(lambda: len(world.proxy.connections) == 3)
    await turns(20)
    assert len(world.proxy.connections) == 3
    for client in clients[1:]:
        client.send(b"GET / HTTP/1.1\r\nHost: nobody\r\n\r\n")
        assert (await client.answer()).status == 503
    for client in clients:
        client.close()
    server.should_exit = True
    await asyncio.wait([task])
