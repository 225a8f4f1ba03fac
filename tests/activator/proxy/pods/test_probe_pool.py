"""A probe's connections where requests use TLS: plain, after a TLS handshake on the other port."""

from __future__ import annotations

import asyncio
from typing import Any

import trustme

from activator.proxy.pods.probes import ProbePools
from tests.activator.proxy.pods.test_dial import Bench, Dialer, secure
from tests.activator.proxy.tls_world import pod_context
from tests.activator.proxy.world import until
from tests.conftest import both_loops

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
    assert first.upstream.pod.transport.get_extra_info("sslcontext") is None
    first.upstream.release()
    ready = bench.pools.of(bench.tracked).take()
    assert ready is not None
    assert ready.transport.get_extra_info("sslcontext") is not None
    ready.cancel()
    assert (await bench.probe()).upstream.pod is first.upstream.pod
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
    assert bench.pools.of(bench.tracked).take() is probe.upstream.pod
    probe.upstream.cancel()
    await bench.end()
