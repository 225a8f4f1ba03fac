"""HTTP/2 over TLS on both sides: when it is used, and the conditions of a handshake."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import trustme

from activator.knative.words import DATA_PLANE
from activator.proxy.http2 import frames
from activator.proxy.http2.frames import ErrorCode
from activator.tls.internal_encryption import POD_PORT
from tests.activator.proxy.client.test_http2 import BEGIN, asked, cut, goaways
from tests.activator.proxy.http2.peers import (
    Http2Pod,
    Http2World,
    Peer,
    answer_hello,
    echo,
)
from tests.activator.proxy.tls_world import (
    TlsWorld,
    free_address,
    pod_context,
    secret,
)
from tests.activator.proxy.world import Client, request, turns, until
from tests.conftest import both_loops, in_virtual_time
from throttler.model import Endpoint

pytestmark = both_loops


class TlsHttp2Pod(Http2Pod):
    """A pod that takes requests over TLS on the port that is for that."""

    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__()
        self.context = context
        self.host = free_address()

    async def listen(self) -> None:
        self.server = await asyncio.get_running_loop().create_server(
            self.accept, self.host, POD_PORT, ssl=self.context
        )

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(f"{self.host}:8013", self.host)


class Http2TlsWorld(Http2World):
    """The world with TLS on both sides; all of its pods offer HTTP/2 by default."""

    world: TlsWorld  # type: ignore[mutable-override] # set once

    async def pod(self, *names: str, alpn: tuple[str, ...] = ("h2", "http/1.1")) -> TlsHttp2Pod:
        """A pod with a certificate of these names; right ones where there are none."""
        context = pod_context(self.world.ca, *names)
        context.set_alpn_protocols(alpn)
        pod = TlsHttp2Pod(context)
        await pod.listen()
        self.pods.append(pod)
        return pod

    async def secure(self, peer: Any, *alpn: str, context: ssl.SSLContext | None = None) -> Any:
        """Connect over TLS and offer these protocols."""
        if context is None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            self.world.ca.configure_trust(context)
        if alpn:
            context.set_alpn_protocols(alpn)
        await asyncio.get_running_loop().create_connection(
            lambda: peer, "127.0.0.1", self.world.port, ssl=context, server_hostname=DATA_PLANE
        )
        self.world.clients.append(peer)
        return peer

    async def client(self, **settings: Any) -> Peer:
        peer: Peer = await self.secure(Peer(client=True, **settings), "h2")
        return peer


@pytest.fixture
async def world(anyio_backend: Any) -> AsyncIterator[TlsWorld]:
    """A proxy with TLS on both sides."""
    world = TlsWorld()
    await world.start()
    yield world
    await world.close()


@pytest.fixture
def http2(world: TlsWorld) -> Iterator[Http2TlsWorld]:
    """A proxy between clients and pods that speak HTTP/2 over TLS."""
    made = Http2TlsWorld(world)
    yield made
    made.close()


def agreed(peer: Any) -> str | None:
    """Return the protocol that both sides agreed on."""
    found: str | None = peer.transport.get_extra_info("ssl_object").selected_alpn_protocol()
    return found


# -- clients -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        (["h2", "http/1.1"], "h2"),
        (["http/1.1", "h2"], "h2"),
        (["h2"], "h2"),
        (["http/1.1"], "http/1.1"),
        (["other"], None),
        ([], None),
    ],
)
async def test_who_offers_http2_is_given_it(http2, offered, chosen):
    assert agreed(await http2.secure(Client(), *offered)) == chosen


async def test_a_request_reaches_a_pod_and_both_sides_are_encrypted(http2, traces):
    pod = await http2.serving()
    client = await http2.client()
    answer = await client.answer(client.ask(b"/x", b"POST", (b"x-forwarded-proto", b"https")))
    assert (answer.status, answer.body) == (200, b"hello")
    (seen,) = pod.requests
    assert seen.all(b":scheme") == [b"https"]
    assert seen.all(b":authority") == [f"{pod.host}:8112".encode()]
    assert seen.all(b"x-forwarded-proto") == [b"https"]
    assert agreed(pod.connections[0]) == "h2"
    assert (traces.secure, traces.origins) == ([True], [f"https://{pod.host}:8112"])


@pytest.mark.parametrize("size", [70_000, 3_000_000])
async def test_bodies_pass_whole_both_ways(http2, size):
    pod = await http2.serving()
    pod.on_message = echo
    client = await http2.client()
    body = bytes(range(256)) * (size // 256)
    stream = client.ask(b"/", b"PUT", end=False)
    client.data(stream, body, end=True)
    assert (await client.answer(stream)).body == body


async def test_a_client_that_offered_nothing_may_begin_with_the_preface(http2):
    await http2.serving()
    client = await http2.secure(Client())
    client.send(BEGIN + asked(1))
    await until(lambda: b"hello" in client.received)


async def test_a_client_that_has_settled_on_http1_is_not_spoken_to_in_http2(http2):
    client = await http2.secure(Client(), "http/1.1")
    client.send(BEGIN)
    assert (await client.answer()).status == 505


@in_virtual_time
async def test_a_client_that_agreed_on_http2_and_speaks_http1_gets_an_error(http2):
    client = await http2.secure(Client(), "h2")
    client.send(request())
    await client.ended()
    assert [code for _, code in goaways(client.received)] == [ErrorCode.PROTOCOL_ERROR]


async def test_settings_come_before_the_client_has_said_anything(http2):
    client = await http2.secure(Client(), "h2")
    await until(lambda: cut(client.received))
    assert cut(client.received)[0][0] == frames.FrameType.SETTINGS


@in_virtual_time
@pytest.mark.parametrize(
    ("suite", "alpn", "adequate"),
    [
        ("ECDHE-ECDSA-AES128-GCM-SHA256", ["h2"], True),
        ("ECDHE-ECDSA-AES256-SHA384", ["h2"], False),
        ("ECDHE-ECDSA-AES256-SHA384", [], False),
    ],
)
async def test_a_cipher_suite_of_the_black_list_will_not_do(http2, suite, alpn, adequate):
    """Where the operator has allowed TLS 1.2; HTTP/1 may have it."""
    http2.world.tls.server.context.minimum_version = ssl.TLSVersion.TLSv1_2
    await http2.serving()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    http2.world.ca.configure_trust(context)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(suite)
    client = await http2.secure(Client(), *alpn, context=context)
    client.send(BEGIN + asked(1))
    if adequate:
        await until(lambda: b"hello" in client.received)
    else:
        await client.ended()
        assert [code for _, code in goaways(client.received)] == [ErrorCode.INADEQUATE_SECURITY]


async def test_a_client_that_leaves_the_queue_frees_its_place(http2):
    http2.list()
    client = await http2.client()
    client.ask()
    await until(lambda: http2.world.waiting == 1)
    client.transport.abort()
    await until(lambda: http2.world.waiting == 0)


# -- pods ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpn", [("http/1.1",), ()])
async def test_grpc_learns_that_a_pod_does_not_choose_http2(http2, alpn):
    pod = await http2.pod(alpn=alpn)
    http2.list(pod)
    client = await http2.client()
    answer = await client.answer(client.ask(b"/", b"POST", (b"content-type", b"application/grpc")))
    assert answer.all(b"grpc-status") == [b"14"]
    assert answer.all(b"grpc-message")[0].endswith(b"the pod does not speak HTTP/2")
    assert not pod.requests


async def test_a_pod_that_does_not_choose_http2_gets_the_request_in_http1(http2):
    pod = await http2.world.serving()
    client = await http2.client()
    for _ in range(2):
        answer = await client.answer(client.ask())
        assert (answer.status, answer.body) == (200, b"hello")
    understood = [seen for seen in pod.requests if seen.method != b"PRI"]
    assert [seen.version for seen in understood] == [b"1.1", b"1.1"]
    http2.world.errors.clear()  # the pod's strict parser has met the preface


async def test_grpc_learns_that_a_pod_ends_the_handshake_for_it(http2):
    """As Go's servers do, where Python's go on without a protocol."""

    class Refusing(asyncio.Protocol):
        def connection_made(self, transport: Any) -> None:
            self.transport = transport

        def data_received(self, data: bytes) -> None:
            self.transport.write(bytes.fromhex("15 0303 0002 02 78"))  # no_application_protocol
            self.transport.close()

    pod = TlsHttp2Pod(pod_context(http2.world.ca))
    pod.server = await asyncio.get_running_loop().create_server(Refusing, pod.host, POD_PORT)
    http2.pods.append(pod)
    http2.list(pod)
    client = await http2.client()
    answer = await client.answer(client.ask(b"/", b"POST", (b"content-type", b"application/grpc")))
    assert answer.all(b"grpc-status") == [b"14"]
    assert answer.all(b"grpc-message")[0].endswith(b"the pod does not speak HTTP/2")


async def test_a_pod_of_another_namespace_gets_no_request(http2):
    """Not even in the moment between its handshake and the look at its names."""
    wrong = await http2.pod(DATA_PLANE, "kn-user-other")
    http2.list(wrong)
    client = await http2.client()
    streams: list[Any] = []
    while len(streams) < 200:  # one in each turn of the loop, so also in that moment
        streams.append(client.ask(b"/", b"POST"))
        await turns(1)
    await until(lambda: wrong.connections)
    assert not wrong.requests
    http2.list(await http2.pod())
    for stream in streams:
        assert (await client.answer(stream)).status == 200
    assert not wrong.requests


async def test_an_authority_that_is_trusted_no_more_loses_its_connections(http2):
    pod = await http2.serving()
    client = await http2.client()
    assert (await client.answer(client.ask())).status == 200
    pod.on_message = lambda *_: None
    running = client.ask()
    await until(lambda: len(pod.requests) == 2)
    http2.world.tls.set_secret(secret(http2.world.ca, trusted=trustme.CA()))
    later = client.ask()
    await until(lambda: http2.world.waiting == 1, "nobody can be verified any more")
    answer_hello(pod.connections[0], 3, pod.connections[0].messages[3])
    assert (await client.answer(running)).status == 200
    await until(lambda: pod.connections[0].lost)
    pod.on_message = answer_hello
    http2.world.tls.set_secret(secret(http2.world.ca))
    assert (await client.answer(later)).status == 200
