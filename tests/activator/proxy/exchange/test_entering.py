"""Which pod a request gets: requests with one key, of one client or of one session."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.activator.proxy.world import (
    ok,
    request,
    until,
)
from throttler.model import AdaptiveMode, HashKey, KeyKind, Overflow, Policies

#: More than the kernel's buffers between two sockets of this machine take.
LARGE = 12 << 20


# -- which pod: requests with one key go to one pod ----------------------------------------------


async def test_requests_with_one_key_go_to_one_pod_whatever_their_connection(world):
    pods = [await world.pod() for _ in range(3)]
    policies = Policies("hash", HashKey(b"x-user"))
    world.revise(*pods, policies=policies)
    await until(lambda: world.revision().statistics().healthy == 3)
    for turn in range(2):
        for user in range(40):
            name = b"X-User" if turn else b"x-user"
            await world.ask(request(b"/%d" % user, fields=name + b": user-%d\r\n" % user))
    seen = [[request.target for request in pod.requests] for pod in pods]
    assert all(targets[: len(targets) // 2] * 2 == targets for targets in seen)
    assert all(seen)
    assert sum(map(len, seen)) == 80


async def test_the_policy_changes_while_the_activator_runs(world):
    pods = [await world.pod() for _ in range(2)]
    world.revise(*pods, policies=Policies("hash", HashKey(b"x-user")))
    await until(lambda: world.revision().statistics().healthy == 2)
    asking = request(fields=b"X-User: anna\r\n")
    for _ in range(4):
        await world.ask(asking)
    assert sorted(len(pod.requests) for pod in pods) == [0, 4]
    world.revise(*pods, policies=Policies("round-robin"))
    for _ in range(4):
        await world.ask(asking)
    assert sorted(len(pod.requests) for pod in pods) == [2, 6]


# -- which pod: requests of one client or session stay at one pod ---------------------------------

COOKIE = Policies(sticky=HashKey(kind=KeyKind.COOKIE))


async def sticky_pods(world, count, policies, **spec):
    """Return so many healthy pods; each responds with its number."""
    pods = [await world.pod() for _ in range(count)]
    for number, pod in enumerate(pods):
        pod.answer = ok(b"pod-%d" % number)
    world.revise(*pods, policies=policies, **spec)
    await until(lambda: world.revision().statistics().healthy == count)
    return pods


async def test_a_client_gets_a_cookie_that_leads_to_its_pod(world):
    pods = await sticky_pods(world, 3, COOKIE)
    first = await world.ask()
    cookie, *attributes = first.get(b"set-cookie").split(b"; ")
    name, _, token = cookie.partition(b"=")
    assert (name, len(token)) == (b"activator-pod", 24)
    assert attributes == [b"Path=/", b"HttpOnly", b"SameSite=Lax"]
    assert not any(pod.endpoint.address.encode() in cookie for pod in pods)
    for fields in (
        b"Cookie: %b\r\n" % cookie,
        b"Cookie: theme=dark; %b; x=y\r\n" % cookie,
        b"Cookie: theme=dark\r\nCookie: %b\r\n" % cookie,
    ):
        again = await world.ask(request(fields=fields))
        assert (again.body, again.get(b"set-cookie")) == (first.body, None)
    assert {pod.requests[0].body for pod in pods if pod.requests} == {b""}


@pytest.mark.parametrize(
    ("scheme", "secure"),
    [(b"https", True), (b"HTTPS, http", True), (b"http", False), (b"http, https", False)],
)
async def test_behind_an_ingress_with_tls_the_cookie_is_secure(world, scheme, secure):
    await sticky_pods(world, 1, COOKIE)
    first = await world.ask(request(fields=b"X-Forwarded-Proto: %b\r\n" % scheme))
    assert first.get(b"set-cookie").endswith(b"; Secure") is secure


async def test_a_cookie_for_a_pod_that_is_gone_is_replaced(world):
    pods = await sticky_pods(world, 2, COOKIE)
    first = await world.ask()
    cookie = first.get(b"set-cookie").partition(b";")[0]
    left = next(pod for number, pod in enumerate(pods) if b"pod-%d" % number != first.body)
    world.list(left)
    moved = await world.ask(request(fields=b"Cookie: %b\r\n" % cookie))
    assert (moved.status, moved.body == first.body) == (200, False)
    assert moved.get(b"set-cookie").partition(b";")[0] not in (b"", cookie)


@pytest.mark.parametrize(
    "fields",
    [
        b"Cookie: activator-pod=10.0.0.1:8012\r\n",
        b"Cookie: activator-pod=" + b"a" * 60_000 + b"\r\n",
        b"Cookie: " + b"activator-pod=;" * 4_000 + b"\r\n",
        b"Cookie: activator-pod=x\r\n" * 900,
        b"Cookie: activator-pod=\xff\xfe\r\n",
    ],
    ids=["address", "huge", "repeated pairs", "repeated fields", "bytes"],
)
async def test_a_hostile_cookie_counts_as_none(world, fields):
    await sticky_pods(world, 2, COOKIE)
    answer = await world.ask(request(fields=fields))
    assert (answer.status, answer.get(b"set-cookie")[:14]) == (200, b"activator-pod=")


@pytest.mark.parametrize("overflow", Overflow)
async def test_a_cookie_of_another_service_or_an_altered_one_is_replaced(world, overflow):
    pods = await sticky_pods(world, 2, replace(COOKIE, sticky_overflow=overflow))
    first = await world.ask()
    token = first.get(b"set-cookie").partition(b";")[0].partition(b"=")[2]
    others = (b"f" * 24, token[:-1] + (b"1" if token.endswith(b"0") else b"0"), token[::-1])
    for other in others:
        foreign = request(fields=b"Cookie: activator-pod=%b\r\n" % other)
        answers = [await world.ask(foreign) for _ in range(4)]
        assert {(each.status, each.body) for each in answers} == {(200, answers[0].body)}
        cookie = answers[0].get(b"set-cookie").partition(b";")[0]
        own = await world.ask(request(fields=b"Cookie: %b\r\n" % cookie))
        assert (own.body, own.get(b"set-cookie")) == (answers[0].body, None)
    assert sum(len(pod.requests) for pod in pods) == 1 + 5 * len(others)


async def test_a_session_that_a_pods_response_began_stays_at_that_pod(world):
    """As MCP does: the response to the first request has the header."""
    key = HashKey(b"mcp-session-id")
    pods = await sticky_pods(world, 3, Policies("round-robin", sticky=key))
    for number, pod in enumerate(pods):
        begun = b"Mcp-Session-Id: s-%d\r\n" % number
        pod.answer = lambda seen, number=number, begun=begun: ok(
            b"pod-%d" % number, b"" if seen.all(b"mcp-session-id") else begun
        )
    sessions = dict[bytes, bytes]()
    for _ in range(3):
        begun = await world.ask()
        assert begun.get(b"set-cookie") is None
        sessions[begun.get(b"mcp-session-id")] = begun.body
    assert len(sessions) == 3
    for _ in range(2):
        for session, body in sessions.items():
            again = await world.ask(request(fields=b"Mcp-Session-Id: %b\r\n" % session))
            assert again.body == body


async def test_the_address_of_a_client_leads_to_one_pod(world):
    pods = await sticky_pods(world, 3, Policies(sticky=HashKey(kind=KeyKind.CLIENT_IP)))
    for number in range(12):
        await world.ask(request(fields=b"X-Forwarded-For: 192.0.2.%d\r\n" % number))
    assert sorted(len(pod.requests) for pod in pods) == [0, 0, 12], "the peer is not trusted"


async def test_a_sticky_request_waits_for_its_own_pod_while_another_is_free(world):
    policies = replace(COOKIE, sticky_overflow=Overflow.WAIT)
    pods = await sticky_pods(world, 2, policies, container_concurrency=1)
    first = await world.ask()
    cookie = request(fields=b"Cookie: %b\r\n" % first.get(b"set-cookie").partition(b";")[0])
    own = next(pod for number, pod in enumerate(pods) if b"pod-%d" % number == first.body)
    own.answer = b""
    holding, waiting = await world.client(), await world.client()
    holding.send(cookie)
    await until(lambda: len(own.requests) == 2)
    waiting.send(cookie)
    await until(lambda: world.waiting == 1)
    assert (await world.ask()).body != first.body
    own.answer = ok(first.body)
    own.open[-1].write(ok(first.body))
    assert (await holding.answer()).body == first.body
    assert (await waiting.answer()).body == first.body


async def test_stickiness_follows_the_annotation(world):
    pods = await sticky_pods(world, 2, Policies())
    assert (await world.ask()).get(b"set-cookie") is None
    world.revise(*pods, policies=COOKIE)
    assert (await world.ask()).get(b"set-cookie")
    world.revise(*pods, policies=Policies())
    assert (await world.ask()).get(b"set-cookie") is None


async def test_a_pod_with_an_adaptive_limit_gets_no_more_requests(world):
    policies = Policies(adaptive=AdaptiveMode.ON)
    (pod,) = await sticky_pods(world, 1, policies)
    pod.answer = b""
    clients = [await world.client() for _ in range(6)]
    for client in clients:
        client.send(request())
    await until(lambda: world.waiting == 2)
    await until(lambda: len(pod.requests) == 4)
    (tracker,) = world.revision().pods()
    assert (tracker.in_flight, tracker.limit) == (4, 4)
    pod.open[-1].write(ok())
    await until(lambda: world.waiting == 1)
    for client in clients:
        client.abort()
    await world.idle()
