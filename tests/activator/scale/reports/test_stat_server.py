"""Reports of activators over a real WebSocket, and other requests to that port."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from activator.autoscaler.concurrency import Stat
from activator.autoscaler.wire import MOST_STATS, STEP, encode
from activator.scale.reports.load import Loads, ServiceName
from activator.scale.reports.stat_server import StatServer
from throttler.model import RevisionID

HELLO, OTHER = RevisionID("shop", "hello"), RevisionID("shop", "other")


class World:
    """A server, and the loads that it has recorded."""

    def __init__(self, token_file: str = "") -> None:
        self.loads = Loads()
        self.leads = True
        self.busy: asyncio.Queue[list[ServiceName]] = asyncio.Queue()
        self.server = StatServer(
            self.loads, lambda: 10.0, lambda: self.leads, self.busy.put_nowait, token_file
        )
        self.url = ""


def play(scene: Callable[[World], Awaitable[None]], token_file: object = "") -> None:
    """Run a scene against a server on a loopback port."""

    async def run() -> None:
        world = World(str(token_file))
        world.url = f"ws://127.0.0.1:{await world.server.start('127.0.0.1', 0)}"
        try:
            await asyncio.wait_for(scene(world), 30)
        finally:
            await world.server.close()

    asyncio.run(run())


def test_a_report_is_recorded_and_announced() -> None:
    async def scene(world: World) -> None:
        async with connect(world.url) as connection:
            await connection.send(encode([Stat(HELLO, 1.0, 1)], "activator-1"))
            assert await world.busy.get() == [ServiceName("shop", "hello")]
            assert world.loads.current(ServiceName("shop", "hello"), 10) == 1
            assert world.loads.is_known(10)

    play(scene)


def test_a_large_report_is_recorded_in_steps() -> None:
    async def scene(world: World) -> None:
        names = [f"hello-{number}" for number in range(3 * STEP)]
        async with connect(world.url) as connection:
            stats = [Stat(RevisionID("shop", name), 1.0, 1) for name in names]
            await connection.send(encode(stats, "activator-1"))
            steps = [await world.busy.get() for _ in range(3)]
        assert [len(step) for step in steps] == [STEP] * 3
        assert [name.name for step in steps for name in step] == names

    play(scene)


def test_a_large_report_with_a_wrong_part_counts_as_no_report() -> None:
    async def scene(world: World) -> None:
        stats = [Stat(RevisionID("shop", f"hello-{number}"), 1.0, 1) for number in range(2 * STEP)]
        async with connect(world.url) as connection:
            wrong: Any = inf  # the type has integers only; a sender may have any number
            await connection.send(encode([*stats, Stat(HELLO, 1.0, wrong)], "activator-1"))
            await connection.send(encode([Stat(HELLO, 1.0, 1)], "activator-1"))
            assert await world.busy.get() == [ServiceName("shop", "hello")]
            assert world.server.garbled == 1

    play(scene)


@pytest.mark.untraced
def test_loads_that_overflow_and_frames_with_too_many_stats_close_no_connection() -> None:
    async def scene(world: World) -> None:
        async with connect(world.url) as connection:
            for load in (1e300, 999e6, 999e3):
                stats = [Stat(HELLO, load, 10**300)] * MOST_STATS
                await connection.send(encode(stats, "activator-1"))
            await connection.send((2 * MOST_STATS) * b"\n\x00")
            await connection.send(encode([Stat(OTHER, 1.0, 1)], "activator-1"))
            while await world.busy.get() != [ServiceName(*OTHER[:2])]:
                pass
            assert world.server.garbled == 1
            assert 0 <= world.loads.current(ServiceName("shop", "hello"), 10) < 1e6

    play(scene)


@pytest.mark.parametrize(
    "noise",
    [b"", b"\xff" * 100, "text", encode([Stat(HELLO, nan, 0), Stat(HELLO, -5, 0)], "a"), b"\n\x00"],
)
def test_noise_does_no_harm(noise: bytes | str) -> None:
    async def scene(world: World) -> None:
        async with connect(world.url) as connection:
            await connection.send(noise)
            await connection.send(encode([Stat(HELLO, inf, 1)], "activator-1"))
            assert await world.busy.get() == [ServiceName("shop", "hello")]
            assert world.loads.current(ServiceName("shop", "hello"), 10) == 0

    play(scene)


def test_a_frame_that_is_too_large_ends_its_connection_alone() -> None:
    async def scene(world: World) -> None:
        bad = await connect(world.url)
        async with connect(world.url) as good:
            with contextlib.suppress(ConnectionClosed):
                await bad.send(bytes(17 << 20))
            with pytest.raises(ConnectionClosed):
                await bad.recv()
            await good.send(encode([Stat(HELLO, 1.0, 1)], "activator-1"))
            assert await world.busy.get()

    play(scene)


def test_a_scaler_that_does_not_lead_refuses() -> None:
    async def scene(world: World) -> None:
        world.leads = False
        with pytest.raises(InvalidStatus) as refused:
            await connect(world.url)
        assert refused.value.response.status_code == 503

    play(scene)


def test_an_activator_needs_one_of_the_tokens_and_the_file_is_followed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "token"

    async def refused(world: World, *headers: tuple[str, str]) -> bool:
        try:
            async with connect(world.url, additional_headers=headers):
                return False
        except InvalidStatus as error:
            return error.response.status_code == 401

    async def scene(world: World) -> None:
        good = ("Authorization", "Bearer one")
        assert not await refused(world, good)
        file.write_text("two\none\n")
        assert not await refused(world, good)
        file.write_text("two\n")
        assert await refused(world, good)
        assert "127.0.0.1: refused with 401" in caplog.text
        assert f"its token is none of {file}" in caplog.text
        for wrong in (
            ("Authorization", "Basic two"),
            ("Authorization", "Bearer tw\xf6"),
            ("X", "y"),
        ):
            assert await refused(world, wrong)
        assert await refused(world, ("Authorization", "Bearer two"), ("Authorization", "Bearer x"))
        assert not await refused(world, ("Authorization", "Bearer two"))
        file.unlink()
        assert await refused(world, good)
        assert len(caplog.records) == 1  # the clock stands still

    file.write_text("one")
    play(scene, file)


def test_a_kubelet_probe_is_responded_to() -> None:
    async def scene(world: World) -> None:
        world.leads = False
        port = int(world.url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nUser-Agent: kube-probe/1.36\r\n\r\n")
        assert b" 200 " in await reader.readline()
        writer.close()

    play(scene)


def test_the_end_of_the_server_is_announced() -> None:
    async def scene(world: World) -> None:
        async with connect(world.url) as connection:
            world.server.disconnect_all()
            with pytest.raises(ConnectionClosed) as closed:
                await connection.recv()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1012

    play(scene)


def test_a_lost_connection_is_noticed() -> None:
    async def scene(world: World) -> None:
        async with connect(world.url) as connection:
            await connection.send(encode([Stat(HELLO, 4.0, 1)], "activator-1"))
            await world.busy.get()
            connection.transport.abort()
        while world.loads.activators:  # noqa: ASYNC110  # the server offers no event
            await asyncio.sleep(0)
        assert not world.loads.is_known(10)

    play(scene)
