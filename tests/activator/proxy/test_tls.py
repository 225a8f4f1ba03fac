"""Requests over TLS on both sides: which effects a client may notice, and which not."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator
from typing import Any

import pytest
import trustme

from tests.activator.proxy.tls_world import TlsWorld, healthy, pod_context, secret
from tests.activator.proxy.world import PodConnection, answer_whole, ok, request, turns, until
from tests.conftest import both_loops, on_uvloop

pytestmark = both_loops


@pytest.fixture
async def world(anyio_backend: Any) -> AsyncIterator[TlsWorld]:
    world = TlsWorld()
    await world.start()
    yield world
    await world.close()


@pytest.mark.parametrize("size", [0, 1, 70_000, 3_000_000])
async def test_bodies_pass_whole_both_ways_and_connections_are_kept(world, size):
    pod = await world.serving(answer=lambda seen: ok(seen.body))
    client = await world.client()
    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    for _ in range(2):
        client.send(request(b"/", b"POST", body=body))
        answer = await client.answer(b"POST")
        assert (answer.status, answer.body) == (200, body)
    assert len(pod.connections) == 1
    client.close()


async def test_a_request_that_comes_byte_by_byte(world):
    pod = await world.serving()
    client = await world.client()
    for byte in request(b"/x", b"POST", body=b"abc"):
        client.send(bytes([byte]))
        await turns(1)
    assert (await client.answer(b"POST")).status == 200
    assert pod.requests[0].body == b"abc"


async def test_a_pod_is_asked_at_its_port_for_tls(world):
    pod = await world.serving()
    await world.ask()
    assert pod.requests[0].all(b"host") == [f"{pod.host}:8112".encode()]


async def test_a_trace_has_the_encryption_of_both_sides_and_the_dialled_port(world, traces):
    pod = await world.serving()
    await world.ask()
    assert (traces.secure, traces.origins) == ([True], [f"https://{pod.host}:8112"])


async def test_a_kept_connection_that_the_pod_has_closed_costs_the_client_nothing(world):
    """Also where only the kernel knows of it, and the request may not be sent twice."""
    pod = await world.serving()
    for method in (b"GET", b"POST"):
        assert (await world.ask(request(b"/", method, body=b"x"), method)).status == 200
        pod.open[0].close()
        assert (await world.ask(request(b"/", method, body=b"x"), method)).status == 200
        pod.open[-1].transport.abort()
        await turns(20)
        assert (await world.ask(request(b"/", method, body=b"x"), method)).status == 200
    assert not world.counters().outcomes["upstream-failed"]


@on_uvloop
async def test_a_response_that_ends_without_the_end_of_tls_is_not_taken_for_whole(world):
    """Any host on the way can end a TCP connection (RFC 8446 section 6.1). asyncio's own loop
    reports both ends alike.
    """

    def answer(connection: PodConnection) -> None:
        connection.write(b"HTTP/1.1 200 OK\r\n\r\nhalf")
        world.loop.call_later(0.01, connection.end_behind_the_loop)

    pod = await world.serving()
    pod.on_data = answer
    client = await world.client()
    client.send(request())
    await client.ended()
    assert b"half" in client.received
    assert b"\r\n0\r\n\r\n" not in client.received


async def test_a_response_that_ends_with_the_end_of_tls_is_whole(world):
    def answer(connection: PodConnection) -> None:
        connection.write(b"HTTP/1.1 200 OK\r\n\r\nwhole")
        connection.close()

    pod = await world.serving()
    pod.on_data = answer
    assert (await world.ask()).body == b"whole"


@pytest.mark.parametrize("end", ["close", "abort"])
async def test_a_client_that_leaves_the_queue_frees_its_place_at_once(world, end, caplog):
    world.revise()
    client = await world.client()
    client.send(request())
    await until(lambda: world.waiting == 1)
    getattr(client, end)()
    await until(lambda: world.waiting == 0)
    assert not caplog.records


async def test_a_client_that_leaves_the_queue_is_noticed_also_while_its_body_is_unread(world):
    world.revise()
    client = await world.client()
    client.send(request(method=b"POST", body=b"x" * 150_000))
    await until(lambda: world.waiting == 1)
    await turns(100)
    client.transport.abort()  # close() waits until the test reads the end
    for _ in range(100):
        if world.waiting:
            await world.clock_moves(0.05)
    assert world.waiting == 0


async def test_a_client_that_leaves_its_response_frees_the_pod(world):
    pod = await world.serving()
    pod.on_data = lambda connection: connection.write(b"HTTP/1.1 200 OK\r\n\r\nsome")
    client = await world.client()
    client.send(request())
    await until(lambda: b"some" in client.received)
    client.close()
    await until(lambda: world.in_flight == 0)
    await until(lambda: not pod.open)


async def test_a_client_that_does_not_read_stops_the_pod(world):
    sent = 0

    def pour(connection: PodConnection) -> None:
        connection.write(b"HTTP/1.1 200 OK\r\n\r\n")
        world.loop.call_soon(more, connection)

    def more(connection: PodConnection) -> None:
        nonlocal sent
        if connection.transport.get_write_buffer_size() == 0 and not connection.closed:
            sent += 1 << 16
            connection.write(b"x" * (1 << 16))
            world.loop.call_soon(more, connection)

    pod = await world.serving()
    pod.on_data = pour
    client = await world.client(receive_buffer=4096)
    client.transport.pause_reading()
    client.send(request())
    await until(lambda: pod.connections)
    last = -1
    while sent != last:
        last = sent
        await turns(200)
    (downstream,) = world.proxy.connections
    assert downstream.handler.is_full()
    assert downstream.transport.get_write_buffer_size() < 96 << 10
    assert 0 < world.proxy.unread.bytes < 256 << 10  # also encrypted, unseen bytes
    client.abort()
    await until(lambda: not world.proxy.unread.bytes)


async def test_a_websocket_passes_bytes_both_ways_until_one_side_ends(world):
    def switch(connection: PodConnection) -> None:
        connection.raw = True
        connection.write(
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"
            b"Upgrade: websocket\r\n\r\nhi "
        )
        connection.pod.on_data = lambda c: c.write(bytes(c.received[-4:]))

    pod = await world.serving()
    pod.on_data = switch
    client = await world.client()
    client.send(request(fields=b"Connection: Upgrade\r\nUpgrade: websocket\r\n"))
    await until(lambda: client.received.endswith(b"\r\n\r\nhi "))
    client.send(b"ping")
    await until(lambda: client.received.endswith(b"ping"))
    assert pod.connections[0].transport.get_extra_info("sslcontext") is not None
    pod.connections[0].close()
    await client.ended()
    await until(lambda: world.in_flight == 0)


async def test_a_pod_without_a_valid_certificate_gets_nothing_and_the_client_gets_the_reason(world):
    pod = await world.tls_pod(pod_context(trustme.CA()))
    world.healthy = lambda tracker: not tracker.probe.failures and not tracker.probe.error
    world.revise(pod, timeout=1.0)
    answer = await world.ask(request(b"/", b"POST", body=b"secret"), b"POST")
    assert answer.status == 504
    reason = answer.get(b"activator-reason")
    assert b"unable to get local issuer certificate" in reason
    assert pod.requests == []


async def test_another_pod_takes_what_one_without_proof_could_not(world):
    wrong = await world.tls_pod(pod_context(world.ca, "data-plane.knative.dev", "kn-user-other"))
    world.revise(wrong)
    good = await world.pod()
    world.healthy = lambda tracker: not tracker.probe.failures and not tracker.probe.error
    world.list(wrong, good)
    await healthy(world, 2)
    for _ in range(4):
        assert (await world.ask(request(method=b"POST"), b"POST")).status == 200
    assert wrong.requests == []
    assert len(good.requests) == 4


async def test_certificates_and_authorities_change_while_requests_run(world):
    """The steps are a controller's: both are trusted, the new one is used, the old one is
    withdrawn. No request fails, and no connection of a client is closed.
    """
    pod = await world.serving()
    client = await world.client()
    new = trustme.CA()
    both = world.ca.cert_pem.bytes() + new.cert_pem.bytes()

    async def ask(times: int = 3) -> None:
        for _ in range(times):
            client.send(request(b"/", b"POST", body=b"x"))
            assert (await client.answer(b"POST")).status == 200

    await ask()
    world.tls.set_secret({**secret(world.ca), "ca.crt": both})
    await ask()
    await pod.refuse()
    pod.context = pod_context(new)
    await pod.listen()
    pod.open[0].close()
    await ask()
    held: list[PodConnection] = []
    pod.on_data = held.append
    client.send(request())
    await until(lambda: held)
    world.tls.set_secret(secret(new))
    pod.on_data = answer_whole
    answer_whole(held[0])
    assert (await client.answer()).status == 200
    await ask()
    with pytest.raises(ssl.SSLCertVerificationError):
        await world.client()
    new.configure_trust(world.trusted)
    assert (await world.ask()).status == 200


@pytest.mark.parametrize("kind", [trustme.KeyType.RSA, trustme.KeyType.ECDSA])
async def test_a_certificate_of_another_kind_of_key_replaces_the_first(world, kind):
    for key_type in (kind, *trustme.KeyType):
        made = secret(world.ca, key_type=key_type)
        world.tls.set_secret(made)
        client = await world.client()
        shown = client.transport.get_extra_info("ssl_object").getpeercert(True)
        der = ssl.PEM_cert_to_DER_cert(made["tls.crt"].decode())
        assert shown == der
        client.abort()


@pytest.mark.parametrize(
    "sent", [b"", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff" + b"\0" * 50, b"\0" * 5000]
)
async def test_what_is_no_handshake_is_closed_quietly(world, sent, caplog, monkeypatch):
    caplog.set_level(logging.INFO)
    reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
    writer.write(sent)
    if sent == b"":
        await turns(20)
        writer.close()
    else:
        await reader.read()
        writer.close()
    await turns(20)
    assert not world.proxy.connections
    assert not caplog.records
    await world.serving()
    assert (await world.ask()).status == 200
