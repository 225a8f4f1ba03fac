"""Which sub-requests are sent: few at a time, cached, cancelled; a server that hangs is alone."""

from __future__ import annotations

import pytest

from activator.authorization import authorizer as limits
from activator.authorization import authorizer as module
from activator.authorization.authorizer import Authorizer
from activator.proxy.exchange.permission import TOO_LATE
from tests.activator.authorization.servers import (
    ALLOW,
    UNAUTHORIZED,
    AuthServer,
    auth_server,
    authorizing,
)
from tests.activator.authorization.test_server import HELLO, Asking, clock
from tests.activator.proxy.world import turns, until
from throttler.request_policies import Authorization, Verdict

FULL = Verdict(0, error="too many requests wait for authorization")


def ask(
    authorizer: Authorizer,
    server: AuthServer | str,
    *fields: tuple[bytes, bytes],
    cache: float = 0.0,
    key: tuple[bytes, ...] = (),
    size: int = 0,
) -> Asking:
    """Ask as a request does."""
    url = server if isinstance(server, str) else server.url
    owner = Asking()
    policy = Authorization(url, cache_seconds=cache, cache_key=key)
    verdict = authorizer.ask(owner, HELLO, policy, list(fields), size)
    if verdict is not None:
        owner.decided(verdict)
    return owner


async def test_without_a_cache_each_request_is_asked_about() -> None:
    async with auth_server() as server, authorizing(clock) as authorizer:
        owners = [ask(authorizer, server) for _ in range(3)]
        await until(lambda: all(owner.verdict for owner in owners))
        assert len(server.requests) == 3
        assert authorizer.counts["allowed"] == 3


async def test_a_decision_counts_only_for_a_request_that_is_equal_for_the_server() -> None:
    """A good X-Api-Key does not let the next request without one pass."""
    good = (b"X-Api-Key", b"good")
    async with auth_server() as server, authorizing(clock) as authorizer:
        server.respond = lambda connection: connection.transport.write(
            ALLOW if server.values(b"x-api-key") == [b"good"] else UNAUTHORIZED
        )
        for fields, status, asked in (
            ((good,), 200, 1),
            ((good,), 200, 1),
            ((), 401, 2),
            (((b"X-Api-Key", b"bad"),), 401, 3),
            ((good, (b"Traceparent", b"1")), 200, 4),
        ):
            owner = ask(authorizer, server, *fields, cache=5)
            await owner.is_decided.wait()
            assert (owner.verdict and owner.verdict.status, len(server.requests)) == (status, asked)
        names = (b"x-api-key",)
        for fields, status, asked in (
            ((good, (b"Traceparent", b"1")), 200, 5),
            ((good, (b"Traceparent", b"2")), 200, 5),
            (((b"X-Api-Key", b"bad"),), 401, 6),
            ((), 401, 7),
        ):
            owner = ask(authorizer, server, *fields, cache=5, key=names)
            await owner.is_decided.wait()
            assert (owner.verdict and owner.verdict.status, len(server.requests)) == (status, asked)
        assert authorizer.counts["cached"] == 2


async def test_a_decision_counts_for_requests_that_wait_for_a_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_AT_ONCE", 2)
    async with auth_server() as server, authorizing(clock) as authorizer:
        owners = [ask(authorizer, server, cache=5) for _ in range(50)]
        await until(lambda: all(owner.verdict == Verdict(200) for owner in owners))
        assert len(server.requests) <= 2
        assert authorizer.waiting == 0


async def test_a_denial_is_cached_and_a_failure_is_not() -> None:
    async with auth_server() as server, authorizing(clock) as authorizer:
        for answer, asked in ((UNAUTHORIZED, 1), (b"HTTP/1.1 500 A\r\n\r\n", 2)):
            server.requests.clear()
            server.answer = answer
            for _ in range(2):
                owner = ask(authorizer, server, (b"A", b"%d" % asked), cache=5)
                await until(lambda: owner.verdict)  # noqa: B023 # awaited in its turn
                for connection in server.connections:
                    connection.transport.close()
                await turns(20)
            assert len(server.requests) == asked


async def test_a_request_that_leaves_cancels_its_sub_request() -> None:
    async with auth_server() as server, authorizing(clock) as authorizer:
        server.answer = b""
        owners = [ask(authorizer, server) for _ in range(2)]
        await until(lambda: len(server.requests) == 2)
        authorizer.cancel(owners[0])
        await until(lambda: [each.closed for each in server.connections].count(True) == 1)
        authorizer.cancel(owners[1])
        authorizer.cancel(owners[1])
        await until(lambda: not authorizer.connections)
        assert (authorizer.waiting, owners[0].verdict, owners[1].verdict) == (0, None, None)
        at_once = ask(authorizer, server)
        authorizer.cancel(at_once)  # before it has a connection
        assert authorizer.waiting == 0
        server.answer = ALLOW
        owner = ask(authorizer, server)
        await owner.is_decided.wait()
        assert owner.verdict == Verdict(200)


async def test_one_server_gets_few_requests_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_AT_ONCE", 2)
    monkeypatch.setattr(limits, "MOST_BYTES", 10)
    monkeypatch.setattr(limits, "LEAST_BYTES", 1)
    async with auth_server() as server, auth_server() as other, authorizing(clock) as authorizer:
        server.answer = b""
        owners = [ask(authorizer, server) for _ in range(6)]
        assert owners[5].verdict == FULL
        elsewhere = ask(authorizer, other)
        await until(lambda: elsewhere.verdict == Verdict(200) and len(server.requests) == 2)
        await turns(20)
        assert len(server.requests) == 2
        server.answer = ALLOW
        for connection in server.connections:
            connection.transport.write(ALLOW)
        await until(lambda: all(owner.verdict for owner in owners))
        assert [owner.verdict and owner.verdict.status for owner in owners] == [200] * 5 + [0]
        assert len(server.connections) == 2


async def test_urls_of_one_server_share_its_limits_and_leave_room_for_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server that hangs, asked by many URLs; then many servers that hang."""
    monkeypatch.setattr(module, "MOST_AT_ONCE", 4)
    monkeypatch.setattr(module, "MOST_CONNECTIONS", 8)
    monkeypatch.setattr(limits, "MOST_BYTES", 240 * limits.LEAST_BYTES)
    async with auth_server() as hanging, auth_server() as good, authorizing(clock) as authorizer:
        hanging.answer = b""
        asked = [ask(authorizer, f"{hanging.url}{number}") for number in range(240)]
        assert [each.verdict for each in asked].count(FULL) == 120
        await until(lambda: len(hanging.requests) == 4)
        before = clock()
        for _ in range(20):
            owner = ask(authorizer, good)
            await owner.is_decided.wait()
            assert owner.verdict == Verdict(200)
        assert clock() - before < 0.5
        await asked[119].is_decided.wait()
        await until(lambda: all(each.verdict for each in asked))
        assert [each.verdict for each in asked].count(TOO_LATE) == 120
        others = [await listening() for _ in range(4)]
        asked = [ask(authorizer, other) for other in others for _ in range(60)]
        await until(lambda: all(each.requests for each in others))
        owner = ask(authorizer, good)
        await owner.is_decided.wait()
        assert owner.verdict == Verdict(200)
        for other in others:
            await other.close()
        monkeypatch.setattr(module, "MOST_CONNECTIONS", 0)
        late, left = ask(authorizer, "http://127.0.0.1:1/"), ask(authorizer, "http://127.0.0.1:2/")
        authorizer.cancel(left)
        await late.is_decided.wait()
        assert late.verdict == TOO_LATE
        assert {origin[2] for origin in authorizer.servers}.isdisjoint((1, 2))


async def listening() -> AuthServer:
    """Return a server that hangs."""
    server = AuthServer()
    server.answer = b""
    await server.listen()
    return server


async def test_a_server_that_is_gone_fails_all_its_requests_at_once() -> None:
    async with auth_server() as server, authorizing(clock) as authorizer:
        await server.close()
        before = clock()
        owners = [ask(authorizer, server) for _ in range(500)]
        await until(lambda: all(owner.verdict for owner in owners))
        assert clock() - before < 0.5
        assert {each.verdict for each in owners} == {
            Verdict(0, error="the authorization server is unreachable")
        }
        assert (authorizer.waiting, authorizer.connections, authorizer.servers) == (0, 0, {})


async def test_idle_connections_close_and_leave_nothing_behind() -> None:
    async with auth_server() as server, authorizing(clock) as authorizer:
        owner = ask(authorizer, server)
        await owner.is_decided.wait()
        before = clock()
        await server.connections[0].ended.wait()
        assert clock() - before == pytest.approx(15, abs=0.5)
        await until(lambda: not authorizer.servers)
        assert (authorizer.connections, authorizer.servers) == (0, {})


async def test_authorities_that_cannot_be_read_fail_closed_and_are_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with authorizing(clock) as authorizer:
        for url in ("https://127.0.0.1:1/", "https://127.0.0.1:2/"):
            monkeypatch.setenv("SSL_CERT_FILE", "/missing/ca.pem")
            owner = ask(authorizer, url)
            await until(lambda: owner.verdict)  # noqa: B023 # awaited in its turn
            assert owner.verdict == Verdict(0, error="no sub-request is possible")
        lines = [each.getMessage() for each in caplog.records if "possible" in each.getMessage()]
        assert len(lines) == 1
        assert lines[0].startswith("no sub-request for authorization is possible: [Errno 2]")
        monkeypatch.delenv("SSL_CERT_FILE")
        assert (await authorizer.trusted()).check_hostname


async def test_the_end_cancels_all() -> None:
    async with auth_server() as server:
        server.answer = b""
        async with authorizing(clock) as authorizer:
            owner = ask(authorizer, server)
            await until(lambda: server.requests)
        assert owner.verdict == Verdict(0, error="the sub-request has failed")
        await until(lambda: server.connections[0].closed)


async def test_the_bytes_of_waiting_requests_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_BYTES", 24)
    monkeypatch.setattr(limits, "LEAST_BYTES", 1)
    async with auth_server() as server, auth_server() as other, authorizing(clock) as authorizer:
        server.answer = other.answer = b""
        first = ask(authorizer, server, size=7)
        assert ask(authorizer, server, size=11).verdict == FULL  # of this server
        second = ask(authorizer, other, size=15)
        assert ask(authorizer, server, size=1).verdict == FULL  # of all servers
        authorizer.cancel(first)
        third = ask(authorizer, server, size=6)
        assert third.verdict is None
        for each in (server, other):
            await until(lambda: each.requests)  # noqa: B023 # awaited in its turn
            for connection in each.connections:
                connection.transport.write(ALLOW)
        await until(lambda: second.verdict and third.verdict)
        assert ask(authorizer, server, size=12).verdict is None
