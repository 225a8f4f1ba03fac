"""The data ports: uvicorn's server with the proxy's connections, probes on every path, the end."""

from __future__ import annotations

import asyncio
import socket
from itertools import product

import pytest

from activator.proxy.client import connection as client_connection
from activator.proxy.client.listener import BindError, data_server, listen
from tests.activator.proxy.tls_world import ByHand, TlsWorld
from tests.activator.proxy.world import Client, ok, request, until
from tests.conftest import both_loops, in_virtual_time
from tests.rows import naming

PROBES = {
    "kubelet": (b"User-Agent: kube-probe/1.31\r\n", 200, b""),
    "kubelet-header": (b"K-Kubelet-Probe: x\r\n", 200, b""),
    "ingress": (b"K-Network-Probe: probe\r\nK-Network-Hash: h4sh\r\n", 200, b""),
    "ingress-without-hash": (
        b"K-Network-Probe: probe\r\n",
        400,
        b'a probe request must contain a non-empty "K-Network-Hash" header\n',
    ),
    "activator": (b"K-Network-Probe: activator\r\n", 200, b"activator"),
    "other": (b"K-Network-Probe: queue\r\n", 400, b'unexpected probe header value: "queue"\n'),
    "kubelet-first": (b"K-Network-Probe: queue\r\nUser-Agent: kube-probe/1\r\n", 200, b""),
}


async def test_probes_get_a_response_on_every_path_and_method(world):
    pod = await world.serving()
    targets, methods = (b"/", b"//healthz", b"/any?thing"), (b"GET", b"POST", b"HEAD", b"FROB")
    for name, target, method in product(PROBES, targets, methods):
        with naming(name, target, method):
            fields, status, body = PROBES[name]
            client = await world.client()
            client.send(request(target, method, fields=fields))
            answer = await client.answer(method)
            assert answer.status == status
            assert answer.body == (b"" if method == b"HEAD" else body)
            if name == "ingress":
                assert answer.get(b"k-network-hash") == b"h4sh"
            assert not pod.requests
            assert all(load.ever == 0 for load in world.loads.values())


async def test_kubelets_probe_fails_with_the_reason_while_the_activator_is_not_ready(world):
    world.not_ready = "received SIGTERM from kubelet"
    answer = await world.ask(request(fields=b"User-Agent: kube-probe/1.31\r\n"))
    assert (answer.status, answer.body) == (500, b"received SIGTERM from kubelet\n")
    assert (await world.ask(request(fields=b"K-Network-Probe: activator\r\n"))).status == 200


@pytest.mark.parametrize(
    "fields",
    [
        b"User-Agent: curl kube-probe/1\r\n",
        b"X-User-Agent: kube-probe/1\r\n",
        b"K-Network-Probe:\r\n",
        b"K-Kubelet-Probe: \r\n",
    ],
)
async def test_what_only_resembles_a_probe_is_a_request(world, fields):
    pod = await world.serving()
    assert (await world.ask(request(fields=fields))).body == b"hello"
    assert len(pod.requests) == 1


def test_listening_on_a_taken_port_says_which():
    sock = listen("127.0.0.1", 0, "--http-port")
    port = sock.getsockname()[1]
    try:
        with pytest.raises(
            BindError,
            match=f"cannot listen on 127.0.0.1:{port} \\(--http-port\\): address already in use; "
            "--http-port 0 takes any free port",
        ):
            listen("127.0.0.1", port, "--http-port")
    finally:
        sock.close()


def test_listening_sockets_turn_nagle_off_on_any_loop():
    sock = listen("127.0.0.1", 0, "--http-port")
    assert sock.proto == socket.IPPROTO_TCP
    assert not sock.getblocking()
    sock.close()


async def _served(world):
    server = data_server(world.proxy)
    sock = listen("127.0.0.1", 0, "--http-port")
    task = world.tasks.start(server.serve([sock]))
    await until(lambda: server.started)
    return server, sock.getsockname()[1], task


async def _connected(world, port: int) -> Client:
    _, client = await world.loop.create_connection(Client, "127.0.0.1", port)
    world.clients.append(client)
    return client


@both_loops
async def test_a_stopping_server_finishes_what_runs_and_closes_what_is_idle(world):
    pod = await world.serving()
    server, port, task = await _served(world)
    idle = await _connected(world, port)
    idle.send(request())
    assert (await idle.answer()).status == 200
    busy = await _connected(world, port)
    pod.on_data = lambda connection: None
    pod.requests.clear()
    busy.send(request() + request(b"/never"))
    await until(lambda: pod.requests)

    server.should_exit = True
    await idle.ended()
    idle.close()
    pod.connections[-1].write(ok(fields=b"Date: x\r\n"))

    answer = await busy.answer()
    assert (answer.status, answer.get(b"connection")) == (200, b"close")
    await busy.ended()
    busy.close()
    await asyncio.wait([task])
    assert [seen.target for seen in pod.requests] == [b"/"]


@in_virtual_time
async def test_a_request_that_has_arrived_on_an_idle_connection_is_served_at_the_stop(world):
    await world.serving()
    client, silent = await world.client(), await world.client()
    for each in (client, silent):
        each.send(request())
        assert (await each.answer()).status == 200
    await world.clock_moves(10.0)

    world.proxy.services.draining = True
    client.send(request())  # the kernel has it: no callback of the server has run
    for connection in list(world.proxy.connections):
        connection.shutdown()

    answer = await client.answer()
    assert (answer.status, answer.get(b"connection")) == (200, b"close")
    for each in (client, silent):
        await each.ended()
        assert not each.reset


async def test_a_new_connection_may_bring_its_first_request_while_the_server_stops(
    world, monkeypatch
):
    """After a close, an ingress opens a connection for each request, and must not repeat a POST."""
    monkeypatch.setattr(client_connection, "_NEW_SECONDS", 1.0)
    pod = await world.serving()
    server, port, task = await _served(world)
    new, silent = await _connected(world, port), await _connected(world, port)
    await until(lambda: len(world.proxy.connections) == 2)
    world.proxy.services.draining = True
    server.should_exit = True
    await world.clock_moves(0.3)
    with pytest.raises(ConnectionRefusedError):
        await _connected(world, port)
    new.send(request(b"/", b"POST", body=b"x"))
    answer = await new.answer(b"POST")
    assert (answer.status, answer.get(b"connection")) == (200, b"close")
    await silent.ended()
    new.close()
    silent.close()
    await asyncio.wait([task])
    assert len(pod.requests) == 1


@pytest.fixture
async def tls_world(anyio_backend):
    world = TlsWorld()
    await world.start()
    yield world
    await world.close()


async def test_who_is_in_the_middle_of_a_handshake_when_the_server_stops_has_a_second(tls_world):
    world = tls_world
    await world.serving()
    server = data_server(world.proxy)
    sock = listen("127.0.0.1", 0, "--https-port")
    world.port = sock.getsockname()[1]
    server.secure[sock] = world.tls.server.context
    task = world.tasks.start(server.serve([sock]))
    await until(lambda: server.started)
    busy, silent = ByHand(await world.plain(), world.trusted), await world.plain()
    await until(lambda: world.proxy.handshakes == 2)

    world.proxy.services.draining = server.should_exit = True
    while sock.fileno() >= 0:
        await world.clock_moves(0.02)
    with pytest.raises(ConnectionRefusedError):
        await world.plain()
    await busy.shake(behind=request(method=b"POST", body=b"x"))
    head = await busy.read_until(b"\r\n\r\n")
    assert b"200 OK" in head
    assert b"connection: close" in head.lower()
    busy.client.abort()

    await silent.ended()
    await asyncio.wait([task])
    assert not world.proxy.handshakes


@both_loops
async def test_a_drain_ends_the_requests_of_a_server(world):
    world.revise()
    server, port, task = await _served(world)
    client = await _connected(world, port)
    client.send(request())
    await until(lambda: world.waiting == 1)

    server.should_exit = True
    world.proxy.drain()

    answer = await client.answer()
    assert (answer.status, answer.get(b"retry-after")) == (503, b"0")
    await client.ended()
    client.close()
    await asyncio.wait([task])


async def test_a_request_in_progress_when_the_server_stops_gets_its_response(world):
    await world.serving()
    server, port, task = await _served(world)
    client, late = await _connected(world, port), await _connected(world, port)
    begin, end = request()[:20], request()[20:]
    client.send(begin)
    late.send(begin)
    await until(lambda: sum(c.handler.head is not None for c in world.proxy.connections) == 2)

    world.proxy.services.draining = server.should_exit = True
    await asyncio.wait([task], timeout=0.5)
    assert len(world.proxy.connections) == 2
    client.send(end)

    answer = await client.answer()
    assert (answer.status, answer.get(b"connection")) == (200, b"close")
    await client.ended()
    client.close()
    world.proxy.drain()
    told = await late.answer()
    assert (told.status, told.get(b"retry-after"), told.get(b"connection")) == (503, b"0", b"close")
    await late.ended()
    late.close()
    await asyncio.wait([task])


@both_loops
async def test_requests_at_the_end_of_the_drain_get_an_error_or_a_reset(world):
    """A client must neither wait without end nor take half a response for a whole one."""
    pod = await world.serving()
    pod.on_data = lambda connection: None
    clients = [await world.client() for _ in range(4)]
    unanswered, begun, switched, _ = clients
    unanswered.send(request(method=b"POST", body=b"x"))
    await until(lambda: len(pod.requests) == 1)
    begun.send(request())
    await until(lambda: len(pod.requests) == 2)
    pod.connections[-1].write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")
    await until(lambda: begun.received.endswith(b"half"))
    switched.send(request(fields=b"Connection: upgrade\r\nUpgrade: echo\r\n"))
    await until(lambda: len(pod.requests) == 3)
    tunnel = pod.connections[-1]
    tunnel.raw = True
    tunnel.write(b"HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\nhi")
    await until(lambda: switched.received.endswith(b"hi"))

    assert world.proxy.force_end() == 4

    told = await unanswered.answer()
    assert (told.status, told.get(b"retry-after"), told.get(b"connection")) == (503, b"0", b"close")
    assert told.get(b"activator-reason") == b"draining; the pod had not responded yet"
    await until(lambda: all(client.eof for client in clients))
    assert begun.received.endswith(b"\r\n\r\nhalf")
    assert not switched.reset
    await until(lambda: tunnel.eof)
    unanswered.close()
    await until(lambda: not world.proxy.connections)
    assert world.revision().slots.in_flight == 0


async def test_a_client_that_names_no_revision_learns_how_to(world):
    answer = await world.ask(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert answer.status == 404
    assert b"or a host of a Service, such as NAME.NAMESPACE.svc" in answer.get(b"activator-reason")
    half = b"GET / HTTP/1.1\r\nHost: localhost\r\nKnative-Serving-Revision: app\r\n\r\n"
    answer = await world.ask(half)
    assert b'"app" not found' in answer.body
    assert b"give Knative-Serving-Namespace and" in answer.get(b"activator-reason")


def test_accepted_connections_inherit_keep_alive():
    sock = listen("127.0.0.1", 0, "--http-port")
    with sock:
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
