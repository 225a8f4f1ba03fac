"""gRPC clients while pods and activators start, end and fail, and the statuses that they get."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Awaitable
from pathlib import Path

import grpc
import pytest

from tests.grpc.world import NAME, Client, GrpcWorld, in_flight
from tests.process import PATIENCE, Activator, until

pytestmark = pytest.mark.e2e

CALLERS = 10


async def code_of(call: Awaitable[bytes]) -> grpc.StatusCode:
    """Return the status of a call."""
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


class Load:
    """Callers that send the next call as soon as the last one has ended.

    Attributes:
        ended: how many calls have ended.
        failed: code and details of each failed call.
    """

    def __init__(self, client: Client) -> None:
        self.ended = 0
        self.failed: list[tuple[grpc.StatusCode, str | None]] = []
        self._client = client
        self._over = False
        self._callers: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Load:
        loop = asyncio.get_running_loop()
        self._callers = [loop.create_task(self._ask()) for _ in range(CALLERS)]
        await self.goes_on()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._over = True
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*self._callers)

    async def _ask(self) -> None:
        while not self._over:
            try:
                await self._client.echo(b"load")
            except grpc.aio.AioRpcError as error:
                self.failed.append((error.code(), error.details()))
            self.ended += 1

    async def goes_on(self) -> None:
        """Wait until each caller has ended a few more calls."""
        goal = self.ended + 4 * CALLERS

        async def look() -> bool:
            return self.ended >= goal

        await until(look, "calls have ended")


async def healthy(running: Activator, count: int) -> None:
    """Wait until ``count`` pods have passed the probe."""
    path = f"/api/v1/revisions/default/{NAME}"

    async def look() -> bool:
        pods = json.loads((await running.get(path, listener="admin"))[1])["pods"]
        return sum(pod["state"] == "healthy" for pod in pods) == count

    await until(look, f"{count} pods are healthy")


async def test_a_cold_start_serves_all_queued_requests(tmp_path: Path) -> None:
    async with GrpcWorld(tmp_path) as world:
        world.revision(container_concurrency=10)
        world.list([])
        running = await world.activator()
        client = await world.client(running)
        calls = [asyncio.ensure_future(client.echo(b"%d" % number)) for number in range(100)]
        await running.queued(NAME, 100)
        world.list([await world.pod()])
        assert [int(each) for each in await asyncio.gather(*calls)] == list(range(100))
        path = f"/api/v1/revisions/default/{NAME}"
        (cold_start,) = json.loads((await running.get(path, listener="admin"))[1])["coldStarts"]
        assert (cold_start["outcome"], cold_start["requests"]) == ("served", 100)


async def test_a_pod_that_takes_few_calls_at_a_time_is_given_no_more(tmp_path: Path) -> None:
    """The pod resets excess calls with ENHANCE_YOUR_CALM, which does not permit a retry."""
    async with GrpcWorld(tmp_path) as world:
        world.revision()
        world.list([])
        running = await world.activator()
        client = await world.client(running)
        calls = [asyncio.ensure_future(client.echo(b"%d" % number)) for number in range(60)]
        await running.queued(NAME, 60)
        world.list([await world.pod(streams=3)])
        assert [int(each) for each in await asyncio.gather(*calls)] == list(range(60))


async def test_clients_understand_own_responses(tmp_path: Path) -> None:
    async with GrpcWorld(tmp_path) as world:
        world.revision(timeout=4)
        world.list([])
        running = await world.activator("--queue-depth", "1")
        client = await world.client(running)

        first = asyncio.ensure_future(client.echo(b""))
        await running.queued(NAME, 1)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await client.echo(b"")
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        assert str(refused.value.details()).startswith("queue-full")

        with pytest.raises(grpc.aio.AioRpcError) as late:
            await first
        assert late.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert str(late.value.details()).startswith("no-endpoints")
        told = dict(late.value.trailing_metadata())
        assert told["activator-reason"] == late.value.details()

        assert await code_of(client.echo(b"", timeout=0.05)) is grpc.StatusCode.DEADLINE_EXCEEDED
        await running.queued(NAME, 0)

        host, port = await running.address("h2c")
        stranger = Client(f"{host}:{port}", "nobody.default.svc.cluster.local")
        with pytest.raises(grpc.aio.AioRpcError) as unknown:
            await stranger.echo(b"")
        await stranger.channel.close()
        assert unknown.value.code() is grpc.StatusCode.UNIMPLEMENTED
        assert str(unknown.value.details()).startswith("unknown-revision")


async def test_pods_are_replaced_and_nobody_notices(tmp_path: Path) -> None:
    async with GrpcWorld(tmp_path) as world:
        world.revision(container_concurrency=10)
        current = [await world.pod(), await world.pod()]
        world.list(current)
        running = await world.activator()
        async with Load(await world.client(running)) as load:
            for _ in range(2):
                fresh = await world.pod()
                old = current.pop(0)
                current.append(fresh)
                world.list([*current, old])
                await healthy(running, 3)
                world.list(current)
                await old.end()
                await load.goes_on()
        assert load.failed == []


async def test_a_pod_has_its_connections_replaced_and_nobody_notices(tmp_path: Path) -> None:
    async with GrpcWorld(tmp_path) as world:
        world.revision(container_concurrency=10)
        pod = await world.pod(age=100)
        world.list([pod])
        running = await world.activator()
        async with Load(await world.client(running)) as load:
            while len(pod.of("connection")) < 5:
                await load.goes_on()
        assert load.failed == []


async def test_a_pod_that_is_killed_fails_what_it_had_and_no_more(tmp_path: Path) -> None:
    async with GrpcWorld(tmp_path) as world:
        world.revision()
        doomed = await world.pod()
        world.list([doomed])
        running = await world.activator()
        client = await world.client(running)
        lost = asyncio.ensure_future(client.hang(b""))
        await doomed.told("hangs")
        survivor = await world.pod()
        world.list([doomed, survivor])
        await healthy(running, 2)
        async with Load(client) as load:
            await doomed.end(kill=True)
            with pytest.raises(grpc.aio.AioRpcError) as told:
                await lost
            await load.goes_on()
        assert told.value.code() is grpc.StatusCode.UNAVAILABLE
        assert str(told.value.details()).startswith("upstream-failed")
        assert {code for code, _ in load.failed} <= {grpc.StatusCode.UNAVAILABLE}
        assert len(load.failed) <= CALLERS
        await in_flight(running, 0)


async def test_an_activator_ends_and_clients_of_two_do_not_notice(tmp_path: Path) -> None:
    async with GrpcWorld(tmp_path) as world:
        world.revision()
        pod = await world.pod()
        world.list([pod])
        first, second = await world.activator(), await world.activator()
        client = await world.client(first, second)
        async with Load(client) as load:
            # The client alternates: one of the calls goes to the activator that ends.
            talks = [client.chat() for _ in range(2)]
            for talk in talks:
                await talk.write(b"before")
                assert await talk.read() == b"before"
            first.tell(signal.SIGTERM)
            await first.logged("draining")
            await load.goes_on()
            for talk in talks:
                await talk.write(b"after")
                assert await talk.read() == b"after"
            assert first.process.returncode is None
            for talk in talks:
                await talk.done_writing()
                assert await talk.read() is grpc.aio.EOF
            assert await first.ended() == 0
            await load.goes_on()
        assert load.failed == []
        assert " served" in first.log
        assert "by the shutdown" not in first.log
