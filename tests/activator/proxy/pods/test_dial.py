"""Connections to pods over TLS: which certificates they accept, and errors for the others."""

from __future__ import annotations

import asyncio
import datetime
import ssl
from math import inf
from typing import Any

import pytest
import trustme

from activator.knative.words import DATA_PLANE
from activator.process.timers import Tasks
from activator.proxy.pods.pool import ConnectionPools, PoolLimits
from activator.proxy.pods.probes import ProbePool
from activator.settings.values import TlsParameters
from activator.tls.internal_encryption import InternalTls
from tests.activator.proxy.tls_world import USER, TlsPod, free_address, pod_context, secret
from tests.activator.proxy.world import World, until
from tests.conftest import both_loops
from throttler.model import Endpoint, Revision, RevisionID
from throttler.pod import PodTracker
from throttler.throttler import Limits, Throttler

pytestmark = both_loops

PAST = datetime.datetime(2001, 1, 1, tzinfo=datetime.UTC)


class Dialer:
    """Record the result of a dial."""

    wants_connection = True

    def __init__(self) -> None:
        self.upstream: Any = None
        self.failures: list[tuple[str, str]] = []

    def on_dialed(self, upstream) -> None:
        self.upstream = upstream

    def on_dial_failed(self, error: str, cause: str) -> None:
        self.failures.append((error, cause))

    @property
    def done(self) -> object:
        return self.upstream or self.failures


def secure(pools: ConnectionPools, tracker: PodTracker) -> Any:
    """Connections for requests, in the form that a probe gets."""
    return ProbePool(pools.of(tracker), None)


class Bench:
    """Pools that use TLS, and one pod."""

    def __init__(self, context: ssl.SSLContext | None = None, connect_timeout: float = 1.0) -> None:
        self.tasks = Tasks()
        limits = PoolLimits(connect_timeout=connect_timeout)
        loop = asyncio.get_running_loop()
        self.ca = trustme.CA()
        tls = self.tls = InternalTls(TlsParameters(), "knative-serving")
        tls.set_secret(secret(self.ca))
        tls.start()
        self.pools = ConnectionPools(limits, self.tasks.start, loop.time)
        self.pools.use_tls(tls.pods)
        tls.on_withdrawn = self.pools.distrust
        self.pod = TlsPod(World())
        self.pod.context = context or pod_context(self.ca)

    async def tracker(self, address: str = "") -> PodTracker:
        if not address:
            await self.pod.listen()
            address = self.pod.endpoint.address
        throttler = Throttler(Limits(), lambda: 0.0)
        revision = RevisionID("NS", "rev")
        throttler.set_revision(Revision(revision), 0.0)
        return PodTracker(throttler.find(*revision).config, Endpoint(address), True, 0.0)

    async def dial(self, within: float = 5.0) -> Dialer:
        dialer = Dialer()
        secure(self.pools, await self.tracker()).dial(dialer, within)
        await until(lambda: dialer.done)
        return dialer

    async def close(self) -> None:
        self.pools.close()
        await self.pod.close()
        await self.tasks.close()
        await until(lambda: self.pools.resources.connections == 0)


async def outcome(names: tuple[str, ...] = (), *, other_ca: bool = False, **how) -> tuple[str, str]:
    """Return the result of a dial to a pod with that certificate, and its cause; empty if it
    succeeds.
    """
    bench = Bench()
    ca = trustme.CA() if other_ca else bench.ca
    bench.pod.context = pod_context(ca, *names, **how)
    dialer = await bench.dial()
    if dialer.upstream is not None:
        assert dialer.upstream.side.transport.get_extra_info("ssl_object").version() == "TLSv1.3"
        dialer.upstream.cancel()
    await bench.close()
    return dialer.failures[0] if dialer.failures else ("", "")


async def test_a_pod_of_the_namespace_is_trusted_whatever_else_it_is_called(anyio_backend):
    assert await outcome((DATA_PLANE, "kn-user-other", USER)) == ("", "")


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"names": (DATA_PLANE, "kn-user-other")}, f"not for {USER}"),
        ({"names": (DATA_PLANE,)}, f"not for {USER}"),
        ({"names": (DATA_PLANE, "*.example")}, f"not for {USER}"),
        ({"names": (USER,)}, "certificate is not valid for 'data-plane.knative.dev'"),
        ({"names": ("10.0.0.1",)}, "certificate is not valid for 'data-plane.knative.dev'"),
        ({"other_ca": True}, "unable to get local issuer certificate"),
        ({"not_after": PAST}, "certificate has expired"),
    ],
    ids=["namespace", "none", "wildcard", "no host", "address", "ca", "expired"],
)
async def test_an_untrusted_pod_is_reported_and_gets_nothing(anyio_backend, how, why):
    error, cause = await outcome(**how)
    assert error.startswith("TLS on port 8112: ")
    assert why in error
    assert cause == "tls-failed"


async def test_nothing_older_than_1_3(anyio_backend):
    bench = Bench()
    bench.pod.context.minimum_version = ssl.TLSVersion.TLSv1_2
    bench.pod.context.maximum_version = ssl.TLSVersion.TLSv1_2
    dialer = await bench.dial()
    ((error, cause),) = dialer.failures
    assert error.startswith("TLS on port 8112: ")
    assert len(error) > 20
    assert cause == "tls-failed"
    await bench.close()


class Silent(asyncio.Protocol):
    """Accept connections; send nothing, or bytes that are no TLS."""

    said = b""

    def connection_made(self, transport) -> None:
        if self.said:
            transport.write(self.said)


class Plain(Silent):
    said = b"HTTP/1.1 400 Bad Request\r\n\r\n"


@pytest.mark.parametrize(
    ("protocol", "error", "cause"),
    [
        (Silent, "the handshake timed out after 0.2 s", "connect-timeout"),
        (Plain, "wrong version number", "tls-failed"),
    ],
)
async def test_a_port_without_tls(anyio_backend, protocol, error, cause):
    bench = Bench()
    loop = asyncio.get_running_loop()
    host = free_address()
    server = await loop.create_server(protocol, host, 8112)
    dialer = Dialer()
    secure(bench.pools, await bench.tracker(f"{host}:8012")).dial(dialer, 0.2)
    passed = asyncio.Event()
    loop.call_later(0.5, passed.set)
    await passed.wait()
    assert dialer.failures == [(f"TLS on port 8112: {error}", cause)]
    server.close()
    await bench.close()


async def test_a_silent_pod_holds_a_request_five_times_as_long_as_a_connect(anyio_backend):
    bench = Bench(connect_timeout=0.04)
    host, dialer = free_address(), Dialer()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Silent, host, 8112)
    secure(bench.pools, await bench.tracker(f"{host}:8012")).dial(dialer, inf)
    passed = asyncio.Event()
    loop.call_later(0.5, passed.set)
    await passed.wait()
    assert dialer.failures == [
        ("TLS on port 8112: the handshake timed out after 0.2 s", "connect-timeout")
    ]
    server.close()
    await bench.close()


async def test_a_closed_port(anyio_backend):
    bench = Bench()
    dialer = Dialer()
    secure(bench.pools, await bench.tracker(f"{free_address()}:8012")).dial(dialer, 5.0)
    await until(lambda: dialer.done)
    assert dialer.failures == [("TLS on port 8112: connection refused", "connect-failed")]
    await bench.close()


async def test_a_root_that_is_withdrawn_closes_idle_connections_and_busy_ones_when_done(
    anyio_backend,
):
    bench = Bench()
    tracker = await bench.tracker()
    dialers = [Dialer(), Dialer()]
    for dialer in dialers:
        secure(bench.pools, tracker).dial(dialer, 5.0)
    await until(lambda: all(dialer.done for dialer in dialers))
    idle, busy = (dialer.upstream for dialer in dialers)
    idle.release()
    bench.tls.set_secret(secret(bench.ca, trusted=trustme.CA()))
    await until(lambda: bench.pools.resources.connections == 1)
    assert not busy.side.transport.is_closing()
    busy.release()
    await until(lambda: bench.pools.resources.connections == 0)
    dialer = Dialer()
    secure(bench.pools, tracker).dial(dialer, 5.0)
    await until(lambda: dialer.done)
    assert "unable to get local issuer" in dialer.failures[0][0]
    await bench.close()


async def test_a_root_that_is_added_closes_nothing_and_counts_from_the_next_connection_on(
    anyio_backend,
):
    new = trustme.CA()
    bench = Bench()
    tracker = await bench.tracker()
    old = Dialer()
    secure(bench.pools, tracker).dial(old, 5.0)
    await until(lambda: old.done)
    old.upstream.release()
    bench.tls.set_bundles((new.cert_pem.bytes().decode(),))
    await bench.pod.refuse()
    bench.pod.context = pod_context(new)
    await bench.pod.listen()
    dialer = Dialer()
    secure(bench.pools, tracker).dial(dialer, 5.0)
    await until(lambda: dialer.done)
    assert dialer.failures == []
    assert bench.pools.resources.connections == 2
    dialer.upstream.release()
    await bench.close()
