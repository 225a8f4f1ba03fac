"""Where a pod is, and how requests name it: in both families, with TLS, behind a mesh."""

from __future__ import annotations

import pytest

from tests.activator.proxy.pods.test_dial import Bench
from tests.activator.proxy.pods.test_pool import pool_of, probes_of
from tests.activator.proxy.world import request


@pytest.mark.parametrize(
    ("address", "host", "port", "line"),
    [
        ("10.0.0.1:8012", "10.0.0.1", 8012, b"Host: 10.0.0.1:8012\r\n"),
        ("[fd00::1]:8012", "fd00::1", 8012, b"Host: [fd00::1]:8012\r\n"),
    ],
)
async def test_the_pods_address_in_both_families(world, address, host, port, line):
    from throttler.model import AppProtocol, Endpoint, ListedEndpoints, RevisionID

    world.healthy = lambda tracker: False
    world.revise()
    endpoints = ListedEndpoints(frozenset([Endpoint(address)]))
    world.driver.set_endpoints(RevisionID("ns", "rev"), {AppProtocol.HTTP1: endpoints})
    pool = pool_of(world)
    assert (pool.target.host, pool.target.port) == (host, port)
    assert pool.target.host_lines == line + b"K-Proxy-Request: activator\r\n"
    assert pool.target.probe_lines == line


async def test_with_passthrough_a_mesh_is_asked_for_the_private_service_from_the_next_request_on(
    world,
):
    pod = await world.serving()
    await world.ask()
    world.pools.set_passthrough(True)
    await world.ask(request(fields=b"K-Passthrough-Lb: mine\r\n"))
    assert probes_of(world).probe_lines == b"Host: rev-private.ns\r\nK-Passthrough-Lb: true\r\n"
    world.pools.set_passthrough(False)
    await world.ask()
    hosts = [seen.all(b"host") for seen in pod.requests]
    address = pod.endpoint.address.encode()
    assert hosts == [[address], [b"rev-private.ns"], [address]]
    passthrough = [seen.all(b"k-passthrough-lb") for seen in pod.requests]
    assert passthrough == [[], [b"true", b"mine"], []]


@pytest.mark.parametrize(
    ("address", "is_service", "host", "port", "line"),
    [
        ("10.0.0.1:8012", False, "10.0.0.1", 8112, b"Host: 10.0.0.1:8112\r\n"),
        ("[2001:db8::1]:8012", False, "2001:db8::1", 8112, b"Host: [2001:db8::1]:8112\r\n"),
        ("10.9.9.9:80", True, "10.9.9.9", 443, b"Host: 10.9.9.9:443\r\n"),
    ],
)
async def test_the_port_for_requests_is_another_and_that_for_probes_stays(
    anyio_backend, address, is_service, host, port, line
):
    bench = Bench()
    tracker = await bench.tracker(address)
    tracker.is_service = is_service
    pool, plain = bench.pools.of(tracker).target, bench.pools.for_probes(tracker).target
    assert (pool.host, pool.port) == (host, port)
    assert pool.host_lines.startswith(line)
    assert plain.probe_lines == b"Host: %b\r\n" % address.encode()
    await bench.close()
