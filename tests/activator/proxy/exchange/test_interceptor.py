"""Requests for objects of the KEDA HTTP add-on: own responses, limits, texts, fields, TLS."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from typing import Any

import pytest
import trustme

from activator.knative.words import DATA_PLANE
from tests.activator.proxy.http2.peers import Http2Pod, Http2World, Message, Peer, echo
from tests.activator.proxy.tls_world import TlsWorld, pod_context
from tests.activator.proxy.world import (
    NAME,
    NAMESPACE,
    Answer,
    Client,
    Pod,
    PodConnection,
    World,
    about,
    own_world,
    until,
)
from tests.conftest import both_loops
from throttler.model import AppProtocol, RevisionID, RevisionKind
from throttler.request_policies import (
    HeaderRule,
    InterceptorRules,
    RouteRule,
    StaticResponse,
    StaticRoute,
)
from throttler.revision import RevisionThrottler

KINDS = ("InterceptorRoute", "HTTPScaledObject")
ROUTE = RevisionID(NAMESPACE, NAME, RevisionKind.HTTP_ROUTE)
COLD = b"x-keda-http-cold-start"
H2C = AppProtocol.H2C
PAGE = StaticResponse(503, b"\r\nX-Mine: 1", b"<html> soon</html>")
BY_PATH = {"index.html": b"start", "a.css": b"p {}", "b.json": b"{}", "html": b"text"}


def rules(kind: str = KINDS[0], **asks: Any) -> InterceptorRules:
    return InterceptorRules(kind, "web:80", **asks)


def asking(
    path: bytes = b"/", fields: bytes = b"", method: bytes = b"GET", body: bytes = b""
) -> bytes:
    length = b"Content-Length: %d\r\n" % len(body) if body else b""
    return b"%b %b HTTP/1.1\r\nHost: shop\r\n%b%b\r\n%b" % (method, path, length, fields, body)


@pytest.fixture
async def keda(anyio_backend: Any) -> AsyncIterator[World]:
    """A proxy with the dialect keda alone."""
    world = World()
    await world.start(keda=True)
    yield world
    await world.close()


def load(world: World) -> tuple[int, int]:
    """Return the requests of the object now and ever, as the scaler would find them."""
    found = world.loads.get(ROUTE)
    return (0, 0) if found is None else (found.now, found.ever)


async def served(world: World, throttler: RevisionThrottler) -> None:
    await until(lambda: throttler.statistics().healthy == 1)


async def sent(world: World, data: bytes) -> Client:
    """Send a request that waits."""
    client = await world.client()
    client.send(data)
    await until(lambda: world.driver.throttler.find(*ROUTE).queued.waiting)
    return client


def has_text(answer: Answer, status: int, text: bytes) -> None:
    """Check an error of the activator in the words of the add-on."""
    assert (answer.status, answer.body) == (status, text)
    assert answer.get(b"content-type") == b"text/plain; charset=utf-8"
    assert answer.get(b"x-content-type-options") == b"nosniff"
    assert answer.get(COLD) is None
    assert answer.get(b"activator-reason")


# -- responses of the object -----------------------------------------------------------------------


async def test_a_static_route_wakes_nothing_and_is_no_load(keda: World) -> None:
    static = StaticRoute((RouteRule(paths=("health",)),), StaticResponse(200, b"", b"fine"))
    keda.route(rules=rules(static_routes=(static,)))
    answer = await keda.ask(asking(b"/health/x?y"))
    assert (answer.status, answer.body) == (200, b"fine")
    assert answer.get(b"content-type") == b"text/plain; charset=utf-8"
    assert (load(keda), keda.prober.hurried) == ((0, 0), 0)
    assert answer.get(COLD) is None
    pod = await keda.pod()
    await served(keda, keda.route(pod, rules=rules(static_routes=(static,))))
    assert (await keda.ask(asking(b"/health"))).body == b"hello"
    assert load(keda) == (0, 0), "a request for a static route never counts"
    always = static.__class__(static.rules, static.response, always=True)
    keda.route(pod, rules=rules(static_routes=(always,)))
    assert (await keda.ask(asking(b"/health"))).body == b"fine"
    assert (await keda.ask(asking(b"/healthy"))).body == b"hello"


async def test_the_first_static_route_that_matches_counts(keda: World) -> None:
    rows = [
        (RouteRule(("other",)), b"host"),
        (RouteRule(("*.shop", "shop"), ("a/b",)), b"path"),
        (RouteRule((), (), (HeaderRule(b"x-a", b"1"), HeaderRule(b"x-b"))), b"headers"),
        (RouteRule(("*",), ("",)), b"any"),
    ]
    routes = tuple(StaticRoute((rule,), StaticResponse(200, b"", text)) for rule, text in rows)
    keda.route(rules=rules(static_routes=routes))
    for path, fields, text in (
        (b"/a/b", b"", b"path"),
        (b"/a%2Fb/", b"", b"path"),
        (b"/a", b"", b"any"),
        (b"/", b"X-A: 1\r\nX-B: 2\r\n", b"headers"),
        (b"/", b"X-A: 11\r\nX-B: 2\r\n", b"any"),
    ):
        assert (await keda.ask(asking(path, fields))).body == text, (path, fields)


@both_loops
async def test_a_placeholder_is_sent_at_once_and_wakes(keda: World) -> None:
    keda.route(rules=rules(placeholder=PAGE))
    for method in (b"GET", b"HEAD", b"POST"):
        answer = await keda.ask(asking(method=method), method)
        assert (answer.status, answer.get(b"x-mine")) == (503, b"1")
        assert answer.body == (b"" if method == b"HEAD" else PAGE.body)
        assert answer.get(b"content-length") == b"%d" % len(PAGE.body)
        assert answer.get(b"content-type") == b"text/html; charset=utf-8"
        assert answer.get(COLD) is None
    assert load(keda)[0] == 1, "all of them are one request until the next poll"
    await keda.clock_moves(1.1)
    assert load(keda)[0] == 0
    pod = await keda.pod()
    await served(keda, keda.route(pod, rules=rules(placeholder=PAGE)))
    assert (await keda.ask(asking())).body == b"hello"


@pytest.mark.parametrize(
    ("static", "path", "status", "body", "kind"),
    [
        (StaticResponse(599, b"\r\nContent-Type: a/b", b"x"), b"/", 599, b"x", b"a/b"),
        (StaticResponse(100, b"", b"x"), b"/", 200, b"x", b"text/plain; charset=utf-8"),
        (StaticResponse(204, b"", b"x"), b"/", 204, b"", None),
        (StaticResponse(304, b"", b"x"), b"/", 304, b"", None),
        (StaticResponse(200, files=BY_PATH, by_path=True), b"/", 200, b"start", b"text/html"),
        (StaticResponse(200, files=BY_PATH, by_path=True), b"/a.css?v", 200, b"p {}", b"text/css"),
        (StaticResponse(200, files=BY_PATH, by_path=True), b"/none", 200, b"", None),
        (StaticResponse(200, files=BY_PATH, key="b.json"), b"/x", 200, b"{}", b"application/json"),
        (StaticResponse(200, files=BY_PATH, by_path=True), b"/html", 200, b"text", b"text/plain"),
        (StaticResponse(200, files=BY_PATH, key="none"), b"/", 500, b"Internal", b"text/plain"),
        (StaticResponse(200, files=None, by_path=True), b"/", 500, b"Internal", b"text/plain"),
    ],
)
async def test_a_response_has_the_status_the_body_and_the_type_of_its_object(
    keda: World, static: StaticResponse, path: bytes, status: int, body: bytes, kind: bytes | None
) -> None:
    keda.route(rules=rules(static_routes=(StaticRoute((RouteRule(),), static),)))
    http2 = Http2World(keda)
    peer = await http2.client()
    one, two = await keda.ask(asking(path)), await peer.answer(knock(peer, path=path))
    assert (one.status, two.status) == (status, status)
    assert one.body.startswith(body)
    assert two.body == one.body
    assert two.all(b"content-type") == ([] if kind is None else [one.get(b"content-type")])
    assert (one.get(b"content-type") or b"").startswith(kind or b"")
    if status in (204, 304):
        assert one.get(b"content-length") is None


async def test_requests_beyond_the_limit_are_refused_or_get_the_placeholder(keda: World) -> None:
    keda.route(rules=rules(max_pending=1))
    client = await sent(keda, asking())
    answer = await keda.ask(asking())
    has_text(answer, 503, b"too many pending requests\n")
    assert answer.get(b"activator-reason") == b"queue-full; coldStart.maxPendingRequests 1"
    assert int(answer.get(b"retry-after") or 0) >= 1
    keda.route(rules=rules(max_pending=1, placeholder=PAGE, overflow=True))
    assert (await keda.ask(asking())).body == PAGE.body
    pod = await keda.pod()
    keda.route(pod, rules=rules(max_pending=1, placeholder=PAGE, overflow=True))
    assert (await client.answer()).status == 200
    await keda.clock_moves(1.1)


async def test_a_client_that_leaves_early_is_demand_for_a_second(keda: World) -> None:
    keda.route(rules=rules())
    client = await sent(keda, asking())
    assert load(keda)[0] == 1, "a request that waits counts once"
    client.abort()
    await until(lambda: not keda.driver.throttler.find(*ROUTE).queued.waiting)
    await keda.clock_moves(0.8)
    assert load(keda)[0] == 1
    await keda.clock_moves(0.3)
    assert load(keda)[0] == 0


# -- limits, and the texts of errors ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "limit"),
    [(KINDS[0], b"timeouts.readiness 2s"), (KINDS[1], b"timeouts.conditionWait 2s")],
)
async def test_the_wait_has_a_limit(keda: World, kind: str, limit: bytes) -> None:
    keda.route(rules=rules(kind), readiness=2.0)
    answer = await keda.ask(asking())
    has_text(answer, 504, b"Gateway Timeout\n")
    assert answer.get(b"activator-reason") == b"no-endpoints; " + limit
    assert keda.now_since_start() == about(2.0, within=0.1)
    json = await keda.ask(asking(fields=b"Accept: application/json\r\n"))
    assert b'"status":504' in json.body
    await keda.clock_moves(1.1)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_service_that_cannot_be_found_is_an_error_of_the_server(
    keda: World, kind: str
) -> None:
    keda.route(rules=rules(kind, problem="the Service web has no port"), readiness=2.0)
    answer = await keda.ask(asking())
    has_text(answer, 500, b"Internal Server Error\n")
    assert answer.get(b"activator-reason") == b"no-endpoints; the Service web has no port"


@pytest.mark.parametrize("kind", KINDS)
async def test_the_response_must_begin_in_time(keda: World, kind: str) -> None:
    pod = await keda.pod()
    await served(keda, keda.route(pod, rules=rules(kind), timeout=3.0))
    pod.on_data = lambda connection: None
    answer = await keda.ask(asking())
    has_text(answer, 504, b"Gateway Timeout\n")
    assert answer.get(b"activator-reason") == b"response-late; timeouts.responseHeader 3s"


@pytest.mark.parametrize("kind", KINDS)
async def test_a_failed_pod_is_a_bad_gateway(keda: World, kind: str) -> None:
    pod = await keda.pod()
    await served(keda, keda.route(pod, rules=rules(kind)))
    pod.on_data = lambda connection: connection.reset()
    answer = await keda.ask(asking(method=b"POST", body=b"x"))
    assert (answer.status, answer.body) == (502, b"Bad Gateway\n")


async def test_the_whole_request_has_a_limit(keda: World) -> None:
    keda.route(rules=rules(request_timeout=2.0), readiness=9.0)
    answer = await keda.ask(asking())
    has_text(answer, 504, b"Gateway Timeout\n")
    assert answer.get(b"activator-reason") == b"no-endpoints; timeouts.request 2s"
    pod = await keda.pod()
    await served(keda, keda.route(pod, rules=rules(request_timeout=2.0)))
    pod.on_data = lambda connection: None
    answer = await keda.ask(asking())
    assert answer.get(b"activator-reason") == b"response-late; timeouts.request 2s"
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\npart"
    pod.on_data = lambda connection: connection.write(head)
    client = await keda.client()
    client.send(asking())
    await client.ended()
    assert client.received.endswith(b"part"), "a response that has begun is cut"


async def test_a_client_of_grpc_may_have_less_time(keda: World) -> None:
    keda.route(rules=rules(request_timeout=5.0))
    peer = await Http2World(keda).client()
    stream = knock(peer, (b"content-type", b"application/grpc"), (b"grpc-timeout", b"1S"))
    while not peer.messages.get(stream, Message()).over:
        await keda.clock_moves(0.1)
    (text,) = peer.messages[stream].all(b"grpc-message")
    assert text.endswith(b"grpc-timeout 1s")
    assert peer.messages[stream].all(b"grpc-status") == [b"4"]
    await keda.clock_moves(1.1)


@pytest.mark.parametrize("host", [b"other", b"rev.ns.other"])
async def test_an_unknown_host_is_not_found(keda: World, host: bytes) -> None:
    answer = await keda.ask(b"GET / HTTP/1.1\r\nHost: %b\r\n\r\n" % host)
    has_text(answer, 404, b"Not Found\n")


# -- the fallback ----------------------------------------------------------------------------------


@both_loops
async def test_a_request_goes_to_the_fallback_after_its_wait(keda: World) -> None:
    pod = await keda.pod()
    fallback = keda.route(pod, rules=rules(), kind=RevisionKind.FALLBACK)
    await served(keda, fallback)
    keda.route(rules=rules(fallback=True), readiness=0.5)
    held, pod.on_data = pod.on_data, lambda connection: None
    client = await keda.client()
    client.send(asking(method=b"POST", body=b"held"))
    await keda.in_time(lambda: pod.connections)
    await until(lambda: pod.requests)
    assert load(keda) == (1, 1), "it is still a request of the object"
    held(pod.connections[0])
    answer = await client.answer()
    assert (answer.status, answer.get(COLD)) == (200, None)
    assert pod.requests[0].body == b"held"
    await keda.clock_moves(1.1)
    assert load(keda)[0] == 0


async def test_the_fallback_is_awaited_only_for_the_rest_of_the_time(keda: World) -> None:
    for timeout, at, name in (
        (0.0, 62.0, b"time for the fallback 60s"),
        (5.0, 5.0, b"timeouts.request 5s"),
    ):
        keda.route(rules=rules(request_timeout=timeout), kind=RevisionKind.FALLBACK)
        keda.route(rules=rules(fallback=True, request_timeout=timeout), readiness=2.0)
        began = keda.now()
        answer = await keda.ask(asking())
        has_text(answer, 504, b"Gateway Timeout\n")
        assert answer.get(b"activator-reason") == b"no-endpoints; " + name
        assert keda.now() - began == about(at, within=0.1)


async def test_no_request_awaits_a_fallback_whose_service_is_missing(keda: World) -> None:
    missing = rules(problem="Service shop/backup does not exist")
    keda.route(rules=missing, kind=RevisionKind.FALLBACK)
    keda.route(rules=rules(fallback=True), readiness=2.0)
    began = keda.now()
    answer = await keda.ask(asking())
    has_text(answer, 504, b"Gateway Timeout\n")
    assert answer.get(b"activator-reason") == b"no-endpoints; timeouts.readiness 2s"
    assert keda.now() - began == about(2.0, within=0.1)


async def test_without_time_left_nothing_falls_back(keda: World) -> None:
    pod = await keda.pod()
    await served(keda, keda.route(pod, rules=rules(), kind=RevisionKind.FALLBACK))
    keda.route(rules=rules(fallback=True, request_timeout=1.0), readiness=1.0)
    has_text(await keda.ask(asking()), 504, b"Gateway Timeout\n")
    assert not pod.requests


# -- fields ----------------------------------------------------------------------------------------


def knock(peer: Peer, *fields: tuple[bytes, bytes], path: bytes = b"/") -> int:
    """Begin a request of HTTP/2 without a body; return its stream."""
    stream = int(peer.h2.get_next_available_stream_id())
    head = [(b":method", b"GET"), (b":scheme", b"http"), (b":path", path), (b":authority", b"shop")]
    peer.headers(stream, [*head, *fields], end=True)
    return stream


GIVEN = {
    b"Forwarded": b"for=1.2.3.4",
    b"X-KEDA-HTTP-Cold-Start-Ref-Name": b"forged",
    b"X-Forwarded-For": b"10.0.0.9",
    b"X-Forwarded-Proto": b"https",
    b"X-Forwarded-Host": b"outer",
    b"X-Other": b"1",
}
WANTED = {
    b"forwarded": [],
    b"x-forwarded-for": [b"10.0.0.9, 127.0.0.1"],
    b"x-forwarded-proto": [b"https"],
    b"x-forwarded-host": [b"outer"],
    b"x-other": [b"1"],
    b"x-keda-http-cold-start-ref-name": [NAME.encode()],
    b"x-keda-http-cold-start-ref-namespace": [NAMESPACE.encode()],
}


@both_loops
@pytest.mark.parametrize("to_http2", [False, True])
@pytest.mark.parametrize("from_http2", [False, True])
async def test_fields_of_requests_and_responses(to_http2: bool, from_http2: bool) -> None:
    async with own_world(to_http2, from_http2, keda=True) as keda:
        http2 = Http2World(keda)
        pod: Any = await (http2.pod() if to_http2 else keda.pod())
        protocol = H2C if to_http2 else AppProtocol.HTTP1
        await served(keda, keda.route(pod, rules=rules(), protocol=protocol))
        empty_host = {**GIVEN, b"X-Forwarded-Host": b""}
        empty_proto = {**GIVEN, b"X-Forwarded-Proto": b""}
        for given in (GIVEN, {}, empty_host, empty_proto):
            if from_http2:
                peer = await http2.client()
                lower = [(name.lower(), value) for name, value in given.items()]
                message = await peer.answer(knock(peer, *lower))
                assert (message.status, message.all(COLD)) == (200, [b"false"])
            else:
                lines = b"".join(b"%b: %b\r\n" % each for each in given.items())
                answer = await keda.ask(asking(fields=lines))
                assert (answer.status, answer.get(COLD)) == (200, b"false")
        first, second, third, fourth = pod.requests
        assert {name: first.all(name) for name in WANTED} == WANTED
        assert second.all(b"x-forwarded-for") == [b"127.0.0.1"]
        assert second.all(b"x-forwarded-proto") == [b"http"]
        assert second.all(b"x-forwarded-host") == [b"shop"]
        assert third.all(b"x-forwarded-host") == [b"shop"], "an empty field is none"
        assert third.all(b"x-forwarded-proto") == [b"https"]
        assert fourth.all(b"x-forwarded-host") == [b"outer"]
        assert fourth.all(b"x-forwarded-proto") == [b"http"]
        assert first.all(b":authority" if to_http2 else b"host") == [b"shop"]
        http2.close()


async def test_a_response_says_whether_its_request_had_to_wait(keda: World) -> None:
    for header in (True, False):
        keda.route(rules=rules(cold_start_header=header))
        client = await sent(keda, asking())
        pod = await keda.pod()
        keda.route(pod, rules=rules(cold_start_header=header))
        assert (await client.answer()).get(COLD) == (b"true" if header else None)
        assert (await keda.ask(asking())).get(COLD) == (b"false" if header else None)
        keda.route(rules=rules())


async def test_other_revisions_have_no_such_fields(keda: World) -> None:
    pod = await keda.pod()
    await served(keda, keda.serve(pod, hosts=["plain"]))
    answer = await keda.ask(b"GET / HTTP/1.1\r\nHost: plain\r\nForwarded: for=x\r\n\r\n")
    assert answer.get(COLD) is None
    assert pod.requests[0].all(b"forwarded") == [b"for=x"]
    assert not pod.requests[0].all(b"x-forwarded-proto")


# -- probes ----------------------------------------------------------------------------------------


def probe(agent: bytes, path: bytes, host: bytes = b"10.0.0.1") -> bytes:
    return b"GET %b HTTP/1.1\r\nHost: %b\r\nUser-Agent: %b\r\n\r\n" % (path, host, agent)


async def test_probes_on_the_port_of_requests(keda: World) -> None:
    any_host = StaticResponse(418, b"", b"routed")
    keda.route(rules=rules(static_routes=(StaticRoute((RouteRule(),), any_host),)))
    for not_ready, ready in (("", 200), ("draining", 503)):
        keda.not_ready = not_ready
        for agent, path, host, status in (
            (b"kube-probe/1.31", b"/livez", b"shop", 200),
            (b"kube-probe/1.31", b"/readyz?x", b"shop", ready),
            (b"kube-probe/1.31", b"/", b"shop", 418),
            (b"kube-probe/1.31", b"/", b"none", ready),
            (b"GoogleHC/1.0", b"/", b"none", ready),
            (b"GoogleHC/1.0", b"/", b"shop", 418),
            (b"ELB-HealthChecker/2.0", b"/x", b"none", ready),
            (b"curl/8 GoogleHC/1.0", b"/", b"none", 404),
            (b"curl/8", b"/livez", b"none", 404),
        ):
            found = (await keda.ask(probe(agent, path, host))).status
            assert found == status, (agent, path, host)
    assert load(keda) == (0, 0)


async def test_probes_of_other_dialects_are_as_before(world: World) -> None:
    world.not_ready = "starting"
    assert (await world.ask(probe(b"kube-probe/1.31", b"/livez"))).status == 500
    assert (await world.ask(probe(b"GoogleHC/1.0", b"/"))).status == 404


# -- TLS -------------------------------------------------------------------------------------------


class SecurePod(Pod):
    """A pod that speaks TLS on its own port; it notes the name in each handshake."""

    async def listen(self) -> None:
        self.names: list[str] = []
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        trustme.CA().issue_cert("elsewhere.example").configure_cert(context)
        context.set_alpn_protocols(["http/1.1"])
        context.sni_callback = lambda _socket, name, _context: self.names.append(name)
        self._server = await asyncio.get_running_loop().create_server(
            lambda: PodConnection(self), self.host, 0, ssl=context
        )
        self.port = self._server.sockets[0].getsockname()[1]


@pytest.fixture
async def secure(anyio_backend: Any) -> AsyncIterator[TlsWorld]:
    """The same, whose clients speak TLS."""
    world = TlsWorld()
    await world.start(keda=True)
    yield world
    await world.close()


@both_loops
async def test_a_request_over_tls_goes_to_the_pod_over_tls(secure: TlsWorld) -> None:
    world = secure
    pod = SecurePod(world)
    await pod.listen()
    world.pods.append(pod)
    await served(world, world.route(pod, rules=rules()))
    for _ in range(2):
        answer = await world.ask(asking())
        assert (answer.status, answer.get(b"activator-attempts")) == (200, None)
    assert (pod.names, len(pod.connections)) == (["web.ns"], 1)
    assert pod.requests[0].all(b"x-forwarded-proto") == [b"https"]
    pod.connections[0].end_behind_the_loop()
    assert (await world.ask(asking())).status == 200, "its connections are checked as others are"
    throttler = world.route(rules=rules())
    await until(lambda: not throttler.backends.pods and not pod.open)


@both_loops
@pytest.mark.parametrize("alpn", ["h2", "http/1.1"])
async def test_a_pod_over_tls_chooses_the_version_of_http(secure: TlsWorld, alpn: str) -> None:
    world = secure
    http2 = Http2World(world)
    pod: Any = Http2Pod() if alpn == "h2" else SecurePod(world)
    await pod.listen()
    if alpn == "h2":
        pod.server.close()
        context = pod_context(world.ca)
        context.set_alpn_protocols([alpn])
        pod.server = await asyncio.get_running_loop().create_server(
            pod.accept, "127.0.0.1", pod.port, ssl=context
        )
    (http2.pods if alpn == "h2" else world.pods).append(pod)
    await served(world, world.route(pod, rules=rules()))
    trusted = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    world.ca.configure_trust(trusted)
    trusted.set_alpn_protocols(["h2"])
    peer = Peer(client=True)
    await asyncio.get_running_loop().create_connection(
        lambda: peer, "127.0.0.1", world.port, ssl=trusted, server_hostname=DATA_PLANE
    )
    world.clients.append(peer)  # type: ignore[arg-type] # it has a transport
    for _ in range(2):
        message = await peer.answer(knock(peer))
        assert (message.status, message.body) == (200, b"hello")
    if alpn != "h2":  # the preface comes with the handshake, before its end names no protocol
        assert pod.requests.pop(0).method == b"PRI"
        world.errors.clear()
    assert len(pod.requests) == 2
    http2.close()


# -- what stays as for other revisions -------------------------------------------------------------


@both_loops
async def test_another_protocol(keda: World) -> None:
    pod = await keda.pod()
    pod.answer = (
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    )
    await served(keda, keda.route(pod, rules=rules()))
    client = await keda.client()
    client.send(asking(fields=b"Connection: Upgrade\r\nUpgrade: websocket\r\n"))
    await until(lambda: b"\r\n\r\n" in client.received)
    assert b"X-KEDA-HTTP-Cold-Start: false" in client.received
    pod.connections[0].raw = True
    client.send(b"ping")
    await until(lambda: pod.connections[0].received.endswith(b"ping"))
    assert load(keda)[0] == 1, "it counts while it is open"
    client.close()
    await until(lambda: load(keda)[0] == 0)


@both_loops
async def test_grpc_in_both_directions(keda: World) -> None:
    http2 = Http2World(keda)
    pod = await http2.pod()
    pod.on_message = echo
    await served(keda, keda.route(pod, rules=rules(), protocol=H2C))
    peer = await http2.client()
    stream = int(peer.h2.get_next_available_stream_id())
    head = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/a.B/C")]
    kind = [(b":authority", b"shop"), (b"content-type", b"application/grpc"), (b"te", b"trailers")]
    peer.headers(stream, [*head, *kind])
    peer.data(stream, b"12345", end=True)
    assert (await peer.answer(stream)).body == b"12345"
    http2.close()


async def test_a_client_that_expects_100(keda: World) -> None:
    pod = await keda.pod()
    await served(keda, keda.route(pod, rules=rules()))
    client = await keda.client()
    fields = b"Expect: 100-continue\r\nContent-Length: 4\r\n"
    client.send(asking(method=b"POST", fields=fields))
    await client.change()
    assert client.received.startswith(b"HTTP/1.1 100")
    client.send(b"body")
    assert (await client.answer(b"POST")).status == 200
    assert pod.requests[0].body == b"body"
