"""The admission port: when proxies get a pod, and the responses to them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, cast

import pytest

from activator.authorization.authorizer import Authorizer
from activator.proxy.client.connection import Admission, ClientPort
from tests.activator.proxy.bound import Bound
from tests.activator.proxy.http2.peers import Http2World
from tests.activator.proxy.observers import Records, Traces
from tests.activator.proxy.world import Answer, Pod, World, turns, until
from tests.conftest import both_loops
from throttler.model import AppProtocol, Policies, QueueOrder, RevisionID, RevisionKind
from throttler.request_policies import (
    Authorization,
    Profile,
    RequestPolicies,
    Verdict,
    WaitMode,
    WakeRules,
    WhileWaiting,
)
from throttler.throttler import Limits

HOST = b"web.example.com"
WEB = RevisionID("ns", "rev", RevisionKind.SERVICE)


def asking(
    fields: bytes = b"", url: bytes = b"http://%b/a?b" % HOST, start: bytes = b"GET / HTTP/1.1"
) -> bytes:
    """Return nginx's admission request; ``fields`` are whole lines with their CRLF."""
    original = b"X-Original-URL: %b\r\n" % url if url else b""
    return b"%b\r\nHost: activator\r\n%b%b\r\n" % (start, original, fields)


class Desk(Bound):
    """The admission port of a world."""

    def __init__(self, world: World, prefix: bytes = b"") -> None:
        super().__init__(world, ClientPort(admission=Admission(prefix, 4096)))

    async def ask(self, data: bytes | None = None, method: bytes = b"GET") -> Answer:
        """Ask on a new connection; return the response."""
        client = await self.client()
        client.send(data or asking())
        answer = await client.answer(method)
        client.close()
        return answer

    def wait(self, count: int, data: bytes | None = None) -> list[asyncio.Task[Answer]]:
        """Ask on so many connections, and do not wait for the responses."""
        return [asyncio.ensure_future(self.ask(data)) for _ in range(count)]


async def opened(world: World, prefix: bytes = b"") -> Desk:
    desk = Desk(world, prefix)
    await desk.open()
    return desk


@pytest.fixture
async def desk(world: World) -> AsyncIterator[Desk]:
    desk = await opened(world)
    yield desk
    desk.close()


async def served(world: World, *pods: Pod, **spec: Any) -> Pod:
    """Return the pod of an awake service."""
    (pod,) = pods or (await world.pod(),)
    throttler = world.serve(pod, hosts=[HOST.decode()], **spec)
    await until(lambda: throttler.statistics().healthy == 1)
    return pod


def counted(world: World) -> dict[str, int]:
    """Return the outcomes that are not zero."""
    outcomes = world.driver.entries.find_host(HOST).counters.outcomes
    return {outcome: count for outcome, count in outcomes.items() if count}


def queued(world: World) -> int:
    return world.driver.entries.find_host(HOST).throttler.queued.waiting


@both_loops
async def test_a_sleeping_service_wakes_and_the_response_names_its_pod(
    world: World, desk: Desk
) -> None:
    world.serve(hosts=[HOST.decode()])
    (waiting,) = desk.wait(1)
    await until(lambda: queued(world) == 1)
    assert world.prober.hurried == 1
    assert [load.now for load in world.loads.values()] == [1], "the wait is demand"
    pod = await served(world)
    answer = await waiting
    assert (answer.status, answer.body) == (200, b"")
    assert answer.get(b"activator-pod") == pod.endpoint.address.encode()
    assert not pod.connections, "the pod gets the request from the proxy alone"
    await world.idle()
    assert counted(world) == {"admitted": 1}


@both_loops
async def test_many_requests_on_one_connection(world: World, desk: Desk) -> None:
    pod = await served(world, container_concurrency=1)
    client = await desk.client()
    for _ in range(3):
        client.send(asking())
        assert (await client.answer()).get(b"activator-pod") == pod.endpoint.address.encode()
    client.send(3 * asking())  # pipelined
    for _ in range(3):
        assert (await client.answer()).status == 200
    await client.drip(asking())
    assert (await client.answer()).status == 200
    assert not world.busy, "the slot is free again at once"
    assert counted(world) == {"admitted": 7}


FORMS = {
    "nginx": asking(b"X-Original-Method: POST\r\n"),
    "nginx, path": b"GET / HTTP/1.0\r\nHost: %b\r\nX-Original-URL: /a?b\r\n\r\n" % HOST,
    "forward-auth": asking(
        b"X-Forwarded-Method: POST\r\nX-Forwarded-Uri: /a?b\r\nX-Forwarded-Host: %b\r\n" % HOST,
        url=b"",
    ),
    "ext_authz": b"POST /a?b HTTP/1.1\r\nHost: %b\r\nContent-Length: 0\r\n\r\n" % HOST,
    "by name": b"GET / HTTP/1.1\r\nHost: a\r\nActivator-Service: ns/rev\r\n\r\n",
}


@pytest.mark.parametrize("form", FORMS)
async def test_each_form_finds_the_service(world: World, desk: Desk, form: str) -> None:
    pod = await served(world)
    answer = await desk.ask(FORMS[form])
    assert answer.status == 200
    assert answer.get(b"activator-pod") == pod.endpoint.address.encode()


async def test_a_revision_of_knative_is_found_by_its_host(world: World, desk: Desk) -> None:
    pod = await world.serving()
    answer = await desk.ask(asking(url=b"http://rev.ns.svc.cluster.local/"))
    assert answer.get(b"activator-pod") == pod.endpoint.address.encode()


async def test_the_path_behind_a_prefix(world: World, records: Records) -> None:
    desk = await opened(world, b"/admit")
    await served(world)
    assert (await desk.ask(asking(b"", b"", b"GET /a HTTP/1.1"))).status == 400
    asked = b"PUT /admit/a?b HTTP/1.1\r\nHost: %b\r\n\r\n" % HOST
    assert (await desk.ask(asked)).status == 200
    desk.close()
    assert [(each.method, each.target, each.host) for each in records] == [(b"PUT", b"/a?b", HOST)]


async def test_log_and_trace_have_the_request_that_is_described(
    world: World, desk: Desk, records: Records, traces: Traces
) -> None:
    await served(world)
    await desk.ask(asking(b"X-Original-Method: POST\r\n"))
    (record,) = records
    assert (record.method, record.target, record.host) == (b"POST", b"/a?b", HOST)
    assert (record.status, record.content_length, record.why) == (200, 0, "")
    assert traces.told == [
        ("begin", b"POST", b"/a?b", HOST, 1, False),
        ("found", "ns/rev"),
        ("assigned",),
        ("ended", 200, "admitted"),
    ]


async def test_an_unknown_host_gets_404(world: World, desk: Desk) -> None:
    for asked in (asking(url=b"http://other.example/"), asking(url=b"")):
        answer = await desk.ask(asked)
        assert answer.status == 404
        assert (answer.get(b"activator-reason") or b"").startswith(b"unknown-revision")
    assert world.proxy.counters.unknown_revisions == 2


async def test_a_malformed_description_gets_400_and_repeats_nothing(
    world: World, desk: Desk
) -> None:
    client = await desk.client()
    for number in range(1, 3):  # the connection stays
        client.send(asking(url=b"http://<script>/"))
        answer = await client.answer()
        assert answer.status == 400
        assert (answer.get(b"activator-reason") or b"").startswith(b"bad-request")
        assert b"<script>" not in answer.body
        assert world.proxy.counters.bad_requests == number
    answer = await desk.ask(asking(url=b"http://a/" + 4096 * b"a"))
    assert answer.status == 414


@pytest.mark.parametrize(
    "data",
    [
        asking(url=b"http://a\nX: b/"),
        asking(url=b"http://a\rX: b/"),
        asking(url=b"http://a\0/"),
        b"GET / HTTP/1.1\r\nX-Original-URL: /\r\n\r\n",
        b"CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n",
    ],
)
async def test_a_head_that_is_no_http_is_refused(desk: Desk, data: bytes) -> None:
    assert (await desk.ask(data)).status in (400, 405)


async def test_the_response_to_head_is_framed_by_the_proxys_method(
    world: World, desk: Desk
) -> None:
    """The proxy reads the response to its own request, whatever the described method is."""
    client = await desk.client()
    unknown = b"http://other.example/"
    for _ in range(2):
        client.send(asking(b"X-Original-Method: HEAD\r\n", unknown))
        answer = await client.answer(b"GET")
        assert (answer.status, answer.body != b"") == (404, True)
        client.send(asking(b"X-Original-Method: GET\r\n", unknown, b"HEAD / HTTP/1.1"))
        answer = await client.answer(b"HEAD")
        assert (answer.status, answer.body) == (404, b"")


async def test_a_probe_gets_no_permission_without_a_pod(world: World, desk: Desk) -> None:
    """A 200 would let the request pass to a service that sleeps."""
    for fields in (
        b"K-Kubelet-Probe: queue\r\n",
        b"K-Network-Probe: probe\r\nK-Network-Hash: a\r\n",
        b"User-Agent: kube-probe/1.30\r\n",
    ):
        assert (await desk.ask(asking(fields, b"http://other.example/"))).status == 404
    world.serve(hosts=[HOST.decode()])
    (waiting,) = desk.wait(1, asking(b"User-Agent: kube-probe/1.30\r\n"))
    await until(lambda: queued(world) == 1)
    await served(world)
    assert (await waiting).get(b"activator-pod")
    names = b"Activator-Service: ns/rev\r\nActivator-Service: ns/other\r\n"
    assert (await desk.ask(asking(names))).status == 400


async def test_a_request_expires_with_the_reason(world: World, desk: Desk) -> None:
    world.serve(hosts=[HOST.decode()], timeout=10.0)
    before = world.now()
    answer = await desk.ask(asking(b"Accept: application/json\r\n"))
    assert answer.status == 504
    assert world.now() - before == pytest.approx(10.0, abs=0.1)
    assert (answer.get(b"activator-reason") or b"").startswith(b"no-endpoints")
    assert int(answer.get(b"retry-after") or b"0") >= 1
    assert json.loads(answer.body)["status"] == 504
    assert counted(world) == {"timed-out": 1}
    await world.idle()


async def test_the_queue_limits_admission_requests(
    new_world: Callable[..., Awaitable[World]],
) -> None:
    world = await new_world(queue=Limits(queue_depth=3))
    desk = await opened(world)
    world.serve(hosts=[HOST.decode()])
    waiting = desk.wait(3)
    await until(lambda: queued(world) == 3)
    answer = await desk.ask()
    assert (answer.status, answer.get(b"activator-reason")) == (503, b"queue-full; revision-depth")
    assert int(answer.get(b"retry-after") or b"0") >= 1
    await served(world)
    assert {(await each).status for each in waiting} == {200}
    desk.close()
    assert counted(world) == {"admitted": 3, "queue-full": 1}


@both_loops
async def test_a_request_ends_when_its_proxy_leaves(world: World, desk: Desk) -> None:
    world.serve(hosts=[HOST.decode()])
    leaving, staying = await desk.client(), await desk.client()
    leaving.send(asking())
    staying.send(asking())
    await until(lambda: queued(world) == 2)
    leaving.abort()
    await until(lambda: queued(world) == 1)
    await served(world)
    assert (await staying.answer()).status == 200
    await world.idle()
    assert counted(world) == {"admitted": 1, "cancelled": 1}


@pytest.mark.untraced
async def test_hundreds_of_requests_get_one_slot_in_turn(world: World, desk: Desk) -> None:
    """Each response frees the slot for the next request; that must not fill the stack."""
    world.serve(hosts=[HOST.decode()], container_concurrency=1)
    clients = [await desk.http2_client() for _ in range(4)]
    head = [(b":method", b"GET"), (b":scheme", b"http"), (b":path", b"/"), (b":authority", HOST)]
    for number in range(90):
        for client in clients:
            client.headers(2 * number + 1, head, end=True)
    await until(lambda: queued(world) == 360)
    await served(world, container_concurrency=1)
    await until(lambda: sum(each.over for c in clients for each in c.messages.values()) == 360)
    assert {each.status for client in clients for each in client.messages.values()} == {200}
    await world.idle()


async def test_drain_ends_admission_requests(world: World, desk: Desk) -> None:
    world.serve(hosts=[HOST.decode()])
    (waiting,) = desk.wait(1)
    await until(lambda: queued(world) == 1)
    world.proxy.drain()
    answer = await waiting
    assert (answer.status, answer.get(b"connection")) == (503, b"close")
    assert (answer.get(b"activator-reason") or b"").startswith(b"draining")


async def test_drain_between_assignment_and_response(world: World, desk: Desk) -> None:
    world.serve(hosts=[HOST.decode()])
    (waiting,) = desk.wait(1)
    await until(lambda: queued(world) == 1)
    pod = await world.pod()
    throttler = world.serve(pod, hosts=[HOST.decode()])
    await until(lambda: throttler.slots.in_flight == 1)
    world.proxy.drain()
    assert (await waiting).status == 503
    await world.idle()
    assert counted(world) == {"draining": 1}


async def test_http2_and_grpc_read_a_status(http2: Http2World) -> None:
    """A gRPC error has status 200: the proxy would take it for permission."""
    world = http2.world
    desk = await opened(world)
    world.serve(hosts=[HOST.decode()], timeout=5.0, protocol=AppProtocol.H2C)
    client = await desk.http2_client()
    grpc = (b"content-type", b"application/grpc")

    async def ask(number: int, host: bytes, *more: tuple[bytes, bytes]) -> tuple[int, list[bytes]]:
        head = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/a.B/C")]
        client.headers(number, [*head, (b":authority", host), grpc, *more], end=True)
        await until(lambda: number in client.messages or queued(world))
        while number not in client.messages or not client.messages[number].over:
            await world.clock_moves(0.1)
        return client.messages[number].status, client.messages[number].all(b"activator-pod")

    assert await ask(1, b"other.example") == (404, [])
    assert await ask(3, HOST, (b"x-original-url", b"no path")) == (400, [])
    assert await ask(5, HOST) == (504, [])
    pod = await http2.pod()
    throttler = world.serve(pod, hosts=[HOST.decode()], protocol=AppProtocol.H2C)
    await until(lambda: throttler.statistics().healthy == 1)
    assert await ask(7, HOST) == (200, [pod.endpoint.address.encode()])
    # A recurring block is parsed once.
    assert await ask(9, HOST) == (200, [pod.endpoint.address.encode()])
    desk.close()


async def test_a_request_with_a_body_gets_its_response(world: World, desk: Desk) -> None:
    """Envoy may send a part of the client's body; the connection ends behind the response."""
    await served(world)
    fields = b"Content-Length: 100000\r\nExpect: 100-continue\r\n"
    client = await desk.client()
    client.send(asking(fields, start=b"POST / HTTP/1.1") + b"begun")
    answer = await client.answer()
    assert (answer.status, answer.get(b"connection"), answer.interim) == (200, b"close", [])
    await client.ended()


async def test_the_class_of_the_described_request_counts(world: World, desk: Desk) -> None:
    policies = Policies(order=QueueOrder(has_classes=True, trusts_header=True))
    spec: dict[str, Any] = {"container_concurrency": 1, "policies": policies}
    world.serve(hosts=[HOST.decode()], **spec)
    order: list[bytes] = []

    async def ask(name: bytes) -> None:
        await desk.ask(asking(b"Activator-Priority: %b\r\n" % name))
        order.append(name)

    tasks = []
    for number, name in enumerate((b"low", b"high")):
        tasks.append(asyncio.ensure_future(ask(name)))
        await until(lambda: queued(world) == number + 1)  # noqa: B023 # awaited in its turn
    await served(world, **spec)
    await asyncio.gather(*tasks)
    assert order == [b"high", b"low"]


async def test_cold_start_and_server_timing(world: World, desk: Desk) -> None:
    world.proxy.services.server_timing = True
    world.serve(hosts=[HOST.decode()])
    (waiting,) = desk.wait(1)
    await until(lambda: queued(world) == 1)
    await world.clock_moves(2.0)
    pod = await served(world)
    answer = await waiting
    assert (answer.get(b"server-timing") or b"").startswith(b"queue;dur=200")
    await turns()
    entry = world.driver.entries.find_host(HOST)
    (cold_start,) = world.driver.cold_starts.views(entry.throttler.revision.id)
    assert (cold_start["outcome"], cold_start["pod"]) == ("served", pod.endpoint.address)


async def test_the_described_request_may_or_may_not_wake(world: World, desk: Desk) -> None:
    """A response 200 would let the request pass to a service that sleeps."""
    wake = WakeRules((b"GET",), (b"kube-probe",), (b"/health",), asleep_status=200)
    policies = Policies(requests=RequestPolicies(wake=wake))
    world.serve(hosts=[HOST.decode()], policies=policies)
    for data in (
        asking(url=b"http://%b/health?a" % HOST),
        asking(b"X-Original-Method: POST\r\n"),
        asking(b"User-Agent: kube-probe/1.30\r\n"),
    ):
        answer = await desk.ask(data)
        assert (answer.status, answer.get(b"activator-reason")) == (503, b"asleep")
    assert not world.loads[WEB].ever
    (waiting,) = desk.wait(1, asking(b"X-Original-Method: GET\r\n", start=b"POST / HTTP/1.1"))
    await until(lambda: queued(world) == 1)
    await served(world, policies=policies)
    assert (await waiting).status == 200
    assert (await desk.ask(asking(url=b"http://%b/health" % HOST))).get(b"activator-pod")


class Judge:
    """An authorization server that denies every request, and records the fields that it gets."""

    def __init__(self) -> None:
        self.fields: list[tuple[bytes, bytes]] = []
        self.verdict = Verdict(401, b"\r\nWWW-Authenticate: Basic")

    def ask(self, *about: Any) -> Verdict | None:
        self.fields = about[3]
        return self.verdict

    def cancel(self, owner: object) -> None:
        pass


async def test_the_described_request_is_authorized(world: World, desk: Desk) -> None:
    judge = Judge()
    world.proxy.services.authorizer = cast(Authorizer, judge)
    server = Authorization("http://a/", response_headers=(b"x-user",))
    policies = Policies(requests=RequestPolicies(authorization=server))
    world.serve(hosts=[HOST.decode()], policies=policies)
    answer = await desk.ask(asking(b"X-Original-Method: POST\r\nCookie: a\r\n"))
    assert (answer.status, answer.get(b"www-authenticate")) == (401, b"Basic")
    fields = dict(judge.fields)
    described = [fields[b"X-Forwarded-" + name] for name in (b"Method", b"Host", b"Uri")]
    assert described == [b"POST", HOST, b"/a?b"]
    assert not world.loads[WEB].ever
    pod = await served(world, policies=policies)
    answer = await desk.ask(asking(b"X-User: forged\r\n"))
    assert answer.get(b"activator-pod") == pod.endpoint.address.encode()
    assert answer.get(b"x-user") is None  # the proxy has to set the field, or to remove it


async def test_a_proxy_gets_the_fields_of_the_server(world: World, desk: Desk) -> None:
    judge = Judge()
    world.proxy.services.authorizer = cast(Authorizer, judge)
    judge.verdict = Verdict(200, b"\r\nx-user: ann")
    server = Authorization("http://a/", always=True, response_headers=(b"x-user",))
    pod = await served(world, policies=Policies(requests=RequestPolicies(authorization=server)))
    answer = await desk.ask(asking(b"X-User: forged\r\n"))
    assert (answer.get(b"activator-pod"), answer.get(b"x-user")) == (
        pod.endpoint.address.encode(),
        b"ann",
    )


async def test_a_proxy_waits_where_a_client_would_get_a_page(world: World, desk: Desk) -> None:
    modes = WhileWaiting((WaitMode.PAGE,), page_after=0)
    world.serve(hosts=[HOST.decode()], policies=Policies(requests=RequestPolicies(modes)))
    fields = b"Sec-Fetch-Mode: navigate\r\nX-Original-Method: %b\r\nActivator-Peek: 1\r\n"
    asked = [
        *desk.wait(1, asking(fields % b"GET")),
        *desk.wait(1, asking(fields % b"HEAD")),
    ]
    await until(lambda: queued(world) == 2)
    await served(world, policies=Policies(requests=RequestPolicies(modes)))
    assert [answer.status for answer in await asyncio.gather(*asked)] == [200, 200]


async def test_a_proxy_is_refused_where_its_client_would_be(world: World, desk: Desk) -> None:
    """Some proxies cannot wait as long as a cold start takes."""
    modes = WhileWaiting((WaitMode.PAGE, WaitMode.REFUSE))
    policies = Policies(requests=RequestPolicies(modes))
    world.serve(hosts=[HOST.decode()], policies=policies)
    before = world.now()
    answer = await desk.ask(asking(b"Sec-Fetch-Mode: navigate\r\n"))
    assert answer.status == 503
    assert world.now() - before < 1.0
    assert (answer.get(b"activator-reason") or b"").startswith(b"wait-refused")
    assert int(answer.get(b"retry-after") or b"0") >= 1
    assert not queued(world)
    await served(world, policies=policies)
    assert (await desk.ask(asking(b"Sec-Fetch-Mode: navigate\r\n"))).status == 200
    await world.clock_moves(20.0)  # the client is expected back no longer


async def test_a_proxy_gets_no_event_stream_and_no_kept_list(world: World, desk: Desk) -> None:
    """Both have status 200, which a proxy takes as permission."""
    requests = RequestPolicies(
        WhileWaiting((WaitMode.HEARTBEAT,), heartbeat_every=1.0), profile=Profile.OPENAI
    )
    policies = Policies(requests=requests)
    await served(world, policies=policies)
    models = asking(url=b"http://%b/v1/models" % HOST)
    assert (await desk.ask(models)).get(b"activator-pod")
    world.serve(hosts=[HOST.decode()], policies=policies)
    entry = world.driver.entries.find_host(HOST)
    await until(lambda: not entry.throttler.backends.pods.values())
    refused = await desk.ask(models)
    assert (refused.status, refused.get(b"activator-reason")) == (503, b"asleep")
    (waiting,) = desk.wait(1, asking(b"Accept: text/event-stream\r\n"))
    await until(lambda: queued(world) == 1)
    await world.clock_moves(5.0)
    pod = await served(world, policies=policies)
    answer = await waiting
    assert answer.get(b"activator-pod") == pod.endpoint.address.encode()
    assert answer.body == b""
