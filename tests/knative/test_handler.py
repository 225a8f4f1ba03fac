"""pkg/activator/handler/*_test.go: one request, from its first byte to the response."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.activator.proxy.world import PodConnection, Seen
from tests.knative.objects import NAME, NAMESPACE, config_map, private, revision
from tests.knative.peers import to
from tests.knative.pods import ScriptedPod, http
from tests.knative.world import World

NewWorld = Callable[..., Awaitable[World]]


async def served(world: World, **spec: object) -> ScriptedPod:
    """Apply a revision with one healthy pod."""
    (pod,) = await world.serving(1)
    world.apply(revision(**spec), private([pod.at]))  # type: ignore[arg-type] # any option
    await world.passes()
    return pod


# handler_test.go


async def test_TestActivationHandler__active_endpoint(world: World) -> None:
    """The pod's response passes unchanged."""
    pod = await served(world)
    pod.answer = http(b"everything good!", fields=b"X-Own: 1\r\n")
    answer = await world.ask()
    assert (answer.status, answer.body) == (200, b"everything good!")
    assert answer.get(b"x-own") == b"1"


async def test_TestActivationHandler__request_error(world: World) -> None:
    """The round trip fails: 502, the error as text with a line feed.

    Knative responds so to each failure. This activator does so only if it must not retry: here the
    pod has received a POST.
    """
    pod = await served(world)

    def fail(connection: PodConnection) -> None:
        if connection.requests[-1].target == b"/healthz":
            connection.write(http(b"queue"))
        else:
            connection.reset()

    pod.on_data = fail
    answer = await world.ask(to(method=b"POST", body=b"x"))
    assert answer.status == 502
    assert answer.get(b"content-type") == b"text/plain; charset=utf-8"
    assert answer.get(b"x-content-type-options") == b"nosniff"
    assert answer.body.endswith(b"\n")
    assert f"{pod.host}:{pod.port}".encode() in answer.body


async def test_TestActivationHandler__overflow(new_world: NewWorld) -> None:
    """The queue is full: 503 ``pending request queue full`` with a line feed."""
    world = await new_world(queue_depth="3")
    world.apply(revision(cc=1), private())
    await world.passes()
    waiting = await world.calls(3)
    await world.passes()
    answer = await world.ask()
    assert (answer.status, answer.body) == (503, b"pending request queue full\n")
    assert await world.outcome(waiting) == {"waits": 3}


async def test_TestActivationHandlerProxyHeader(world: World) -> None:
    """The pod sees ``K-Proxy-Request: activator``; a client's own is overwritten."""
    pod = await served(world)
    await world.ask(to(fields=b"K-Proxy-Request: somebody\r\n"))
    assert pod.traffic[0].all(b"k-proxy-request") == [b"activator"]


async def test_TestActivationHandlerPassthroughLb(world: World) -> None:
    """Pods are addressable through the mesh: the host is the private Service.

    The pod also gets ``K-Passthrough-Lb: true``.
    """
    addressable = {"enable-mesh-pod-addressability": "true"}
    world.apply(config_map("config-network", addressable))
    pod = await served(world)
    await world.ask()
    assert pod.traffic[0].all(b"host") == [b"real-name-private.real-namespace"]
    assert pod.traffic[0].all(b"k-passthrough-lb") == [b"true"]
    assert pod.traffic[0].all(b"k-original-host") == [b"example.com"]


# context_handler_test.go


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(
            f"Host: x\r\nKnative-Serving-Namespace: {NAMESPACE}\r\n"
            f"Knative-Serving-Revision: {NAME}\r\n",
            id="with headers",
        ),
        pytest.param(f"Host: {NAME}.{NAMESPACE}.svc.cluster.local\r\n", id="with host"),
        pytest.param(f"Host: {NAME}.{NAMESPACE}.svc.cluster.local:80\r\n", id="with host and port"),
        pytest.param(
            f"Host: {NAME}.{NAMESPACE}.svc.cluster.local\r\nKnative-Serving-Revision: other\r\n",
            id="one header alone does not count",
        ),
    ],
)
async def test_TestContextHandler(world: World, head: str) -> None:
    """The two headers name the revision; without them a host of four parts does."""
    await served(world)
    assert (await world.ask(f"GET / HTTP/1.1\r\n{head}\r\n".encode())).body == b"pod-0"


@pytest.mark.parametrize(
    ("head", "name"),
    [
        pytest.param(
            "Host: x\r\nKnative-Serving-Namespace: foospace\r\nKnative-Serving-Revision: fooname",
            "fooname",
            id="headers",
        ),
        pytest.param("Host: fooname.foospace.svc.cluster.local", "fooname", id="host"),
        pytest.param("Host: fooname.foospace.svc.cluster.local:8080", "fooname", id="port"),
        pytest.param("Host: fooname.foospace.svc.other.domain", "", id="another domain"),
        pytest.param("Host: fooname.foospace.svc", "", id="three parts"),
        pytest.param("Host: a.fooname.foospace.svc.cluster.local", "", id="five parts"),
        pytest.param("Host: x\r\nKnative-Serving-Revision: fooname", "fooname", id="no namespace"),
        pytest.param("Host: x\r\nKnative-Serving-Namespace: foospace", "", id="no name"),
        pytest.param("Host: x", "", id="nothing"),
    ],
)
async def test_TestContextHandlerError(world: World, head: str, name: str) -> None:
    """An unknown revision gets 404; the text names the revision, without its namespace."""
    await served(world)
    answer = await world.ask(f"GET / HTTP/1.1\r\n{head}\r\n\r\n".encode())
    error = f'revision.serving.knative.dev "{name}" not found'
    assert answer.status == 404
    assert answer.body == f"Error getting active endpoint: {error}\n".encode()
    assert answer.get(b"content-type") == b"text/plain; charset=utf-8"
    assert answer.get(b"x-content-type-options") == b"nosniff"


# healthz_handler_test.go


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        pytest.param(b"User-Agent: chromium/734.6.5\r\n", 0, id="forward non-kubelet request"),
        pytest.param(b"User-Agent: kube-probe/something\r\n", 200, id="kubelet probe success"),
        pytest.param(b"K-Kubelet-Probe: anything\r\n", 200, id="deprecated header"),
        pytest.param(b"K-Kubelet-Probe:\r\n", 0, id="forward empty header"),
        pytest.param(b"User-Agent: x kube-probe/1.34\r\n", 0, id="forward not at the beginning"),
    ],
)
async def test_TestHealthHandler(world: World, fields: bytes, status: int) -> None:
    """A kubelet's probe gets an own response 200; all other requests are forwarded."""
    pod = await served(world)
    answer = await world.ask(to(fields=fields))
    if status:
        assert (answer.status, answer.body) == (status, b"")
    else:
        assert answer.body == b"pod-0"
    assert len(pod.traffic) == (status == 0)


async def test_TestHealthHandler__probe_failure(new_world: NewWorld) -> None:
    """No autoscaler yet: 500, the reason and a line feed. Requests are still served."""
    world = await new_world(autoscaler_url="ws://127.0.0.1:1")
    pod = await served(world)
    answer = await world.ask(to(fields=b"User-Agent: kube-probe/something\r\n"))
    assert (answer.status, answer.body) == (500, b"connection has not yet been established\n")
    assert not pod.traffic
    assert (await world.ask()).body == b"pod-0"


# probe_handler_test.go


@pytest.mark.parametrize(
    ("method", "fields", "status", "body"),
    [
        pytest.param(b"POST", b"", 200, b"pod-0", id="forward a normal POST request"),
        pytest.param(b"GET", b"", 200, b"pod-0", id="forward a normal GET request"),
        pytest.param(
            b"GET",
            b"K-Network-Probe: queue\r\n",
            400,
            b'unexpected probe header value: "queue"\n',
            id="header value is queue",
        ),
        pytest.param(
            b"GET",
            b"K-Network-Probe: not-empty\r\n",
            400,
            b'unexpected probe header value: "not-empty"\n',
            id="header value is not empty",
        ),
        pytest.param(
            b"GET", b"K-Network-Probe: activator\r\n", 200, b"activator", id="activator probe"
        ),
        pytest.param(b"GET", b"K-Network-Probe:\r\n", 200, b"pod-0", id="header is empty"),
        pytest.param(b"GET", b"K-Network-Probe:  \t\r\n", 200, b"pod-0", id="header is blank"),
    ],
)
async def test_TestProbeHandler(
    world: World, method: bytes, fields: bytes, status: int, body: bytes
) -> None:
    """``activator`` gets an own response, another value an error; no value is forwarded."""
    pod = await served(world)
    answer = await world.ask(to(method=method, fields=fields), method)
    assert (answer.status, answer.body) == (status, body)
    assert len(pod.traffic) == (body == b"pod-0")


# metric_handler_test.go


@pytest.mark.parametrize("fails", [False, True], ids=["normal", "broken pod"])
async def test_TestRequestMetricHandler(world: World, fails: bool) -> None:
    """Metrics count each request by service, configuration, revision and namespace.

    They also count requests that fail. (In Knative's case the inner handler panics.)
    """
    pod = await served(world)
    if fails:
        pod.answer = b"this is no HTTP\r\n\r\n"
    answer = await world.ask(to(method=b"POST", body=b"x"), b"POST")
    assert answer.status == (502 if fails else 200)
    found = await world.metric(
        "http_server_request_duration_seconds_count",
        kn_service_name=f"service-{NAME}",
        kn_configuration_name=f"config-{NAME}",
        kn_revision_name=NAME,
        k8s_namespace_name=NAMESPACE,
        http_request_method="POST",
        http_response_status_code=str(answer.status),
    )
    assert list(found.values()) == [1.0]


# Full duplex


async def test_TestActivatorChainHandlerWithFullDuplex(world: World) -> None:
    """32 clients send POSTs of 32 KiB to a pod that echoes each piece before the next arrives.

    Each client sends ten on one connection (in Go 100, ten times over). All echoes are complete.
    """
    pod = await served(world, annotations={"features.knative.dev/http-full-duplex": "Enabled"})
    body = bytes(range(256)) * 128

    def echo(seen: Seen) -> bytes:
        return http(seen.body)

    pod.answer = echo

    async def client() -> None:
        connection = await world.client()
        for _ in range(10):
            connection.send(to(method=b"POST", body=body))
            answer = await connection.answer(b"POST")
            assert (answer.status, answer.body) == (200, body)

    await asyncio.gather(*(client() for _ in range(32)))
    assert len(pod.traffic) == 320


@pytest.mark.parametrize(
    "annotations", [{"features.knative.dev/http-full-duplex": "Enabled"}, {}], ids=["on", "off"]
)
@pytest.mark.parametrize("framing", ["chunked", "length"])
async def test_TestActivatorChainHandlerWithFullDuplex__early_response(
    world: World, annotations: dict[str, str], framing: str
) -> None:
    """A response that begins before the request's body is complete passes at once.

    Without the annotation Knative delays it. Even with the annotation it delays a short response
    with Content-Length. This activator has neither defect.
    """
    pod = await served(world, annotations=annotations)
    seen: list[bytes] = []

    def early(connection: PodConnection) -> None:
        if connection.requests[-1].target == b"/healthz":
            connection.write(http(b"queue"))
            return
        seen.append(connection.requests[-1].body)
        if len(seen) > 1:
            return
        if framing == "length":
            connection.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nearly")
        else:
            connection.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nearly\r\n")

    pod.on_data = early
    client = await world.client()
    client.send(to(method=b"POST", fields=b"Content-Length: 100000\r\n") + b"x" * 10)
    await world.until(lambda: b"early" in client.received, "the response's first piece")
    assert client.received.startswith(b"HTTP/1.1 200 ")
