"""Probes by gRPC's health service, on a connection of requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from activator.probing.probe import Probe
from activator.process.tasks import Tasks
from activator.proxy.pods.pool import ConnectionPools, PoolLimits
from activator.proxy.pods.probes import ProbePools
from tests.activator.probing.test_probe import TIMEOUT, Verdict, ok, serving, tracker
from tests.activator.probing.world import until
from tests.activator.proxy.http2.peers import Http2Pod, Message, Peer
from tests.conftest import both_loops
from throttler.model import ProbeKind, ProbeSpec

HEALTH = ProbeSpec(ProbeKind.GRPC, service=b"shop.v1.Cart")
MESSAGE = b"\0\0\0\0\2\x08\1"
GRPC = (b"content-type", b"application/grpc")


class HealthPod:
    """A pod of HTTP/2 whose health service responds with one message, and the world to probe it."""

    def __init__(self, message: bytes, status: bytes, spec: ProbeSpec = HEALTH) -> None:
        self.message, self.status = message, status
        self.pod = Http2Pod()
        self.pod.on_message = self._respond
        self._tasks = Tasks()
        loop = asyncio.get_running_loop()
        self.pools = ConnectionPools(PoolLimits(), self._tasks.start, loop.time)
        self._spec = spec
        self.piece = 1 << 20

    async def start(self) -> None:
        await self.pod.listen()
        self.tracker = tracker(self.pod.endpoint.address, self._spec, plain=True)

    def _respond(self, peer: Peer, stream: int, message: Message) -> None:
        if not message.ended:
            return
        peer.headers(stream, [(b":status", b"200"), GRPC])
        for at in range(0, len(self.message), self.piece):
            peer.data(stream, self.message[at : at + self.piece])
        peer.headers(stream, [(b"grpc-status", self.status), (b"grpc-message", b"why")], end=True)

    async def probe(self) -> Verdict:
        done = asyncio.get_running_loop().create_future()

        def on_done(probe: Probe, kind: str, text: str) -> None:
            done.set_result(Verdict(kind, text))

        Probe(self.tracker, TIMEOUT, on_done).start(ProbePools(self.pools).of(self.tracker))
        return await done

    async def close(self) -> None:
        self.pools.close()
        self.pod.close()
        await self._tasks.close()


@asynccontextmanager
async def health(message: bytes = MESSAGE, status: bytes = b"0") -> AsyncIterator[HealthPod]:
    pod = HealthPod(message, status)
    await pod.start()
    try:
        yield pod
    finally:
        await pod.close()


@both_loops
async def test_grpcs_health_service_is_called_and_the_connection_kept() -> None:
    async with health() as pod:
        assert await pod.probe() == ("", "")
        assert await pod.probe() == ("", "")
        first, second = pod.pod.requests
        assert len(pod.pod.connections) == 1
        assert first.headers == second.headers
        assert dict(first.headers) == {
            b":method": b"POST",
            b":scheme": b"http",
            b":path": b"/grpc.health.v1.Health/Check",
            b":authority": pod.pod.endpoint.address.encode(),
            b"content-type": b"application/grpc",
            b"te": b"trailers",
            b"user-agent": b"kube-probe/1",
            b"grpc-timeout": b"500m",
        }
        assert bytes(first.body) == b"\0\0\0\0\x0e\x0a\x0cshop.v1.Cart"


@pytest.mark.parametrize("piece", [1, 3])
async def test_a_health_response_may_come_in_pieces(piece: int) -> None:
    async with health() as pod:
        pod.piece = piece
        assert await pod.probe() == ("", "")


@both_loops
@pytest.mark.parametrize(
    ("message", "status", "text"),
    [
        (b"\0\0\0\0\2\x08\2", b"0", "status NOT_SERVING"),
        (b"\0\0\0\0\0", b"0", "status UNKNOWN"),
        (MESSAGE + b"x", b"0", "no health response of gRPC"),
        (MESSAGE[:-1], b"0", "no health response of gRPC"),
        (b"x" * 100_000, b"0", "no health response of gRPC"),
        (b"", b"12", "grpc-status 12 why"),
        (MESSAGE, b"5", "grpc-status 5 why"),
    ],
)
async def test_no_other_health_response_passes(message: bytes, status: bytes, text: str) -> None:
    async with health(message, status) as pod:
        assert (await pod.probe()).kind == "bad-answer"
        pod.message = MESSAGE
        pod.status = b"0"
        assert await pod.probe() == ("", ""), "the connection is not lost"


async def test_a_health_service_that_never_responds_times_out() -> None:
    async with health() as pod:
        pod.pod.on_message = lambda *_: None
        assert await pod.probe() == ("timeout", "no response in 0.5 s")
        await until(asyncio.get_running_loop().time() + 1.0)
        assert pod.pod.requests[0].reset is not None


async def test_a_health_service_behind_http1_is_none() -> None:
    async with serving(ok(b""), HEALTH) as server:
        assert (await server.probe()).kind == "bad-answer"


async def test_a_kept_connection_that_the_pod_closes_costs_no_failure() -> None:
    async with health() as pod:
        assert await pod.probe() == ("", "")
        usual = pod.pod.on_message

        def close_once(peer: Peer, stream: int, message: Message) -> None:
            pod.pod.on_message = usual
            peer.transport.close()

        pod.pod.on_message = close_once
        assert await pod.probe() == ("", "")
        assert len(pod.pod.connections) == 2


async def test_a_closed_port_fails_the_call() -> None:
    async with health() as pod:
        pod.pod.close()
        assert await pod.probe() == ("connect-failed", "connection refused")
