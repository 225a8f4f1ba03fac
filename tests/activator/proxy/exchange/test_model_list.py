"""The profile ``openai``: requests that start no pod, the kept list of models, forms of errors."""

from __future__ import annotations

import json

from activator.proxy.exchange.model_list import key_of, starts_no_pod
from activator.proxy.message.request import RequestLimits, read_request
from tests.activator.proxy.http2.peers import Http2World
from tests.activator.proxy.world import World, ok, own_world, request, until
from tests.rows import in_one_test
from throttler.model import Policies
from throttler.request_policies import Authorization, Profile, RequestPolicies, WakeRules

POLICIES = Policies(requests=RequestPolicies(profile=Profile.OPENAI))
LIST = b'{"object":"list","data":[{"id":"m"}]}'
JSON = b"Content-Type: application/json\r\n"
KEY_A = b"Authorization: Bearer a\r\n"
KEY_B = b"Authorization: Bearer b\r\n"
ACCEPT = b"Accept: application/json\r\n"
#: Fields that an ingress or a browser adds, different for each client.
HOPS = b"X-Forwarded-For: 10.0.0.1\r\nForwarded: for=10.0.0.1\r\nCookie: a=b\r\nX-Real-Ip: ::\r\n"


def models(fields: bytes = KEY_A, target: bytes = b"/v1/models") -> bytes:
    return request(target, fields=fields)


async def asleep(world: World) -> None:
    """Let the revision have no pod."""
    world.list()
    await until(lambda: not world.revision().backends.pods.values())


@in_one_test(
    ("method", "target", "starts_none"),
    [
        (b"GET", b"/health", True),
        (b"HEAD", b"/health", True),
        (b"GET", b"/v1/models?limit=1", True),
        (b"GET", b"/v1/models/m", False),
        (b"GET", b"/v1/models/?a", True),
        (b"GET", b"/healthy", False),
        (b"POST", b"/v1/models", False),
        (b"GET", b"//v1/models", False),
        (b"GET", b"/V1/models", False),
    ],
)
def test_which_requests_start_no_pod(method, target, starts_none):
    parsed = read_request(request(target, method), RequestLimits())
    assert starts_no_pod(parsed) is starts_none


async def test_polls_start_no_pod(world: World) -> None:
    world.revise(policies=POLICIES)
    for target in (b"/health", b"/v1/models"):
        answer = await world.ask(request(target))
        assert (answer.status, answer.get(b"activator-reason")) == (503, b"asleep")
    assert world.waiting == world.prober.hurried == 0
    assert world.counters().outcomes["asleep"] == 2
    client = await world.client()
    client.send(request(b"/v1/chat/completions", b"POST", JSON, b"{}"))
    await until(lambda: world.waiting == 1)
    client.abort()
    await world.idle()


async def test_the_status_of_the_annotation(world: World) -> None:
    rules = WakeRules(asleep_status=204)
    world.revise(policies=Policies(requests=RequestPolicies(profile=Profile.OPENAI, wake=rules)))
    assert (await world.ask(request(b"/health"))).status == 204


async def test_the_last_list_answers_while_no_pod_is_usable(world: World) -> None:
    await world.serving(answer=ok(LIST, JSON), policies=POLICIES)
    assert (await world.ask(models())).body == LIST
    await asleep(world)
    await world.clock_moves(100)
    client = await world.client()
    for _ in range(2):
        client.send(models(KEY_A + b"User-Agent: another\r\nX-Request-Id: 2\r\n" + HOPS))
        answer = await client.answer()
        assert (answer.status, answer.body) == (200, LIST)
        assert answer.get(b"content-type") == b"application/json"
        assert answer.get(b"age") == b"100"
        assert (answer.get(b"activator-reason") or b"").startswith(b"asleep")
    client.send(request(b"/v1/models", b"HEAD", KEY_A))
    assert (await client.answer(b"HEAD")).get(b"content-length") == b"%d" % len(LIST)
    assert world.counters().outcomes["asleep"] == 3


async def test_a_list_is_for_one_tenant_only(world: World) -> None:
    await world.serving(answer=ok(LIST, JSON), policies=POLICIES)
    await world.ask(models())
    await asleep(world)
    others = [
        *(b"", KEY_B, KEY_A * 2, b"Proxy-" + KEY_A, KEY_A + b"X-Api-Key: a\r\n"),
        *(KEY_A + b"api-key: a\r\n", KEY_A + b"X-Forwarded-Host: other.example.com\r\n"),
        *(KEY_A + b"OpenAI-Organization: o\r\n", KEY_A + b"OpenAI-Project: p\r\n"),
    ]
    for fields in others:
        assert (await world.ask(models(fields))).status == 503
    assert (await world.ask(models(target=b"/v1/models?tenant=2"))).status == 503
    other_host = models().replace(b"example.com", b"other.example.com")
    assert (await world.ask(other_host)).status == 503
    assert (await world.ask(models())).status == 200


async def test_which_responses_are_kept() -> None:
    rows = [
        (ok(LIST, JSON), True),
        (ok(LIST, JSON + b"Vary: Accept-Encoding, Authorization\r\n"), True),
        (ok(LIST, JSON + b"Cache-Control: max-age=1\r\n"), True),
        (
            b"HTTP/1.1 200 OK\r\n%bTransfer-Encoding: chunked\r\n\r\n2\r\n[]\r\n0\r\n\r\n" % JSON,
            True,
        ),
        (ok(LIST), False),
        (ok(LIST, b"Content-Type: text/html\r\n"), False),
        (ok(b"not json", JSON), False),
        (ok(b"[" * 60_000, JSON), False),
        (ok(LIST, JSON + b"Content-Encoding: gzip\r\n"), False),
        (ok(LIST, JSON + b"Cache-Control: max-age=1, NO-STORE\r\n"), False),
        (ok(LIST, JSON + b'Cache-Control: private="x"\r\n'), False),
        (ok(LIST, JSON + b"Vary: Accept-Language\r\n"), False),
        (ok(LIST, JSON + b"Vary: Cookie\r\n"), False),
        (ok(LIST, JSON + b"Vary: *\r\n"), False),
        (ok(LIST, JSON + b"Set-Cookie: a=b\r\n"), False),
        (ok(LIST, JSON).replace(b"200 OK", b"404 No"), False),
        (ok(b'["%b"]' % (b"x" * (64 << 10)), JSON), False),
    ]
    for response, is_kept in rows:
        async with own_world(response[:200]) as world:
            await world.serving(answer=response, policies=POLICIES)
            await world.ask(models())
            await asleep(world)
            assert (await world.ask(models())).status == (200 if is_kept else 503)


async def test_a_response_that_breaks_off_is_not_kept(world: World) -> None:
    pod = await world.serving(policies=POLICIES)
    pod.on_data = lambda connection: None
    client = await world.client()
    client.send(models())
    await until(lambda: len(pod.requests) == 1)
    pod.connections[-1].write(b"HTTP/1.1 200 OK\r\n%bContent-Length: 9\r\n\r\n[]" % JSON)
    await client.size(1)
    pod.connections[-1].reset()
    await client.ended()
    await asleep(world)
    assert (await world.ask(models())).status == 503


async def test_no_list_is_kept_beside_an_authorization_server(world: World) -> None:
    await world.serving(answer=ok(LIST, JSON), policies=POLICIES)
    await world.ask(models())
    await asleep(world)
    server = Authorization("http://127.0.0.1:1/", cache_seconds=1.0)
    policies = RequestPolicies(profile=Profile.OPENAI, authorization=server)
    world.revise(policies=Policies(requests=policies))
    assert (await world.ask(models())).status == 503


async def test_the_models_of_the_annotation_answer_while_no_pod_is_usable(
    http2: Http2World,
) -> None:
    """Unlike a kept list, also after a restart, at each activator, and for each tenant."""
    world = http2.world
    ids = ("meta/llama-3", 'a"b')
    named = RequestPolicies(profile=Profile.OPENAI, models=ids)
    world.revise(policies=Policies(requests=named))
    answer = await world.ask(models())
    for fields in (b"", KEY_B + HOPS):
        answer = await world.ask(models(fields, b"/v1/models?limit=1"))
        assert (answer.status, answer.get(b"content-type")) == (200, b"application/json")
        assert answer.get(b"activator-reason") == b"asleep; the models of the annotation"
        assert (answer.get(b"age"), answer.get(b"cache-control")) == (None, b"no-store")
        listed = json.loads(answer.body)
        assert listed["object"] == "list"
        assert [each["id"] for each in listed["data"]] == list(ids)
        assert {each["object"] for each in listed["data"]} == {"model"}
    client = await http2.client()
    assert (await client.answer(client.ask(b"/v1/models"))).body == answer.body
    assert world.waiting == world.prober.hurried == 0
    assert (await world.ask(request(b"/health"))).status == 503
    await world.serving(answer=ok(LIST, JSON), policies=Policies(requests=named))
    assert (await world.ask(models())).body == LIST
    await asleep(world)
    assert (await world.ask(models())).body == answer.body


async def test_a_server_that_decides_about_each_request_protects_the_models(world: World) -> None:
    for always, status in ((False, 200), (True, 503)):
        server = Authorization("http://127.0.0.1:1/", always=always)
        named = RequestPolicies(profile=Profile.OPENAI, authorization=server, models=("m",))
        world.revise(policies=Policies(requests=named))
        assert (await world.ask(models())).status == status


async def test_http2_gets_the_list_of_http1(http2: Http2World) -> None:
    world = http2.world
    await world.serving(answer=ok(LIST, JSON), policies=POLICIES)
    await world.ask(models())
    await asleep(world)
    client = await http2.client()
    number = client.ask(b"/v1/models", b"GET", (b"authorization", b"Bearer a"))
    answer = await client.answer(number)
    assert (answer.status, answer.body) == (200, LIST)


def test_a_key_has_no_secret() -> None:
    key = key_of(read_request(models(), RequestLimits()))
    assert len(key) == 32
    assert key != key_of(read_request(models(KEY_B), RequestLimits()))


# -- errors ---------------------------------------------------------------------------------------


async def test_errors_have_the_form_of_openai_for_clients_of_json() -> None:
    body = b'{"model":"m"}'
    rows = [
        (request(fields=ACCEPT), True),
        (request(b"/v1/chat/completions", b"POST", JSON + b"Accept: */*\r\n", body), True),
        (request(b"/v1/chat/completions", b"POST", JSON, body), True),
        (request(fields=b"Accept: text/plain\r\n"), False),
        (request(), False),
    ]
    for data, is_json in rows:
        async with own_world(data) as world:
            world.revise(policies=POLICIES, timeout=1.0)
            answer = await world.ask(data)
            assert answer.status == 504
            assert answer.get(b"activator-reason") == b"no-endpoints"
            if is_json:
                assert answer.get(b"content-type") == b"application/json"
                assert json.loads(answer.body)["error"]["code"] == "no-endpoints"
            else:
                assert answer.body == b"activator request timeout"


async def test_a_poll_gets_the_form_too(world: World) -> None:
    world.revise(policies=POLICIES)
    answer = await world.ask(request(b"/v1/models", fields=ACCEPT))
    assert json.loads(answer.body)["error"]["code"] == "asleep"


async def test_a_poll_gets_the_kept_list_when_the_last_pod_fails(world: World) -> None:
    pod = await world.serving(answer=ok(LIST, JSON), policies=POLICIES)
    await world.ask(models())
    pod.on_data = lambda connection: None
    client = await world.client()
    client.send(models())
    await until(lambda: len(pod.requests) == 2)
    world.healthy = lambda tracker: False
    await pod.refuse()
    for connection in pod.open:
        connection.reset()
    answer = await client.answer()
    assert (answer.status, answer.body) == (200, LIST)
    await world.idle()


async def test_a_queued_poll_gets_the_kept_list_when_the_last_pod_is_lost(world: World) -> None:
    pod = await world.serving(answer=ok(LIST, JSON), policies=POLICIES, container_concurrency=1)
    await world.ask(models())
    pod.on_data = lambda connection: None
    busy, poll = await world.client(), await world.client()
    busy.send(request(b"/v1/chat/completions", b"POST", JSON, b"{}"))
    await until(lambda: len(pod.requests) == 2)
    poll.send(models())
    await until(lambda: world.waiting == 1)
    world.list()
    answer = await poll.answer()
    assert (answer.status, answer.body) == (200, LIST)
    busy.abort()
    await world.idle()


async def test_a_poll_gets_the_kept_list_when_no_connection_to_the_last_pod_completes(
    world: World,
) -> None:
    pod = await world.serving(answer=ok(LIST, JSON), policies=POLICIES)
    await world.ask(models())
    hole = await world.unreachable()
    world.list(pod, hole)
    await until(lambda: world.revision().statistics().healthy == 2)
    world.list(hole)
    answer = await world.ask(models())
    assert (answer.status, answer.body) == (200, LIST)
    await world.idle()
