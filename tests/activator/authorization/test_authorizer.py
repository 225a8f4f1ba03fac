"""Which sub-requests are sent: few at a time, shared, cancelled."""

from __future__ import annotations

import httpx
import pytest

from activator.authorization import authorizer as module
from activator.authorization import sub_request
from activator.authorization.authorizer import Authorizer
from tests.activator.authorization.servers import (
    ALLOW,
    UNAUTHORIZED,
    AuthServer,
    auth_server,
    authorizing,
)
from tests.activator.authorization.test_sub_request import HELLO, Asking, clock
from tests.activator.proxy.world import turns, until
from throttler.request_policies import Authorization, Verdict


def ask(
    authorizer: Authorizer,
    server: AuthServer,
    credentials: bytes = b"",
    cache: float = 0.0,
    now: float = 0.0,
    size: int = 0,
) -> Asking:
    """Ask as a request does."""
    owner, policy = Asking(), Authorization(server.url, cache_seconds=cache)
    verdict = authorizer.known(HELLO, policy, credentials, now)
    if verdict is None:
        verdict = authorizer.ask(owner, HELLO, policy, credentials, [], size)
    if verdict is not None:
        owner.decided(verdict)
    return owner


async def test_without_a_cache_each_request_is_asked_about() -> None:
    async with auth_server() as server, authorizing(clock) as authorizer:
        owners = [ask(authorizer, server) for _ in range(3)]
        await until(lambda: all(owner.verdict for owner in owners))
        assert len(server.requests) == 3
        assert authorizer.counts["allowed"] == 3


async def test_equal_credentials_share_a_sub_request_and_its_result() -> None:
    async with auth_server() as server, authorizing(lambda: 0.0) as authorizer:
        credentials = (b"a", b"a", b"b")
        owners = [ask(authorizer, server, each, cache=5) for each in credentials]
        await until(lambda: all(owner.verdict for owner in owners))
        assert len(server.requests) == 2
        assert ask(authorizer, server, b"a", cache=5).verdict == Verdict(200)
        assert authorizer.counts["cached"] == 1
        later = ask(authorizer, server, b"a", cache=5, now=5.0)
        await until(lambda: later.verdict)
        assert len(server.requests) == 3


async def test_a_denial_is_cached_and_a_failure_is_not() -> None:
    async with auth_server() as server, authorizing(clock) as authorizer:
        for answer, asked in ((UNAUTHORIZED, 1), (b"HTTP/1.1 500 A\r\n\r\n", 2)):
            server.requests.clear()
            server.answer = answer
            for _ in range(2):
                owner = ask(authorizer, server, answer, cache=5)
                await until(lambda: owner.verdict)  # noqa: B023 # awaited in its turn
                for connection in server.connections:
                    connection.transport.close()
                await turns(20)
            assert len(server.requests) == asked


async def test_the_last_request_that_leaves_cancels_the_sub_request() -> None:
    async with auth_server() as server, authorizing(clock) as authorizer:
        server.answer = b""
        owners = [ask(authorizer, server, cache=5) for _ in range(2)]
        await until(lambda: server.requests)
        authorizer.cancel(owners[0])
        await turns(20)
        assert not server.connections[0].closed
        authorizer.cancel(owners[1])
        await until(lambda: server.connections[0].closed)
        await until(lambda: not authorizer._servers)
        authorizer.cancel(owners[1])
        assert (authorizer.waiting, owners[0].verdict, owners[1].verdict) == (0, None, None)
        at_once = ask(authorizer, server)
        authorizer.cancel(at_once)  # before its task has run
        await until(lambda: not authorizer._servers)


async def test_one_server_gets_few_requests_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_AT_ONCE", 2)
    monkeypatch.setattr(module, "MOST_WAITING_PER_SERVER", 5)
    async with auth_server() as server, auth_server() as other, authorizing(clock) as authorizer:
        server.answer = b""
        owners = [ask(authorizer, server) for _ in range(6)]
        assert owners[5].verdict == Verdict(0, error="too many requests wait for authorization")
        elsewhere = ask(authorizer, other)
        await until(lambda: elsewhere.verdict == Verdict(200) and len(server.requests) == 2)
        await turns(20)
        assert len(server.requests) == 2
        server.answer = ALLOW
        for connection in server.connections:
            connection.transport.write(ALLOW)
        await until(lambda: all(owner.verdict for owner in owners))
        assert [owner.verdict and owner.verdict.status for owner in owners] == [200] * 5 + [0]
        await until(lambda: not authorizer._servers)


async def test_a_client_that_cannot_be_made_fails_closed_and_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_seconds: float) -> None:
        raise FileNotFoundError(2, "No such file", "/ca.pem")

    authorizer = Authorizer(clock)
    async with auth_server() as server:
        with monkeypatch.context() as patch:
            patch.setattr(sub_request, "open_client", fail)
            for _ in range(2):
                owner = ask(authorizer, server)
                await owner.is_decided.wait()
                assert owner.verdict == Verdict(0, error="no sub-request is possible")
        assert [each.getMessage() for each in caplog.records if "ca.pem" in each.getMessage()] == [
            "no sub-request for authorization is possible: [Errno 2] No such file: '/ca.pem'"
        ]
        monkeypatch.setattr(httpx._config, "create_ssl_context", lambda **_: None)
        owner = ask(authorizer, server)
        await owner.is_decided.wait()
        assert owner.verdict == Verdict(200)
        await authorizer.close()


async def test_the_end_cancels_all() -> None:
    async with auth_server() as server:
        server.answer = b""
        async with authorizing(clock) as authorizer:
            owner = ask(authorizer, server)
            await until(lambda: server.requests)
        assert owner.verdict == Verdict(0, error="the sub-request has failed")


async def test_the_bytes_of_waiting_requests_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 15)
    monkeypatch.setattr(module, "MOST_BYTES_PER_SERVER", 10)
    async with auth_server() as server, auth_server() as other, authorizing(clock) as authorizer:
        full = Verdict(0, error="too many requests wait for authorization")
        server.answer = other.answer = b""
        first = ask(authorizer, server, size=6)
        assert ask(authorizer, server, size=5).verdict == full  # of this server
        second = ask(authorizer, other, size=9)
        assert ask(authorizer, server, size=1).verdict == full  # of all servers
        authorizer.cancel(first)
        third = ask(authorizer, server, size=6)
        assert third.verdict is None
        for each in (server, other):
            await until(lambda: each.requests)  # noqa: B023 # awaited in its turn
            for connection in each.connections:
                connection.transport.write(ALLOW)
        await until(lambda: second.verdict and third.verdict)
        await until(lambda: not authorizer._servers)
        assert ask(authorizer, server, size=10).verdict is None
