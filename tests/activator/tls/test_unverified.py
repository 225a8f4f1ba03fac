"""TLS to the pods of plain Services: any certificate will do."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import pytest
import trustme

from activator.tls.unverified import UnverifiedTls
from tests.activator.proxy.world import Pod, PodConnection, World, ok, until
from tests.conftest import both_loops
from throttler.model import ProbeSpec


class SecurePod(Pod):
    """A pod that serves TLS with an untrusted certificate for another name."""

    async def listen(self) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        trustme.CA().issue_cert("elsewhere.example").configure_cert(context)
        self._server = await asyncio.get_running_loop().create_server(
            lambda: PodConnection(self), self.host, 0, ssl=context
        )
        self.port = self._server.sockets[0].getsockname()[1]


@pytest.fixture
async def world(anyio_backend: Any) -> Any:
    world = World()
    await world.start()
    yield world
    await world.close()


@both_loops
async def test_requests_go_to_the_pods_port_over_tls(world: World) -> None:
    pod = SecurePod(world)
    await pod.listen()
    world.pods.append(pod)
    pod.answer = ok(b"secure")
    throttler = world.serve(pod, hosts=["shop"], tls=True, probe=ProbeSpec(tls=True))
    await until(lambda: throttler.statistics().healthy == 1)
    for _ in range(2):
        answer = await world.ask(b"GET / HTTP/1.1\r\nHost: shop\r\n\r\n")
        assert (answer.status, answer.body) == (200, b"secure")
    assert len(pod.connections) == 1
    assert pod.requests[0].all(b"host") == [b"shop"]


@pytest.mark.parametrize("name", ["context", "http2_context"])
def test_no_certificate_is_verified(name: str) -> None:
    tls = UnverifiedTls()
    context = getattr(tls, name)
    assert context.verify_mode is ssl.CERT_NONE
    assert not context.check_hostname
    assert getattr(tls, name) is context, "made once"


@both_loops
async def test_a_port_that_begins_to_serve_tls_is_followed(world: World) -> None:
    plain = await world.pod()
    throttler = world.serve(plain, hosts=["shop"])
    await until(lambda: throttler.statistics().healthy == 1)
    held, plain.on_data = plain.on_data, lambda _: None
    client = await world.client()
    client.send(b"GET / HTTP/1.1\r\nHost: shop\r\n\r\n")
    await until(lambda: plain.requests)
    (tracker,) = throttler.pods()
    before = world.pools.of(tracker)
    world.serve(plain, hosts=["shop"], tls=True, probe=ProbeSpec(tls=True))
    assert world.pools.of(tracker) is not before
    held(plain.connections[0])
    assert (await client.answer()).status == 200, "the request in flight finishes"
    await until(lambda: not plain.open)
