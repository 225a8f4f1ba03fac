"""Knative's end-to-end and conformance tests that exercise the activator, without a cluster.

The test plays service, autoscaler and kubelet. Times are Knative's, and virtual.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from tests.knative.objects import (
    H2C,
    NAME,
    NAMESPACE,
    Address,
    Object,
    private,
    private_service,
    revision,
)
from tests.knative.peers import to
from tests.knative.pods import PASSES, UNAVAILABLE, ScriptedPod, after, chunked
from tests.knative.world import NEVER, World

NewWorld = Callable[..., Awaitable[World]]

TEXT = b"activator request timeout"


async def answering(world: World, pieces: Any, **spec: Any) -> ScriptedPod:
    """Apply a revision with one pod, which sends these pieces as its response."""
    (pod,) = await world.serving(1)
    pod.pieces = pieces
    world.apply(revision(**spec), private([pod.at]))
    await world.passes()
    return pod


# test/e2e/activator_test.go


async def test_TestActivatorOverload(world: World) -> None:
    """containerConcurrency 1: a hundred requests at once of 300 ms, ten pods that start in turn.

    All requests get 200, and no pod ever has two in flight.
    """
    world.apply(revision(cc=1), private())
    await world.passes()
    clients = await world.calls(100)
    pods: list[ScriptedPod] = []
    for _ in range(10):
        pod = await world.pod(UNAVAILABLE, UNAVAILABLE, PASSES)
        pod.pieces = after(0.3)
        pods.append(pod)
        world.apply(private(not_ready=[pod.at for pod in pods]))
        await world.passes(0.2)
    assert [await client.text() for client in clients] == ["hi"] * 100
    assert {pod.most for pod in pods} == {1}


# test/e2e/timeout_test.go and test/conformance/api/v1/revision_timeout_test.go


@pytest.mark.parametrize(
    ("spec", "pieces", "status"),
    [
        pytest.param({"timeoutSeconds": 10}, after(2), 200, id="does not exceed timeout"),
        pytest.param({"timeoutSeconds": 10}, after(12), 504, id="exceeds timeout"),
        pytest.param(
            {"timeoutSeconds": 10, "responseStartTimeoutSeconds": 7},
            after(4),
            200,
            id="does not exceed response start timeout",
        ),
        pytest.param(
            {"timeoutSeconds": 20, "responseStartTimeoutSeconds": 7},
            after(15),
            504,
            id="exceeds response start timeout",
        ),
        pytest.param(
            {"timeoutSeconds": 10, "idleTimeoutSeconds": 5},
            chunked((0, b"1"), (2, b"2"), (4, b"3")),
            200,
            id="does not exceed idle timeout",
        ),
        pytest.param(
            {"timeoutSeconds": 25, "idleTimeoutSeconds": 7}, after(20), 504, id="idle timeout"
        ),
    ],
)
async def test_TestRevisionTimeout(
    world: World, spec: dict[str, int], pieces: Any, status: int
) -> None:
    """A response in time is 200, a late one 504."""
    await answering(world, pieces, **spec)
    answer = await world.ask()
    assert answer.status == status
    assert (answer.body == TEXT) == (status == 504)


async def test_TestRevisionTimeout__writes_first_byte_before_timeout(world: World) -> None:
    """The first byte at once, then 15 s of work under a timeout of 10 s: the status is 200.

    Knative's test does not check the body, to which Knative appends the text of the time-out. This
    activator resets the response instead.
    """
    await answering(world, chunked((0, b"first"), ends=15), timeoutSeconds=10)
    client = await world.call()
    started = world.now()
    await client.ended()
    assert world.now() - started == pytest.approx(10, abs=0.1)
    assert client.received.startswith(b"HTTP/1.1 200 ")
    assert TEXT not in client.received


# test/conformance/api/v1/single_threaded_test.go


async def test_TestSingleConcurrency(world: World) -> None:
    """containerConcurrency 1, five clients for 20 s: a container never has two requests."""
    pods = await world.serving(2)
    for pod in pods:
        pod.pieces = after(0.1)
    world.apply(revision(cc=1), private(pod.at for pod in pods))
    end = world.now() + 20

    async def client() -> int:
        connection, count = await world.client(), 0
        while world.now() < end:
            connection.send(to())
            assert (await connection.answer()).status == 200
            count += 1
        return count

    counts = await asyncio.gather(*(client() for _ in range(5)))
    assert [pod.most for pod in pods] == [1, 1]
    assert sum(counts) == pytest.approx(400, abs=10), "both pods were busy all the time"


# test/conformance/runtime


async def test_TestProtocols__http1(world: World) -> None:
    """Port ``http1``, or none: the application sees HTTP/1.1."""
    pod = await answering(world, after(0))
    await world.ask()
    assert pod.traffic[0].version == b"1.1"


async def test_TestProtocols__http1_client_of_an_h2c_revision(world: World) -> None:
    """Only the client's version decides: HTTP/1.1 stays HTTP/1.1, also to the port of h2c."""
    (pod,) = await world.serving(1)
    world.apply(revision(protocol=H2C), private([pod.at], port_name="http2"))
    assert (await world.ask()).body == b"pod-0"
    assert pod.traffic[0].version == b"1.1"


async def test_TestMustHaveHeadersSet(world: World) -> None:
    """The pod always gets a Host field."""
    pod = await answering(world, after(0))
    await world.ask()
    (host,) = pod.traffic[0].all(b"host")
    assert host


async def test_TestShouldHaveHeadersSet(world: World) -> None:
    """Fields of the user and the ingress pass, for example the protocol and the trace.

    X-Forwarded-For is a list of addresses.
    """
    pod = await answering(world, after(0))
    context = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    fields = b"X-Custom: Abc\r\nX-Forwarded-For: 10.1.2.3\r\nX-Forwarded-Proto: http\r\n"
    await world.ask(to(fields=fields + b"Traceparent: " + context + b"\r\n"))
    (seen,) = pod.traffic
    assert seen.all(b"x-custom") == [b"Abc"]
    assert seen.all(b"x-forwarded-proto") == [b"http"]
    assert seen.all(b"traceparent") == [context]
    (forwarded_for,) = seen.all(b"x-forwarded-for")
    assert len([ipaddress.ip_address(part.decode()) for part in forwarded_for.split(b", ")]) == 2


#: Seconds between two probes of a pod by Knative's activator, and time to connect.
ROUND = 0.2 + 0.01


@pytest.mark.parametrize("listed", ["ready", "not_ready"])
@pytest.mark.parametrize("kind", ["httpGet", "tcpSocket", "exec"])
async def test_TestProbeRuntime(world: World, listed: str, kind: str) -> None:
    """A container needs ten seconds: the first request gets no response before it is ready.

    queue-proxy cannot run an exec probe, so there Kubernetes must list the pod as ready.
    """
    pod = await world.pod(UNAVAILABLE)
    world.apply(revision(container={"readinessProbe": {kind: {}}}))
    world.apply(private(not_ready=[pod.at]))
    client = await world.call()
    await world.passes(10)
    assert client.waits
    pod.reacts(PASSES)
    started = world.now()
    if listed == "ready":
        world.apply(private([pod.at]))
    if listed == "ready" or kind != "exec":
        assert await client.text() == "pod-0"
        # At once if Kubernetes lists the pod; else before the next round of probes in Knative.
        assert world.now() - started < (0.1 if listed == "ready" else ROUND)
    else:
        await world.passes(NEVER)
        assert client.waits


async def test_TestProbeRuntimeAfterStartup(world: World) -> None:
    """All pods become unready: a request waits until the client cancels it."""
    pods = await world.serving(2)
    world.apply(revision(), private(pod.at for pod in pods))
    assert (await world.ask()).status == 200
    for pod in pods:
        pod.reacts(UNAVAILABLE)
    world.apply(private(not_ready=[pod.at for pod in pods]))
    await world.passes()
    client = await world.call()
    await world.passes(5)
    assert client.waits
    client.abort()
    await world.passes(0.1)
    assert (await world.api())["queued"] == 0


# test/e2e/multicontainerprobing


HTTP = {"httpGet": {"path": "/", "port": 8881}}
TCP = {"tcpSocket": {"port": 8881}}
GRPC = {"grpc": {"port": 8883}}


EXEC = {"exec": {"command": ["x"]}}
KUBERNETES = {"activator.dev/readiness-policy": "kubernetes"}


def with_sidecars(*sidecars: dict[str, Any], **settings: Any) -> Object:
    """Return a Revision with sidecars that have these fields."""
    containers = [{"name": f"sidecar-{i}", "image": "x", **each} for i, each in enumerate(sidecars)]
    return revision(sidecars=containers, **settings)


async def polled(world: World, *sidecars: dict[str, Any]) -> ScriptedPod:
    """queue-proxy polls all containers: the pod gets the request once all are ready.

    Kubernetes does not list the pod as ready at that time.
    """
    pod = await world.pod(UNAVAILABLE)
    world.apply(with_sidecars(*sidecars), private(not_ready=[pod.at]))
    client = await world.call()
    await world.passes(10)
    assert client.waits
    pod.reacts(PASSES)
    ready = world.now()
    assert await client.text() == "pod-0"
    assert world.now() - ready < ROUND
    return pod


async def gated(
    world: World, *sidecars: dict[str, Any], annotations: dict[str, str] | None = None
) -> ScriptedPod:
    """queue-proxy always responds that the pod is ready. The pod gets no traffic before Kubernetes
    lists it as ready, then at once."""
    pod = await world.pod()
    world.apply(with_sidecars(*sidecars, annotations=annotations), private(not_ready=[pod.at]))
    client = await world.call()
    await world.passes(10)
    assert client.waits
    world.apply(private([pod.at]))
    assert await client.text() == "pod-0"
    return pod


async def test_TestMultiContainerReadiness(world: World) -> None:
    """Sidecars have readiness probes, and one needs ten seconds to become ready.

    The request passes when all containers are ready.
    """
    await polled(world, {"readinessProbe": HTTP}, {"livenessProbe": HTTP}, {"readinessProbe": HTTP})


@pytest.mark.parametrize("probe", [HTTP, TCP, GRPC, EXEC])
@pytest.mark.parametrize("kind", ["readinessProbe", "startupProbe"])
async def test_TestMultiContainerReadinessDifferentProbeTypes(
    world: World, kind: str, probe: dict[str, Any]
) -> None:
    """Startup and readiness probes of each type; queue-proxy polls neither commands nor startup
    probes."""
    blind = kind == "startupProbe" or probe is EXEC
    await (gated if blind else polled)(world, {kind: probe, "livenessProbe": probe})


async def test_TestMultiContainerProbeStartFailingAfterReady(world: World) -> None:
    """A sidecar fails later: the pod is listed as not ready, and gets no further request."""
    pod = await polled(world, {"readinessProbe": HTTP})
    world.apply(private([pod.at]))
    await world.passes()
    pod.reacts(UNAVAILABLE)
    world.apply(private(not_ready=[pod.at]))
    await fails(world, pod)


async def test_TestMultiContainerReadiness__queue_proxy_that_polls_no_sidecar(
    world: World,
) -> None:
    """This queue-proxy always responds 200, so it needs the policy ``kubernetes``."""
    pod = await gated(world, {"readinessProbe": HTTP}, annotations=KUBERNETES)
    world.apply(private(not_ready=[pod.at]))
    await fails(world, pod)


async def fails(world: World, pod: ScriptedPod) -> None:
    """Check that the pod has responded to one request, and gets no other for a minute."""
    await world.passes()
    client = await world.call()
    await world.passes(60)
    assert client.waits
    assert len(pod.traffic) == 1


# test/e2e/websocket_test.go, test/e2e/domainmapping


class EchoServer:
    """An application that echoes WebSocket messages, behind a queue-proxy that passes its probe.

    Attributes:
        pause: seconds before each echo.
    """

    def __init__(self) -> None:
        self.pause = 0.0
        self.headers: list[dict[str, str]] = []
        self.server: Server

    async def listen(self, host: str) -> Address:
        self.server = await serve(
            self._echo, host, 0, process_request=self._probe, ping_interval=None, close_timeout=1
        )
        port: int = next(iter(self.server.sockets)).getsockname()[1]
        return Address(host, port)

    def _probe(self, connection: ServerConnection, request: Request) -> Response | None:
        if request.headers.get("User-Agent") == "Knative-Activator-Probe":
            return connection.respond(HTTPStatus.OK, "queue")
        self.headers.append(dict(request.headers.raw_items()))
        return None

    async def _echo(self, connection: ServerConnection) -> None:
        async for message in connection:
            paused = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_later(self.pause, paused.set_result, None)
            await paused
            await connection.send(message)


@asynccontextmanager
async def web_socket(
    world: World, headers: dict[str, str] | None = None
) -> AsyncIterator[ClientConnection]:
    """Open a WebSocket to the revision, through the activator."""
    host, port = world.at["http"]
    named = {"Knative-Serving-Namespace": NAMESPACE, "Knative-Serving-Revision": NAME}
    async with connect(
        f"ws://{host}:{port}/",
        additional_headers=named if headers is None else headers,
        ping_interval=None,
        open_timeout=60,
        close_timeout=1,
        compression=None,
        proxy=None,
    ) as connection:
        yield connection


@asynccontextmanager
async def echoing(world: World, **spec: Any) -> AsyncIterator[EchoServer]:
    """Apply a revision with one pod, which echoes."""
    server = EchoServer()
    at = await server.listen("127.0.0.1")
    world.apply(revision(**spec), private([at]))
    await world.passes()
    yield server
    server.server.close()
    await server.server.wait_closed()


async def test_TestWebSocket(world: World) -> None:
    """The echo returns text and binary messages, small and large ones, in order."""
    async with echoing(world) as server, web_socket(world) as socket:
        for message in ("Hello, websocket", "", b"\x00\xff", b"x" * 300_000):
            await socket.send(message)
            assert await socket.recv() == message
    assert server.headers[0]["Upgrade"] == "websocket"
    assert "Knative-Serving-Revision" not in server.headers[0]


async def test_TestWebSocketViaActivator(world: World) -> None:
    """The handshake waits for a cold start, and keeps its slot while the socket is open."""
    world.apply(revision(cc=1), private())
    await world.passes()
    server = EchoServer()

    async def one() -> str:
        async with web_socket(world) as socket:
            await socket.send("Hello")
            return str(await socket.recv())

    first = asyncio.ensure_future(one())
    await world.passes(5)
    assert not first.done()
    world.apply(private([await server.listen("127.0.0.1")]))
    assert await first == "Hello"
    async with web_socket(world) as socket:
        await socket.send("1")
        assert await socket.recv() == "1"
        second = asyncio.ensure_future(one())
        await world.passes(5)
        assert not second.done(), "containerConcurrency 1, and the first socket is open"
    assert await second == "Hello"
    server.server.close()
    await server.server.wait_closed()


async def test_TestDomainMappingWebsocket(world: World) -> None:
    """A mapped domain: the ingress names the revision and the host of the request."""
    named = {"Knative-Serving-Namespace": NAMESPACE, "Knative-Serving-Revision": NAME}
    mapped = {**named, "K-Original-Host": "mapped.example.com"}
    async with echoing(world) as server, web_socket(world, mapped) as socket:
        await socket.send("Hello")
        assert await socket.recv() == "Hello"
    assert server.headers[0]["K-Original-Host"] == "mapped.example.com"


async def test_TestWebSocketGracefulShutdown(world: World) -> None:
    """The pod ends: the client gets its close frame, and not an abnormal end.

    The code is 1001, as for a server that ends. (Knative's server sends 1000.)
    """
    async with echoing(world) as server, web_socket(world) as socket:
        await socket.send("Hello")
        assert await socket.recv() == "Hello"
        world.apply(private())
        await world.passes()
        await socket.send("still there")
        assert await socket.recv() == "still there", "a delisted pod"
        server.server.close()
        with pytest.raises(ConnectionClosed) as ended:
            await socket.recv()
        assert ended.value.rcvd is not None
        assert ended.value.rcvd.code == 1001


LIMITS = [
    pytest.param({"timeoutSeconds": 10}, id="timeout"),
    pytest.param({"responseStartTimeoutSeconds": 10}, id="response start timeout"),
    pytest.param({"idleTimeoutSeconds": 10}, id="idle timeout"),
]


@pytest.mark.parametrize("spec", LIMITS)
async def test_TestWebSocketWithTimeout__in_time(world: World, spec: dict[str, int]) -> None:
    """A pause of 2 s with a time-out of 10 s: the echo arrives."""
    async with echoing(world, **spec) as server, web_socket(world) as socket:
        server.pause = 2
        await socket.send("Hello")
        assert await socket.recv() == "Hello"


@pytest.mark.parametrize("spec", LIMITS)
async def test_TestWebSocketWithTimeout__too_late(world: World, spec: dict[str, int]) -> None:
    """A pause of 20 s with a time-out of 10 s: the client gets an error after 10 s.

    The response-start time-out does not apply: the 101 was in time. Knative still ends such a
    socket.
    """
    async with echoing(world, **spec) as server, web_socket(world) as socket:
        server.pause = 20
        started = world.now()
        await socket.send("Hello")
        if "responseStartTimeoutSeconds" in spec:
            assert await socket.recv() == "Hello"
            return
        with pytest.raises(ConnectionClosed):
            await socket.recv()
        assert world.now() - started == pytest.approx(10, abs=0.2)


async def test_TestWebSocketWithTimeout__frames_renew_the_idle_timer(world: World) -> None:
    """Frames every 4 s with an idle time-out of 10 s: the socket stays open, unlike in Knative."""
    async with echoing(world, idleTimeoutSeconds=10) as server, web_socket(world) as socket:
        server.pause = 4
        for number in range(10):
            await socket.send(str(number))
            assert await socket.recv() == str(number)


# test/e2e/destroypod_test.go, test/ha


async def test_TestDestroyPodInflight(world: World) -> None:
    """A request of 35 s succeeds although its pod is delisted early (time-out 45 s)."""
    pod = await answering(world, after(35), timeoutSeconds=45)
    client = await world.call()
    await world.until(lambda: pod.traffic)
    world.apply(private(not_ready=[pod.at]))
    await world.passes(5)
    world.apply(private())
    assert await client.text() == "hi"


async def test_TestDestroyPodWithRequests(world: World) -> None:
    """Six requests of 12 s, a second apart, while their pod is deleted: all get 200."""
    old, new = await world.serving(2)
    old.pieces = new.pieces = after(12)
    world.apply(revision(), private([old.at]))
    await world.passes()
    clients = []
    for number in range(6):
        clients.append(await world.call())
        await world.passes(1)
        if number == 2:
            world.apply(private([new.at], [old.at]))
    world.apply(private([new.at]))
    assert [await client.text() for client in clients] == ["hi"] * 6
    assert old.traffic
    assert new.traffic


@pytest.mark.parametrize("sidecars", [(False, False), (False, True), (True, False), (True, True)])
async def test_TestSvcToSvcViaActivator(world: World, sidecars: tuple[bool, bool]) -> None:
    """One service calls another, each with or without a mesh's sidecar.

    A sidecar responds 503 to the activator's probe: requests go to the ClusterIP. Without a
    sidecar they go to the pod.
    """
    for name, sidecar in zip(("caller", "called"), sidecars, strict=True):
        pod = await world.pod(*((UNAVAILABLE,) if sidecar else ()))
        cluster_ip = await world.pod()
        world.apply(revision(name), private([pod.at], name=name))
        world.apply(private_service(cluster_ip.at, name))
        used = cluster_ip if sidecar else pod
        assert await (await world.call(to(name))).text() == used.name


@pytest.mark.parametrize("refuses_first", [False, True], ids=["graceful", "killed"])
async def test_TestWorkloadHA(world: World, refuses_first: bool) -> None:
    """One of two pods is deleted, four times over, under load: every request succeeds.

    A killed pod refuses connections before Kubernetes delists it.
    """
    pods = await world.serving(6)
    for pod in pods:
        pod.pieces = after(0.02)
    world.apply(revision(cc=1), private(pod.at for pod in pods[:2]))
    await world.passes()
    statuses: list[int] = []
    ending = False

    async def client() -> None:
        while not ending:
            statuses.append((await world.ask()).status)

    clients = [asyncio.ensure_future(client()) for _ in range(6)]
    for turn in range(4):
        if refuses_first:
            await pods[turn].refuse()
            await world.passes(0.3)
        world.apply(private(pod.at for pod in pods[turn + 1 : turn + 3]))
        await world.passes(0.3)
    ending = True
    await asyncio.gather(*clients)
    assert set(statuses) == {200}
    assert len(statuses) > 40
    assert pods[5].traffic


async def test_TestActivatorHAGraceful(new_world: NewWorld) -> None:
    """Two activators serve a service, and one begins to drain: all requests get responses.

    That includes the requests queued there. The other activator can still scale from zero.
    """
    first, second = await new_world(), await new_world()
    (pod,) = await second.serving(1)
    pod.pieces = after(1)
    for world in (first, second):
        world.apply(revision(), private())
    await first.passes()
    clients = [*await first.calls(5), *await second.calls(5)]
    first.runtime.begin_drain("received SIGTERM from kubelet")
    await first.passes(2)
    for world in (first, second):
        world.apply(private([pod.at]))
    assert [await client.text() for client in clients] == ["hi"] * 10
    assert (await first.ask()).status == 200, "as long as clients still send requests to it"
    await first.close()
    second.apply(private())
    await second.passes()
    client = await second.call()
    await second.passes(1)
    second.apply(private([pod.at]))
    assert await client.text() == "hi"
