"""Which requests may wake their revision, and be queued or sent at all."""

from __future__ import annotations

import json

import pytest

from activator.proxy.exchange.permission import may_wake
from activator.proxy.message.fields import HTTP_2
from activator.proxy.message.request import Request, RequestLimits, read_request
from tests.activator.proxy.http2.peers import Http2World
from tests.activator.proxy.observers import Records, Traces
from tests.activator.proxy.world import NAME, NAMESPACE, World, ok, own_world, request, until
from throttler.model import Policies, QueueOrder, RevisionID
from throttler.request_policies import Profile, RequestPolicies, WaitMode, WakeRules, WhileWaiting

HEALTH = request(b"/health")


def rules(status: int = 503) -> Policies:
    """Return policies under which /health wakes nothing."""
    wake = WakeRules(not_paths=(b"/health",), asleep_status=status)
    return Policies(requests=RequestPolicies(wake=wake))


def counted(world: World) -> tuple[int, int, int]:
    """Return the requests that the autoscaler would count, the queued ones, and the hurried."""
    load = world.loads.get(RevisionID(NAMESPACE, NAME))
    return 0 if load is None else load.ever, world.waiting, world.prober.hurried


async def test_a_request_that_may_not_wake_is_no_demand(
    world: World, traces: Traces, records: Records
) -> None:
    world.revise(policies=rules())
    answer = await world.ask(HEALTH)
    assert answer.status == 503
    assert answer.get(b"activator-reason") == b"asleep"
    assert int(answer.get(b"retry-after") or 0) >= 1
    assert answer.body == b"the service is asleep\n"
    assert counted(world) == (0, 0, 0)
    assert not world.driver.cold_starts.views(RevisionID(NAMESPACE, NAME))
    assert world.counters().outcomes["asleep"] == 1
    assert not world.failures().last
    assert traces.told[2:] == [("no-pod", "asleep"), ("ended", 503, "asleep")]
    assert [(each.status, each.why) for each in records] == [(503, "asleep")]


async def test_other_requests_wake_it(world: World) -> None:
    world.revise(policies=rules())
    client = await world.client()
    client.send(request())
    await until(lambda: counted(world) == (1, 1, 1))
    assert (await world.ask(HEALTH)).status == 503  # while another one waits
    pod = await world.pod()
    world.revise(pod, policies=rules())
    assert (await client.answer()).status == 200


async def test_a_request_that_may_not_wake_is_served_while_pods_are_usable(world: World) -> None:
    pod = await world.serving(container_concurrency=1, policies=rules())
    assert (await world.ask(HEALTH)).status == 200
    pod.on_data = lambda connection: None
    clients = [await world.client() for _ in range(2)]
    clients[0].send(request())
    await until(lambda: world.in_flight == 1)
    clients[1].send(HEALTH)  # all pods are busy, and none needs to start
    await until(lambda: world.waiting == 1)
    pod.connections[-1].write(ok())
    await until(lambda: len(pod.requests) == 3)
    pod.connections[-1].write(ok())
    assert [(await client.answer()).status for client in clients] == [200, 200]
    world.list()
    await until(lambda: not world.revision().backends.pods.values())
    assert (await world.ask(HEALTH)).status == 503


async def test_a_request_that_may_not_wake_is_no_load_while_pods_are_usable(world: World) -> None:
    openai = Policies(requests=RequestPolicies(profile=Profile.OPENAI))
    for policies in (rules(), openai):
        pod = await world.serving(policies=policies)
        before = counted(world)[0]
        asked = len(pod.requests)
        assert [(await world.ask(HEALTH)).status for _ in range(3)] == [200] * 3
        assert len(pod.requests) == asked + 3
        assert counted(world)[0] == before
        assert (await world.ask(request())).status == 200
        assert counted(world)[0] == before + 1
        load = world.loads[RevisionID(NAMESPACE, NAME)]
        assert load.now == 0


async def test_a_request_that_may_not_wake_ends_with_the_last_pod(world: World) -> None:
    pod = await world.serving(policies=rules())
    pod.on_data = lambda connection: None
    client = await world.client()
    client.send(HEALTH)
    await until(lambda: len(pod.requests) == 1)
    world.healthy = lambda tracker: False
    pod.connections[-1].reset()
    answer = await client.answer()
    assert (answer.status, answer.get(b"activator-reason")) == (503, b"asleep")
    assert world.counters().outcomes["asleep"] == 1
    await world.idle()


async def test_the_status_of_the_annotation() -> None:
    for status in (200, 204):
        async with own_world(status) as world:
            world.revise(policies=rules(status))
            client = await world.client()
            for _ in range(2):  # on one connection: the framing of the first is right
                client.send(HEALTH)
                answer = await client.answer()
                assert (answer.status, answer.body) == (status, b"")
                assert answer.get(b"activator-reason") == b"asleep"
                assert answer.get(b"content-length") == (None if status == 204 else b"0")
                assert answer.get(b"retry-after") is None
            assert counted(world) == (0, 0, 0)


async def test_a_client_of_json_gets_a_problem(world: World) -> None:
    world.revise(policies=rules())
    answer = await world.ask(request(b"/health", fields=b"Accept: application/json\r\n"))
    problem = json.loads(answer.body)
    assert (problem["reason"], problem["revision"], problem["status"]) == ("asleep", NAME, 503)


async def test_a_body_is_not_read_as_the_next_request(world: World) -> None:
    world.revise(policies=rules())
    for body in (b"x" * 10, b"y" * 300_000):
        client = await world.client()
        client.send(request(b"/health", b"POST", body=body))
        assert (await client.answer()).status == 503
        client.close()
    await world.let_linger()
    assert world.counters().outcomes["asleep"] == 2
    assert not world.proxy.services.counters.bad_requests


async def test_a_changed_annotation_counts_for_the_next_request(world: World) -> None:
    world.revise(policies=rules())
    assert (await world.ask(HEALTH)).status == 503
    world.revise(policies=rules(204))
    assert (await world.ask(HEALTH)).status == 204
    world.revise()
    client = await world.client()
    client.send(HEALTH)
    await until(lambda: world.waiting == 1)
    client.abort()
    await world.idle()


async def test_a_plain_service_has_the_same_rules(world: World) -> None:
    world.serve(hosts=("example.com",), policies=rules(200))
    answer = await world.ask(b"GET /health HTTP/1.1\r\nHost: example.com\r\n\r\n")
    assert answer.status == 200
    assert answer.get(b"activator-reason") == b"asleep"


class TestHttp2:
    async def test_each_status(self, http2: Http2World) -> None:
        client = await http2.client()
        for status in (503, 200, 204):
            http2.list(policies=rules(status))
            answer = await client.answer(client.ask(b"/health"))
            assert answer.status == status
            assert answer.all(b"activator-reason") == [b"asleep"]
            assert bool(answer.body) is (status == 503)
            assert answer.all(b"content-length") == {503: [b"22"], 200: [b"0"], 204: []}[status]
        assert counted(http2.world) == (0, 0, 0)

    async def test_grpc_is_unavailable_whatever_the_status(self, http2: Http2World) -> None:
        client = await http2.client()
        for status in (503, 200):
            http2.list(policies=rules(status))
            fields = (b"content-type", b"application/grpc")
            answer = await client.answer(client.ask(b"/health", b"POST", fields))
            assert answer.status == 503
            assert answer.all(b"grpc-status") == [b"14"]
            assert answer.all(b"grpc-message") == [b"asleep"]


async def test_the_loss_of_the_last_pod_ends_queued_requests_that_may_not_start_one() -> None:
    """The others stay queued; the client of each mode gets what its mode says."""
    waiting = WhileWaiting((WaitMode.PAGE, WaitMode.HEARTBEAT), page_after=5.0, heartbeat_every=7)
    rules = WakeRules(not_user_agents=(b"prometheus",))
    policies = RequestPolicies(wake=rules, profile=Profile.OPENAI, waiting=waiting)
    orders = [None, QueueOrder(has_classes=True)]
    for order in orders:
        async with own_world(f"{order}") as world:
            pod = await world.serving(
                container_concurrency=1, policies=Policies(requests=policies, order=order)
            )
            pod.on_data = lambda connection: None
            fields = (
                *(b"", b"User-Agent: Prometheus/3\r\n", b"Accept: text/html\r\n"),
                *(b"Accept: text/event-stream\r\n", b"User-Agent: curl\r\n"),
            )
            clients = []
            for number, field in enumerate((*fields, b"")):
                client = await world.client()
                target = b"/health" if number == len(fields) else b"/"
                client.send(request(target, fields=field))
                await until(lambda: world.waiting == number)  # noqa: B023 # awaited in its turn
                clients.append(client)
            _, monitor, person, stream, program, poll = clients
            world.list()
            for client in (monitor, poll):
                answer = await client.answer()
                assert (answer.status, answer.get(b"activator-reason")) == (503, b"asleep")
            assert world.waiting == 3
            await world.clock_moves(5)
            assert (await person.answer()).get(b"content-type") == b"text/html; charset=utf-8"
            await world.clock_moves(2)
            await stream.size(1)
            assert stream.received.startswith(b"HTTP/1.1 200 OK")
            assert (world.waiting, program.received) == (2, b"")
            world.expect_idle = False  # the page has a lease


METHODS = WakeRules(methods=(b"GET", b"POST"))
AGENTS = WakeRules(not_user_agents=(b"uptimerobot", b"kube-probe", b"prometheus"))
PATHS = WakeRules(not_paths=(b"/health", b"/metrics"))
SLASH = WakeRules(not_paths=(b"/health/",))
HEADER = WakeRules(required_header=b"authorization")


def asking(target: bytes = b"/", method: bytes = b"GET", fields: bytes = b"") -> Request:
    head = b"%b %b HTTP/1.1\r\nHost: a\r\n%b\r\n" % (method, target, fields)
    return read_request(head, RequestLimits())


def agent(name: bytes) -> Request:
    return asking(fields=b"User-Agent: " + name + b"\r\n")


@pytest.mark.untraced
@pytest.mark.parametrize(
    ("rules", "request_", "may"),
    [
        (METHODS, asking(), True),
        (METHODS, asking(method=b"HEAD"), False),
        (METHODS, asking(method=b"get"), False),
        (AGENTS, agent(b"curl/8.14.1"), True),
        (AGENTS, asking(), True),
        (AGENTS, agent(b"Prometheus/3.5.0"), False),
        (AGENTS, agent(b"Mozilla/5.0+(compatible; UptimeRobot/2.0)"), False),
        (AGENTS, agent(b"KUBE-PROBE/1.33"), False),
        (AGENTS, asking(fields=b"USER-AGENT: a\r\nuser-agent: prometheus\r\n"), False),
        (AGENTS, agent(60_000 * b"a"), True),
        (AGENTS, asking(fields=b"X-A: prometheus\r\n"), True),
        (AGENTS, asking(b"/prometheus"), True),
        (PATHS, asking(), True),
        (PATHS, asking(b"/health"), False),
        (PATHS, asking(b"/health?now"), False),
        (PATHS, asking(b"/health/"), False),
        (PATHS, asking(b"/health/ready"), False),
        (PATHS, asking(b"/healthcare"), True),
        (PATHS, asking(b"/healthz"), True),
        (SLASH, asking(b"/health/ready"), False),
        (SLASH, asking(b"/health"), True),
        (WakeRules(not_paths=(b"/",)), asking(b"/a"), False),
        (PATHS, asking(b"http://a/metrics"), False),
        (PATHS, asking(b"/Health"), True),
        (PATHS, asking(b"/a/health"), True),
        (HEADER, asking(), False),
        (HEADER, asking(fields=b"Authorization:\r\n"), False),
        (HEADER, asking(fields=b"aUTHORIZATION: Bearer a\r\n"), True),
        (HEADER, asking(fields=b"Proxy-Authorization: Basic a\r\n"), False),
        (WakeRules(), asking(), True),
        (WakeRules(METHODS.methods, not_paths=(b"/health",)), asking(b"/health"), False),
    ],
)
def test_each_rule_must_allow_a_request(rules: WakeRules, request_: Request, may: bool) -> None:
    assert may_wake(rules, request_, request_.method) is may


@pytest.mark.parametrize(
    ("fields", "may"),
    [
        ({b"user-agent": b"curl"}, (True, False)),
        ({b"user-agent": b"Prometheus/3"}, (False, False)),
        ({b"authorization": b"Basic a"}, (True, True)),
    ],
)
def test_http2(fields: dict[bytes, bytes], may: tuple[bool, bool]) -> None:
    request = Request(b"GET", b"/", HTTP_2, b"a", fields, None, section=b"-")
    assert tuple(may_wake(rules, request, b"GET") for rules in (AGENTS, HEADER)) == may
