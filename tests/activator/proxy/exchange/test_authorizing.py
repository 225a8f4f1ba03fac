"""Requests that an authorization server must allow before they have a place."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable

import pytest

from activator.authorization import authorizer as limits
from activator.authorization.authorizer import Authorizer
from activator.proxy.exchange.permission import fields_of
from activator.proxy.message.fields import HTTP_2
from activator.proxy.message.request import Request, RequestLimits, read_request
from tests.activator.authorization.servers import (
    ALLOW,
    FORBIDDEN,
    UNAUTHORIZED,
    AuthServer,
    Connection,
    auth_server,
    authorizing,
)
from tests.activator.proxy.http2.peers import Http2World
from tests.activator.proxy.observers import Records, Traces
from tests.activator.proxy.world import (
    NAME,
    NAMESPACE,
    Client,
    World,
    ok,
    own_world,
    request,
    turns,
    until,
)
from throttler.model import Policies, QueueOrder, RevisionID
from throttler.request_policies import Authorization, RequestPolicies, WakeRules


@pytest.fixture
async def server() -> AsyncIterator[AuthServer]:
    """An authorization server that allows all requests."""
    async with auth_server() as server:
        yield server


@pytest.fixture
async def authorizer(world: World) -> AsyncIterator[Authorizer]:
    """The world's authorizer."""
    async with authorizing(world.now) as authorizer:
        world.proxy.services.authorizer = authorizer
        yield authorizer


def asking(
    server: AuthServer,
    *,
    always: bool = False,
    cache: float = 0.0,
    key: tuple[bytes, ...] = (),
    headers: tuple[bytes, ...] = (),
    order: QueueOrder | None = None,
) -> Policies:
    """Return policies under which the server decides."""
    policy = Authorization(server.url, always, cache, key, headers)
    return Policies(requests=RequestPolicies(authorization=policy), order=order)


def ever(world: World) -> int:
    """Return how many requests the autoscaler counts."""
    load = world.loads.get(RevisionID(NAMESPACE, NAME))
    return 0 if load is None else load.ever


# -- the sub-request -------------------------------------------------------------------------------


def test_the_server_gets_the_request_without_what_belongs_to_its_hop_or_body() -> None:
    head = (
        b"POST /a?b=c HTTP/1.1\r\nHost: hello.example.com\r\nAuthorization: Bearer \t a \r\n"
        b"Cookie: a=b\r\nX-Other: 1\r\nx-other: 2\r\nConnection: keep-alive, x-hop\r\nX-Hop: 1\r\n"
        b"Content-Length: 3\r\nContent-Type: text/plain\r\nExpect: 100-continue\r\nTE: trailers\r\n"
        b"If-None-Match: a\r\nRange: bytes=0-1\r\nKeep-Alive: 1\r\nProxy-Authorization: a\r\n"
        b"Knative-Serving-Revision: rev\r\nActivator-Priority: high\r\nActivator-Other: a\r\n"
        b"X-Forwarded-Method: GET\r\nx-forwarded-uri: /public\r\nX-Forwarded-Host: public\r\n"
        b"X-Original-URL: /public\r\nX_Forwarded_Uri: /public\r\nX-Rewrite-URL: /public\r\n"
        b"X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https\r\nK-Passthrough-Lb: true\r\n\r\n"
    )
    assert fields_of(read_request(head, RequestLimits()), b"10.0.0.9") == [
        (b"Authorization", b"Bearer \t a"),
        (b"Cookie", b"a=b"),
        (b"X-Other", b"1"),
        (b"x-other", b"2"),
        (b"X-Forwarded-Proto", b"https"),
        (b"X-Forwarded-For", b"192.0.2.1, 10.0.0.9"),
        (b"X-Forwarded-Method", b"POST"),
        (b"X-Forwarded-Host", b"hello.example.com"),
        (b"X-Forwarded-Uri", b"/a?b=c"),
    ]


def test_http2_has_the_same_fields() -> None:
    by_name = {b":path": b"/", b"cookie": b"a=b; c=d", b"x-forwarded-uri": b"/public", b"te": b""}
    request = Request(b"GET", b"/a", HTTP_2, b"host", by_name, None, section=b"-")
    assert fields_of(request, b"10.0.0.9") == [
        (b"cookie", b"a=b; c=d"),
        (b"X-Forwarded-For", b"10.0.0.9"),
        (b"X-Forwarded-Method", b"GET"),
        (b"X-Forwarded-Host", b"host"),
        (b"X-Forwarded-Uri", b"/a"),
    ]


# -- the request -----------------------------------------------------------------------------------


async def test_an_allowed_request_is_queued_and_served(
    world: World, authorizer: Authorizer, server: AuthServer
) -> None:
    server.answer = b""
    world.revise(policies=asking(server))
    client = await world.client()
    client.send(request(b"/a?b", b"POST", b"Authorization: Bearer a\r\n", b"body"))
    await until(lambda: server.requests)
    assert (ever(world), world.waiting, world.prober.hurried) == (0, 0, 0)
    server.connections[0].transport.write(ALLOW)
    await until(lambda: world.waiting == 1)
    assert ever(world) == 1
    assert server.values(b"authorization") == [b"Bearer a"]
    assert server.values(b"x-forwarded-method") == [b"POST"]
    assert server.values(b"x-forwarded-host") == [b"example.com"]
    assert server.values(b"x-forwarded-uri") == [b"/a?b"]
    assert server.requests[0].startswith(b"GET /check?a=b HTTP/1.1")
    pod = await world.pod()
    world.revise(pod, policies=asking(server))
    assert (await client.answer()).status == 200
    assert (pod.requests[0].method, pod.requests[0].body) == (b"POST", b"body")
    assert world.counters().outcomes["served"] == 1


async def test_a_large_body_waits_for_the_decision(
    world: World, authorizer: Authorizer, server: AuthServer
) -> None:
    server.answer = b""
    body = 600_000 * b"x"
    for status, policies in ((200, asking(server, always=True)), (401, asking(server))):
        pod = await world.serving(policies=policies) if status == 200 else None
        if pod is None:
            world.revise(policies=policies)
        server.requests.clear()
        client = await world.client()
        client.send(request(b"/", b"POST", body=body))
        await until(lambda: server.requests)
        server.connections[-1].transport.write(ALLOW if status == 200 else UNAUTHORIZED)
        assert (await client.answer()).status == status
        if pod is not None:
            assert len(pod.requests[0].body) == len(body)
        client.abort()


async def test_large_bodies_that_wait_for_the_decision_are_limited(
    world: World, authorizer: Authorizer, server: AuthServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MOST_BYTES", 3000)
    monkeypatch.setattr(limits, "LEAST_BYTES", 1)
    server.answer = b""
    world.revise(policies=asking(server))
    first = await world.client()
    first.send(request(b"/", b"POST", body=1000 * b"x"))
    await until(lambda: server.requests)
    second = await world.client()
    second.send(request(b"/", b"POST", body=1000 * b"x"))
    answer = await second.answer()
    assert answer.status == 503
    assert (answer.get(b"activator-reason") or b"").startswith(b"not-authorized; too many")
    first.abort()
    await until(lambda: not authorizer.waiting)


async def test_a_denial_passes_on_and_never_wakes(
    world: World,
    authorizer: Authorizer,
    server: AuthServer,
    traces: Traces,
    records: Records,
) -> None:
    world.revise(policies=asking(server))
    client = await world.client()
    for answer, status, challenge, body in (
        (UNAUTHORIZED, 401, b'Basic realm="a"', b"unauthorized\n"),
        (FORBIDDEN, 403, None, b"secret"),
    ):
        server.answer = answer
        traces.told.clear()
        client.send(request())
        got = await client.answer()
        assert (got.status, got.get(b"www-authenticate")) == (status, challenge)
        assert got.get(b"activator-reason") == b"denied"
        assert got.body == body
        assert traces.told[2:] == [("no-pod", "denied"), ("ended", status, "denied")]
    assert (ever(world), world.waiting, world.prober.hurried) == (0, 0, 0)
    assert world.counters().outcomes["denied"] == 2
    assert [each.status for each in records] == [401, 403]
    assert world.failures().last is None


LOGIN = (
    b"HTTP/1.1 302 Found\r\nLocation: https://login.example.com/?rd=%2Fa\r\nSet-Cookie: csrf=1\r\n"
    b"Set-Cookie: state=2\r\nCache-Control: no-store\r\nActivator-Reason: forged\r\n"
    b"Connection: keep-alive, x-hop\r\nX-Hop: 1\r\nContent-Type: text/html\r\n"
    b"Content-Length: 5\r\n\r\nLogin"
)
PAGE = LOGIN.replace(b"302 Found", b"401 Unauthorized")


async def test_a_login_page_passes_on_with_its_fields(
    world: World, authorizer: Authorizer, server: AuthServer
) -> None:
    world.revise(policies=asking(server))
    client = await world.client()
    for answer, status in ((LOGIN, 302), (PAGE, 401)):
        for method, fields in (
            (b"GET", b""),
            (b"HEAD", b""),
            (b"GET", b"Accept: application/json\r\n"),
        ):
            server.answer = answer
            client.send(request(b"/a", method, fields))
            got = await client.answer(method)
            assert got.status == status
            names = (b"location", b"content-type", b"cache-control", b"activator-reason")
            assert [got.get(name) for name in names] == [
                *(b"https://login.example.com/?rd=%2Fa", b"text/html", b"no-store", b"denied")
            ]
            cookies = [value for name, value in got.headers if name == b"set-cookie"]
            assert cookies == [b"csrf=1", b"state=2"]
            assert got.get(b"x-hop") is None
            assert got.body == (b"" if method == b"HEAD" else b"Login")
    assert (ever(world), world.waiting) == (0, 0)
    assert world.counters().outcomes["denied"] == 6


async def test_no_decision_means_503(
    world: World, authorizer: Authorizer, server: AuthServer
) -> None:
    world.revise(policies=asking(server))
    for answer, why in (
        (b"", b"the authorization server did not respond in time"),
        (b"HTTP/1.1 304 A\r\n\r\n", b"the authorization server responded 304"),
        (b"HTTP/1.1 500 A\r\n\r\n", b"the authorization server responded 500"),
    ):
        server.answer = answer
        got = await world.ask()
        assert got.status == 503
        assert got.get(b"activator-reason") == b"not-authorized; " + why
        assert got.get(b"retry-after") is not None
        assert b"127.0.0.1" not in got.body
    assert ever(world) == 0
    assert world.counters().outcomes["not-authorized"] == 3
    assert world.failures().last.reason.value == "not-authorized"


async def test_with_a_wrong_url_no_request_may_start_a_pod(
    world: World, authorizer: Authorizer, server: AuthServer
) -> None:
    """A revision that had this value at the start of the activator has no last good state."""
    policy = Authorization("")
    world.revise(policies=Policies(requests=RequestPolicies(authorization=policy)))
    got = await world.ask()
    assert (got.status, ever(world)) == (503, 0)
    why = b"an annotation activator.dev/auth-* has a wrong value"
    assert got.get(b"activator-reason") == b"not-authorized; " + why
    await world.serving(policies=Policies(requests=RequestPolicies(authorization=policy)))
    assert (await world.ask()).status == 200  # as with a right value, since no request waits
    policy = Authorization("", always=True)
    world.revise(policies=Policies(requests=RequestPolicies(authorization=policy)))
    assert (await world.ask()).status == 503
    assert not server.requests


async def test_without_an_authorizer_nothing_is_allowed(world: World, server: AuthServer) -> None:
    world.revise(policies=asking(server))
    assert (await world.ask()).status == 503
    assert not server.requests


async def test_only_a_request_that_would_wait_is_asked_about(
    world: World, authorizer: Authorizer, server: AuthServer
) -> None:
    pod = await world.serving(container_concurrency=1, policies=asking(server))
    assert (await world.ask()).status == 200
    assert not server.requests
    pod.on_data = lambda connection: None
    clients = [await world.client() for _ in range(2)]
    for client in clients:
        client.send(request())
        await until(lambda: world.in_flight == 1)
    await until(lambda: world.waiting == 1)
    assert len(server.requests) == 1
    for count in (2, 3):
        await until(lambda: len(pod.requests) == count)  # noqa: B023 # awaited in its turn
        pod.connections[-1].write(ok())
    assert [(await client.answer()).status for client in clients] == [200, 200]
    world.revise(pod, container_concurrency=1, policies=asking(server, always=True))
    client = await world.client()
    client.send(request())
    await until(lambda: len(pod.requests) == 4)
    assert len(server.requests) == 2
    pod.connections[-1].write(ok())
    assert (await client.answer()).status == 200


async def test_a_cached_decision_needs_no_server(
    world: World, authorizer: Authorizer, server: AuthServer
) -> None:
    pod = await world.serving(policies=asking(server, always=True, cache=60))
    for fields in (b"", b"", b"Cookie: a=b\r\n"):
        assert (await world.ask(request(fields=fields))).status == 200
    assert (len(server.requests), len(pod.requests)) == (2, 3)
    server.answer = FORBIDDEN
    for _ in range(2):
        assert (await world.ask(request(fields=b"Cookie: a=c\r\n"))).status == 403
    assert len(server.requests) == 3
    world.revise(pod, policies=asking(server, always=True))  # without a cache, from now on
    assert (await world.ask()).status == 403


async def test_a_good_key_lets_no_other_request_pass(
    world: World, authorizer: Authorizer, server: AuthServer
) -> None:
    """Also if the server decides by a field of its own, or by the path."""

    def decide(connection: Connection) -> None:
        good = server.values(b"x-api-key") == [b"good"] or (
            server.values(b"x-forwarded-uri") == [b"/public"]
        )
        connection.transport.write(ALLOW if good else UNAUTHORIZED)

    server.respond = decide
    pod = await world.serving(policies=asking(server, always=True, cache=60))
    for target, fields, status in (
        (b"/", b"X-Api-Key: good\r\n", 200),
        (b"/", b"", 401),
        (b"/", b"X-Api-Key: bad\r\n", 401),
        (b"/public", b"", 200),
        (b"/private", b"", 401),
        (b"/", b"X-Api-Key: good\r\n", 200),
    ):
        assert (await world.ask(request(target, fields=fields))).status == status
    assert (len(pod.requests), len(server.requests)) == (3, 5)


# -- fields of the server for the pod --------------------------------------------------------------

NAMES = (b"x-auth-user", b"x-auth-groups")
WHO = b"HTTP/1.1 200 OK\r\nX-Auth-User: ann\r\nX-Other: 1\r\nContent-Length: 0\r\n\r\n"
FORGED = (
    b"X-Auth-User: root\r\nx_auth_user: root\r\nX-AUTH_GROUPS: admin\r\nX.Auth.User: root\r\n"
    b"X-Auth-Groups: admin\r\nX-Auth-Users: 1\r\n"
)


def identities(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return the fields that a server could take for fields of the authorization server."""
    return [
        (n.lower(), v) for n, v in headers if n.lower()[:6] in (b"x-auth", b"x_auth", b"x.auth")
    ]


async def test_a_pod_gets_the_fields_of_the_server_and_no_forged_ones(
    world: World, authorizer: Authorizer, server: AuthServer
) -> None:
    """Whether the server decides, has decided before, or gets no sub-request, as a pod is free."""
    server.answer = WHO
    user, other = (b"x-auth-user", b"ann"), (b"x-auth-users", b"1")
    for policies, expected, asked in (
        (asking(server, always=True, headers=NAMES), [other, user], 2),
        (asking(server, always=True, headers=NAMES, cache=60), [other, user], 1),
        (asking(server, headers=NAMES), [other], 0),
    ):
        server.requests.clear()
        pod = await world.serving(policies=policies)
        for _ in range(2):
            got = await world.ask(request(b"/", b"POST", FORGED, b"body"))
            assert (got.status, got.get(b"x-auth-user")) == (200, None)
        assert [identities(each.headers) for each in pod.requests] == [expected, expected]
        assert [each.body for each in pod.requests] == [b"body", b"body"]
        assert len(server.requests) == asked


async def test_a_queued_request_has_the_fields_of_the_server(
    world: World, authorizer: Authorizer, server: AuthServer
) -> None:
    server.answer = WHO
    world.revise(policies=asking(server, headers=NAMES))
    client = await world.client()
    client.send(request(fields=FORGED + b"Connection: x-auth-user\r\n"))
    await until(lambda: world.waiting == 1)
    pod = await world.pod()
    world.revise(pod, policies=asking(server, headers=NAMES))
    assert (await client.answer()).status == 200
    assert (b"x-auth-user", b"ann") in identities(pod.requests[0].headers)
    assert b"root" not in b"".join(value for _, value in pod.requests[0].headers)


async def test_trailers_cannot_forge_the_fields_of_the_server(
    world: World, authorizer: Authorizer, server: AuthServer
) -> None:
    server.answer = WHO
    head = request(
        method=b"POST", fields=b"TE: trailers\r\nTrailer: X\r\nTransfer-Encoding: chunked\r\n"
    )
    trailers = b"0\r\nX-Auth-User: root\r\n\r\n"
    for names, found in ((NAMES, []), ((), [(b"x-auth-user", b"root")])):
        for pieces in ((head + trailers,), (head, b"1\r\na\r\n", trailers)):
            pod = await world.serving(policies=asking(server, always=True, headers=names))
            client = await world.client()
            for piece in pieces:
                client.send(piece)
                await turns(50)
            assert (await client.answer()).status == 200
            assert [(n.lower(), v) for n, v in pod.requests[0].trailers] == found


async def test_a_request_that_may_not_wake_is_not_asked_about(
    world: World, authorizer: Authorizer, server: AuthServer
) -> None:
    wake = WakeRules(methods=(b"POST",), asleep_status=204)
    world.revise(
        policies=Policies(
            requests=RequestPolicies(wake=wake, authorization=Authorization(server.url))
        )
    )
    assert (await world.ask()).status == 204
    assert not server.requests


async def asks(world: World, server: AuthServer) -> Client:
    """Return a client whose request waits for the authorization server, which does not respond."""
    server.answer = b""
    world.revise(policies=asking(server))
    client = await world.client()
    client.send(request())
    await until(lambda: server.requests)
    return client


async def test_a_client_that_leaves_cancels(
    world: World, authorizer: Authorizer, server: AuthServer
) -> None:
    client = await asks(world, server)
    client.abort()
    await until(lambda: authorizer.waiting == 0)
    await until(lambda: server.connections[0].closed)
    assert world.counters().outcomes["cancelled"] == 1
    assert ever(world) == 0


async def test_a_revision_that_is_deleted_meanwhile_is_unknown(
    world: World, authorizer: Authorizer, server: AuthServer
) -> None:
    client = await asks(world, server)
    world.driver.delete_revision(RevisionID(NAMESPACE, NAME))
    server.connections[0].transport.write(ALLOW)
    answer = await client.answer()
    assert answer.status == 404
    assert answer.get(b"activator-reason") is not None
    assert ever(world) == 0


async def test_a_revision_that_returns_meanwhile_is_known(
    world: World, authorizer: Authorizer, server: AuthServer
) -> None:
    client = await asks(world, server)
    world.driver.delete_revision(RevisionID(NAMESPACE, NAME))
    await world.serving(policies=asking(server))
    server.connections[0].transport.write(ALLOW)
    assert (await client.answer()).status == 200
    assert world.counters().outcomes["served"] == 1


async def test_a_request_that_may_not_wake_ends_if_the_last_pod_goes_meanwhile(
    world: World, authorizer: Authorizer, server: AuthServer
) -> None:
    server.answer = b""
    policy = Authorization(server.url, always=True)
    wake = WakeRules(methods=(b"POST",), asleep_status=204)
    policies = Policies(requests=RequestPolicies(wake=wake, authorization=policy))
    await world.serving(policies=policies)
    client = await world.client()
    client.send(request())
    await until(lambda: server.requests)
    world.revise(policies=policies)
    server.connections[0].transport.write(ALLOW)
    assert (await client.answer()).status == 204
    assert (ever(world), world.waiting, world.prober.hurried) == (0, 0, 0)


async def test_a_drain_ends_it(server: AuthServer) -> None:
    server.answer = b""
    for end in ("drain", "force_end"):
        async with own_world(end) as world, authorizing(world.now) as authorizer:
            world.proxy.services.authorizer = authorizer
            world.revise(policies=asking(server))
            client = await world.client()
            server.requests.clear()
            client.send(request())
            await until(lambda: server.requests)
            for connection in list(world.proxy.connections):
                getattr(connection, end)()
            answer = await client.answer()
            assert answer.status == 503
            assert (answer.get(b"activator-reason") or b"").startswith(b"draining")
            assert authorizer.waiting == 0
            assert world.counters().outcomes["draining"] == 1


async def test_a_request_has_its_class_if_a_pod_was_free_at_its_arrival(
    world: World, authorizer: Authorizer, server: AuthServer
) -> None:
    order = QueueOrder(has_classes=True, trusts_header=True)
    policies = asking(server, always=True, order=order)
    pod = await world.serving(container_concurrency=1, policies=policies)
    server.answer = b""
    pod.on_data = lambda connection: None
    clients = []
    for number, name in enumerate((b"low", b"low", b"high")):
        clients.append(await world.client())
        clients[-1].send(request(b"/%d" % number, fields=b"Activator-Priority: " + name + b"\r\n"))
        await until(lambda: len(server.requests) == number + 1)  # noqa: B023 # awaited in its turn
    for waiting, connection in enumerate(server.connections):
        connection.transport.write(ALLOW)
        await until(lambda: world.waiting == waiting and world.in_flight)  # noqa: B023
    for count in (1, 2, 3):
        await until(lambda: len(pod.requests) == count)  # noqa: B023 # awaited in its turn
        pod.connections[-1].write(ok())
    assert [(await client.answer()).status for client in clients] == [200, 200, 200]
    assert [each.target for each in pod.requests] == [b"/0", b"/2", b"/1"]


async def test_a_deadline_before_the_limit_ends_the_sub_request(
    world: World, authorizer: Authorizer, server: AuthServer
) -> None:
    server.answer = b""
    world.revise(policies=asking(server), timeout=0.5)
    client = await world.client()
    before = world.now()
    client.send(request())
    assert (await client.answer()).status == 503
    assert world.now() - before == pytest.approx(0.5, abs=0.1)


class TestHttp2:
    async def test_streams_wait_side_by_side(
        self, http2: Http2World, authorizer: Authorizer, server: AuthServer
    ) -> None:
        server.answer = b""
        http2.list(policies=asking(server))
        client = await http2.client()
        streams = [client.ask(b"/%d" % number) for number in range(3)]
        await until(lambda: len(server.requests) == 3)
        client.h2.reset_stream(streams[0])
        client.flush()
        await until(lambda: authorizer.waiting == 2)
        for connection in server.connections:
            connection.transport.write(UNAUTHORIZED)
        for stream in streams[1:]:
            answer = await client.answer(stream)
            assert answer.status == 401
            assert answer.all(b"www-authenticate") == [b'Basic realm="a"']
        assert ever(http2.world) == 0

    async def test_an_early_deadline_ends_one_request(
        self, http2: Http2World, authorizer: Authorizer, server: AuthServer
    ) -> None:
        server.answer = b""
        http2.list(policies=asking(server))
        client = await http2.client()
        early = client.ask(b"/", b"GET", (b"grpc-timeout", b"100m"))
        late = client.ask(b"/")
        await until(lambda: authorizer.waiting == 2)
        await http2.world.clock_moves(0.1)
        got = await client.answer(early)
        assert got.status == 503
        assert got.all(b"activator-reason")[0].startswith(b"not-authorized; ")
        assert http2.world.counters().outcomes["not-authorized"] == 1
        await until(lambda: authorizer.waiting == 1)
        server.connections[-1].transport.write(UNAUTHORIZED)
        assert (await client.answer(late)).status == 401

    async def test_grpc_gets_its_statuses(
        self, http2: Http2World, authorizer: Authorizer, server: AuthServer
    ) -> None:
        http2.list(policies=asking(server))
        client = await http2.client()
        fields = (b"content-type", b"application/grpc")
        for answer, status in (
            (UNAUTHORIZED, b"16"),
            (FORBIDDEN, b"7"),
            (LOGIN, b"16"),  # a gRPC client follows no redirect
            (PAGE, b"16"),
            (b"x\r\n\r\n", b"14"),
        ):
            server.answer = answer
            got = await client.answer(client.ask(b"/s/m", b"POST", fields))
            assert got.all(b"grpc-status") == [status]
            assert got.all(b"content-type") == [b"application/grpc"]

    async def test_a_login_page_passes_on_with_its_fields(
        self, http2: Http2World, authorizer: Authorizer, server: AuthServer
    ) -> None:
        http2.list(policies=asking(server))
        client = await http2.client()
        for answer, status in ((LOGIN, 302), (PAGE, 401)):
            server.answer = answer
            got = await client.answer(client.ask(b"/a"))
            assert (got.status, bytes(got.body)) == (status, b"Login")
            assert got.all(b"set-cookie") == [b"csrf=1", b"state=2"]
            assert got.all(b"location") == [b"https://login.example.com/?rd=%2Fa"]
            assert got.all(b"activator-reason") == [b"denied"]
            assert (got.all(b"x-hop"), got.all(b"connection")) == ([], [])

    async def test_a_pod_gets_the_fields_of_the_server_and_no_forged_ones(
        self, http2: Http2World, authorizer: Authorizer, server: AuthServer
    ) -> None:
        server.answer = WHO
        forged = [
            *((b"x-auth-user", b"root"), (b"x_auth_user", b"root"), (b"x-auth-groups", b"admin")),
            (b"content-type", b"application/grpc"),
        ]
        for always, expected in ((True, [(b"x-auth-user", b"ann")]), (False, [])):
            pod = await http2.serving(policies=asking(server, always=always, headers=NAMES))
            client = await http2.client()
            for _ in range(2):  # the second block is read from memory
                await client.answer(client.ask(b"/s/m", b"POST", *forged))
            for seen in pod.requests:
                assert identities(seen.headers) == expected
                assert seen.all(b"content-type") == [b"application/grpc"]
                assert seen.all(b"k-original-host") == [b"example.com"]

    async def test_an_allowed_body_reaches_the_pod(
        self, http2: Http2World, authorizer: Authorizer, server: AuthServer
    ) -> None:
        pod = await http2.serving(policies=asking(server, always=True))
        client = await http2.client()
        stream = client.ask(b"/", b"POST", end=False)
        client.data(stream, 60_000 * b"a", end=True)
        assert (await client.answer(stream)).status == 200
        assert len(pod.requests[0].body) == 60_000


async def test_bytes_behind_the_request_wait(
    world: World, authorizer: Authorizer, server: AuthServer
) -> None:
    pod = await world.serving(policies=asking(server, always=True))
    server.answer = b""
    client = await world.client()
    await client.drip(request(b"/1") + request(b"/2"), 7)
    for count in (1, 2):
        await until(lambda: len(server.requests) == count)  # noqa: B023 # awaited in its turn
        await turns(20)
        assert len(server.requests) == count
        server.connections[-1].transport.write(ALLOW)
        assert (await client.answer()).status == 200
    assert [each.target for each in pod.requests] == [b"/1", b"/2"]
    assert asyncio.get_running_loop().time() < 2.0
