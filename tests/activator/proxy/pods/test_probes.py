"""The connections of probes: for HTTP/1, over TLS, and for gRPC's health service."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trustme

from activator.probing.probe import Probe
from activator.process.timers import Tasks
from activator.proxy.pods.pool import ConnectionPools, PoolLimits
from activator.proxy.pods.probes import ProbePools
from tests.activator.probing.test_probe import TIMEOUT, Server, Verdict, ok, serving, tracker
from tests.activator.probing.world import until as until_moment
from tests.activator.proxy.http2.peers import Http2Pod, Message, Peer
from tests.activator.proxy.pods.test_dial import Bench, Dialer, secure
from tests.activator.proxy.tls_world import pod_context
from tests.activator.proxy.world import until
from tests.conftest import both_loops
from throttler.model import ProbeKind, ProbeSpec

pytestmark = both_loops


class Probed(Bench):
    """A pod that also accepts probes, on its plain port, and counts their connections."""

    async def start(self) -> None:
        self.plain = 0
        self.tracked = await self.tracker()
        loop = asyncio.get_running_loop()
        endpoint = self.pod.endpoint.address.split(":")
        self.server = await loop.create_server(self._accept, endpoint[0], int(endpoint[1]))
        self.probing = ProbePools(self.pools)

    def _accept(self) -> asyncio.Protocol:
        self.plain += 1
        return asyncio.Protocol()

    async def probe(self) -> Dialer:
        """Get a connection as a probe does."""
        dialer = Dialer()
        pool: Any = self.probing.of(self.tracked)
        if (connection := pool.take()) is not None:
            dialer.on_dialed(connection)
        else:
            pool.dial(dialer, 1.0)
            await until(lambda: dialer.done)
        return dialer

    async def end(self) -> None:
        await self.close()
        self.server.close()


async def test_the_first_probe_opens_the_connection_of_the_first_request(anyio_backend):
    bench = Probed()
    await bench.start()
    first = await bench.probe()
    assert first.failures == []
    assert first.upstream.side.transport.get_extra_info("sslcontext") is None
    first.upstream.release()
    ready = bench.pools.of(bench.tracked).take()
    assert ready is not None
    assert ready.transport.get_extra_info("sslcontext") is not None
    ready.cancel()
    assert (await bench.probe()).upstream.side is first.upstream.side
    first.upstream.cancel()
    assert (bench.plain, len(bench.pod.connections)) == (1, 1)
    await bench.end()


async def test_a_pod_that_requests_cannot_reach_fails_its_probe_with_the_reason(anyio_backend):
    bench = Probed(pod_context(trustme.CA()))
    await bench.start()
    for _ in range(2):
        ((error, _),) = (await bench.probe()).failures
        assert error == "TLS on port 8112: unable to get local issuer certificate"
    assert bench.plain == 0
    await bench.end()


async def test_a_probe_asks_again_after_a_request_could_not_connect(anyio_backend):
    bench = Probed()
    await bench.start()
    (await bench.probe()).upstream.release()
    taken = bench.pools.of(bench.tracked).take()
    assert taken is not None
    taken.cancel()
    await bench.pod.refuse()
    failed = Dialer()
    secure(bench.pools, bench.tracked).dial(failed, 5.0)
    await until(lambda: failed.done)
    ((error, _),) = (await bench.probe()).failures
    assert error == "TLS on port 8112: connection refused"
    await bench.pod.listen()
    again = await bench.probe()
    assert again.failures == []
    again.upstream.cancel()
    await bench.end()


async def test_without_tls_probes_and_requests_share_their_connections(anyio_backend):
    bench = Probed()
    bench.pools.tls = None
    await bench.start()
    probe = await bench.probe()
    probe.upstream.release()
    assert bench.pools.of(bench.tracked).take() is probe.upstream.side
    probe.upstream.cancel()
    await bench.end()


async def checked(server: Server) -> Verdict:
    """Probe a pod whose pool closes each connection at once; no connection stays."""
    server.pools.resources.limits = PoolLimits(max_idle=0)
    verdict = await server.probe()
    assert (server.pools.resources.connections, server.pools.files.pods) == (0, 0)
    return verdict


async def test_a_probe_by_tcp_of_a_pool_with_enough_connections_passes() -> None:
    async with serving(None, ProbeSpec()) as server:
        assert await checked(server) == ("", "")
        await until(lambda: len(server.connections) == 1)


async def test_a_probe_by_tcp_fails_as_with_a_connection_that_is_kept() -> None:
    async with serving(None, ProbeSpec()) as server:
        server.pod = tracker("127.0.0.1:1", ProbeSpec())
        before = await server.probe()
        assert await checked(server) == before == ("connect-failed", "connection refused")


async def test_a_probe_by_tcp_waits_out_a_local_shortage(monkeypatch: pytest.MonkeyPatch) -> None:
    async def passed() -> Verdict:
        async with serving(None, ProbeSpec()) as server:
            monkeypatch.setattr(socket, "socket", none)
            return await checked(server)

    def none(*_: object) -> socket.socket:
        monkeypatch.undo()
        raise OSError(errno.EMFILE, "Too many open files")

    assert await passed() == ("", "")


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

        Probe(self.tracker, ProbePools(self.pools).of(self.tracker), TIMEOUT, on_done).start()
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
        await until_moment(asyncio.get_running_loop().time() + 1.0)
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
