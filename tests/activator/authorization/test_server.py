"""Cached decisions of authorization servers."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import trustme

from activator.authorization.authorizer import (
    MOST_VERDICTS,
    Authorizer,
    VerdictKey,
    Verdicts,
    key_of,
)
from activator.proxy.exchange.permission import TOO_LATE as LATE
from tests.activator.authorization.servers import (
    ALLOW,
    FORBIDDEN,
    UNAUTHORIZED,
    AuthServer,
    Connection,
    auth_server,
    authorizing,
)
from tests.activator.proxy.world import until
from tests.rows import naming
from throttler.model import RevisionID
from throttler.request_policies import Authorization, Verdict

HELLO = RevisionID("default", "hello")
ALLOWED = Verdict(200)


def policy(seconds: float = 10, url: str = "http://auth/check", *names: bytes) -> Authorization:
    return Authorization(url, cache_seconds=seconds, cache_key=names)


def key(*fields: tuple[bytes, bytes], names: tuple[bytes, ...] = ()) -> VerdictKey:
    return key_of(HELLO, policy(10, "http://auth/check", *names), fields)


def test_a_decision_counts_as_long_as_the_annotation_says() -> None:
    verdicts = Verdicts()
    one = key((b"A", b"b"))
    assert verdicts.get(one, 0) is None
    verdicts.put(one, ALLOWED, 100)
    assert verdicts.get(one, 109.9) is ALLOWED
    assert verdicts.get(key_of(HELLO, policy(5), [(b"A", b"b")]), 101) is None  # it has changed
    assert verdicts.get(one, 110) is None
    assert verdicts.get(one, 100) is None  # it is forgotten


def test_without_names_all_fields_are_part_of_the_key() -> None:
    rows = [
        key((b"A", b"b")),
        key((b"A", b"c")),
        key((b"A", b"b"), (b"X-Api-Key", b"good")),
        key((b"A", b"b"), (b"X_Api_Key", b"good")),
        key((b"Ab", b"")),
        key((b"A", b""), (b"b", b"")),
        key((b"A", b"b"), (b"A", b"b")),
        key((b"A", b"b1:a1:b")),
        key_of(RevisionID("default", "other"), policy(), [(b"A", b"b")]),
        key_of(HELLO, policy(url="http://auth/other"), [(b"A", b"b")]),
    ]
    assert len(set(rows)) == len(rows)
    assert key((b"a", b"b")) == rows[0]
    assert b"good" not in b"".join(each.fields for each in rows)


def test_names_choose_the_fields_of_the_key_in_each_spelling() -> None:
    names = (b"authorization", b"x-api-key")
    none = key(names=names)
    assert key((b"Traceparent", b"1"), (b"X-Forwarded-Uri", b"/"), names=names) == none
    one = key((b"Authorization", b"a"), names=names)
    assert key((b"authorization", b"a"), (b"Cookie", b"b"), names=names) == one
    others = [
        key((name, b"good"), names=names)
        for name in (b"X-Api-Key", b"X_Api_Key", b"x.api.key", b"X-API_KEY")
    ]
    assert len({none, one, *others}) == 6


def test_a_decision_for_one_client_or_of_many_bytes_is_not_kept() -> None:
    verdicts = Verdicts()
    cookie = b"\r\nSet-Cookie: csrf=a"
    rows = [
        (Verdict(200, b"\r\nx-user: a"), True),
        (Verdict(401, b"\r\nWWW-Authenticate: Basic"), True),
        (Verdict(403, b"", b"no"), True),
        (Verdict(403, cookie), False),
        (Verdict(302, b"\r\nLocation: /login?rd=/secret"), False),
        (Verdict(403, b"", 4096 * b"a"), True),
        (Verdict(403, b"", 4097 * b"a"), False),
        (Verdict(200, 4097 * b"a"), False),
    ]
    for number, (verdict, is_kept) in enumerate(rows):
        one = key((b"a", b"%d" % number))
        verdicts.put(one, verdict, 0)
        assert (verdicts.get(one, 0) is verdict) is is_kept, verdict


def test_invented_fields_take_bounded_memory_and_displace_the_oldest() -> None:
    verdicts = Verdicts()
    keys = [key((b"a", b"%d" % number)) for number in range(MOST_VERDICTS + 1)]
    for each in keys:
        verdicts.put(each, ALLOWED, 0)
    verdicts.put(keys[1], ALLOWED, 0)  # it is the newest now
    assert verdicts.get(keys[0], 0) is None
    verdicts.put(keys[0], ALLOWED, 0)
    assert verdicts.get(keys[1], 0) is ALLOWED
    assert verdicts.get(keys[2], 0) is None


_BROKEN = Verdict(0, error="the authorization server broke the connection")


class Asking(Any):  # it stands for an exchange
    """A request that waits for its decision."""

    def __init__(self) -> None:
        self.verdict: Verdict | None = None
        self.is_decided = asyncio.Event()

    def decided(self, verdict: Verdict) -> None:
        assert self.verdict is None
        self.verdict = verdict
        self.is_decided.set()


def start(authorizer: Authorizer, server: AuthServer | str, *fields: tuple[bytes, bytes]) -> Asking:
    owner = Asking()
    url = server if isinstance(server, str) else server.url
    policy = Authorization(url)
    assert authorizer.ask(owner, HELLO, policy, list(fields), 0) is None
    return owner


async def result(authorizer: Authorizer, server: AuthServer | str) -> Verdict:
    owner = start(authorizer, server)
    await owner.is_decided.wait()
    assert owner.verdict is not None
    return owner.verdict


def clock() -> float:
    return asyncio.get_running_loop().time()


async def test_the_server_gets_the_fields_and_no_others() -> None:
    async with auth_server() as server, authorizing(clock) as authorizer:
        owner = start(authorizer, server, (b"X-A", b"1"), (b"X-A", b"2"), (b"X-Latin", b"\xe4"))
        await until(lambda: owner.verdict)
        assert owner.verdict == Verdict(200)
        host = server.url.split("/")[2].encode()
        assert server.requests == [
            b"GET /check?a=b HTTP/1.1\r\nHost: %b\r\nX-A: 1\r\nX-A: 2\r\nX-Latin: \xe4" % host
        ]


@pytest.mark.untraced
@pytest.mark.parametrize("size", [1000, 1])
async def test_each_response_has_its_decision(size: int) -> None:
    """Whole, and byte by byte."""
    challenge = b'\r\nWWW-Authenticate: Basic realm="a"'
    huge = b"\r\nWWW-Authenticate: " + 20_000 * b"a"
    head = b"HTTP/1.1 %d A%b\r\nContent-Length: 0\r\n\r\n"
    page = b"HTTP/1.1 %d A%b\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%b"
    fields = b"\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nLocation: /login"
    html = b"\r\nContent-Type: text/html"
    rows = [
        (ALLOW, Verdict(200)),
        (head % (204, b""), Verdict(204)),
        (UNAUTHORIZED, Verdict(401, challenge)),
        (
            head % (401, 2 * b"\r\nwww-authenticate: A"),
            Verdict(401, 2 * b"\r\nwww-authenticate: A"),
        ),
        (head % (403, html), Verdict(403)),  # it would describe a body that is not there
        (FORBIDDEN, Verdict(403, b"", b"secret")),
        (head % (200, challenge), Verdict(200)),
        (head % (302, fields), Verdict(302, fields)),
        (page % (302, fields, 2, b"hi"), Verdict(302, fields + html, b"hi")),
        (head % (401, b"\r\nActivator-Reason: a\r\nK-Network-Hash: a"), Verdict(401)),
        (head % (401, b"\r\nConnection: x-hop\r\nX-Hop: 1\r\nKeep-Alive: a"), Verdict(401)),
        (
            b"HTTP/1.1 401 A\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n",
            Verdict(401, b"", b"abc"),
        ),
        (head % (300, b"\r\nLocation: /other"), Verdict(300)),
        (head % (304, b""), Verdict(304)),
        (head % (500, b""), Verdict(500)),
        (3 * b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + ALLOW, Verdict(200)),
        (b"HTTP/1.1 101 A\r\nConnection: upgrade\r\nUpgrade: a\r\n\r\n", LATE),
        (b"HTTP/1.1 200 OK\r\nX: a\x00b\r\n\r\n", _BROKEN),
        (b"HTTP/1.1 401 A\r\nWWW-Authenticate: a\rX: b\r\n\r\n", _BROKEN),
        (b"HTTP/1.1 302 A\r\nLocation: a\x0b\r\nContent-Length: 0\r\n\r\n", _BROKEN),
        (b"HTTP/1.1 401 A\r\nA: b\r\n folded: c\r\nContent-Length: 0\r\n\r\n", _BROKEN),
        (b"HTTP/1.1 401 A\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\na", _BROKEN),
        (b"SSH-2.0-OpenSSH\r\n\r\n", _BROKEN),
    ]
    if size > 1:
        rows.append((head % (401, huge), Verdict(401, huge)))
        rows.append((head % (401, 2 * huge), _BROKEN))
        rows.append((page % (401, b"", 1 << 16, 65536 * b"a"), Verdict(401, html, 65536 * b"a")))
        rows.append((page % (401, b"", 1 << 20, 65537 * b"a"), Verdict(401)))
    async with auth_server() as server, authorizing(clock) as authorizer:
        for answer, verdict in rows:
            with naming(answer[:60]):
                server.respond = dripping(answer, size)
                assert await result(authorizer, server) == verdict
                assert authorizer.waiting == 0


def dripping(answer: bytes, size: int) -> Callable[[Connection], None]:
    """Return a function that sends a response in pieces, one in each turn of the loop."""

    def send(connection: Connection, at: int = 0) -> None:
        if at < len(answer) and not connection.transport.is_closing():
            connection.transport.write(answer[at : at + size])
            asyncio.get_running_loop().call_soon(send, connection, at + size)

    return send


async def test_a_server_that_hangs_resets_or_is_gone_fails_closed() -> None:
    async with auth_server() as server, authorizing(clock) as authorizer:
        server.respond = lambda connection: None
        before = clock()
        assert await result(authorizer, server) == LATE
        assert clock() - before == pytest.approx(2.0, abs=0.05)
        server.respond = lambda connection: connection.transport.write(b"HTTP/1.1 200")
        assert await result(authorizer, server) == LATE
        server.respond = endless_hints
        assert await result(authorizer, server) == _BROKEN
        server.respond = lambda connection: connection.transport.abort()
        assert await result(authorizer, server) == _BROKEN
        await server.close()
        gone = Verdict(0, error="the authorization server is unreachable")
        assert await result(authorizer, server) == gone
        assert await result(authorizer, "http://127.0.0.1:1/") == gone


def endless_hints(connection: Connection) -> None:
    if not connection.transport.is_closing():
        connection.transport.write(b"HTTP/1.1 102 Processing\r\n\r\n")
        asyncio.get_running_loop().call_later(0.1, endless_hints, connection)


async def test_a_huge_body_is_not_read() -> None:
    async with auth_server() as server, authorizing(clock) as authorizer:
        server.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n" + 3_000_000 * b"a"
        assert await result(authorizer, server) == Verdict(200)
        await until(lambda: server.connections[0].closed)
        server.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"  # and never the body
        assert await result(authorizer, server) == Verdict(200)


async def test_a_connection_serves_again_and_no_cookie_is_kept() -> None:
    async with auth_server() as server, authorizing(clock) as authorizer:
        server.answer = b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nContent-Length: 2\r\n\r\nok"
        for count in range(1, 4):
            assert await result(authorizer, server) == Verdict(200)
            await until(lambda: not authorizer.waiting)
            assert len(server.requests) == count
        assert len(server.connections) == 1
        assert server.values(b"cookie") == []


async def test_a_broken_idle_connection_has_a_second_chance() -> None:
    async with auth_server() as server, authorizing(clock) as authorizer:
        assert await result(authorizer, server) == Verdict(200)
        first = server.connections[0]

        def break_the_first(connection: Connection) -> None:
            if connection is first:
                connection.transport.abort()
            else:
                connection.transport.write(ALLOW)

        server.respond = break_the_first
        assert await result(authorizer, server) == Verdict(200)
        assert len(server.requests) == 3


async def test_the_environment_names_no_proxy_and_no_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    async with auth_server() as server, authorizing(clock) as authorizer:
        assert await result(authorizer, server) == Verdict(200)


async def test_a_tls_server_decides_only_with_a_valid_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The authorities are those of SSL_CERT_FILE. No cause names the address of the server."""
    ca, unknown = trustme.CA(), trustme.CA()
    early, past, future, late = (
        datetime(year, 1, 1, tzinfo=UTC) for year in (2000, 2001, 2900, 2901)
    )
    ca.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    rows = [
        (ca.issue_cert("127.0.0.1"), ""),
        (ca.issue_cert("auth.example"), "names another host"),
        (ca.issue_cert("127.0.0.1", not_before=early, not_after=past), "has expired"),
        (ca.issue_cert("127.0.0.1", not_before=future, not_after=late), "is not valid yet"),
        (unknown.issue_cert("127.0.0.1"), "has an unknown authority"),
    ]
    authorizer = Authorizer(clock)
    await authorizer.trusted()  # in virtual time, a thread takes long
    for certificate, problem in rows:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificate.configure_cert(tls)
        async with auth_server(tls) as server:
            verdict = await result(authorizer, server)
        with naming(problem):
            if problem:
                cause = f"the certificate of the authorization server {problem}"
                assert (verdict, server.requests) == (Verdict(0, error=cause), [])
            else:
                assert verdict == Verdict(200)
    async with auth_server() as plain:
        monkeypatch.setattr(
            Connection, "data_received", lambda self, _: self.transport.write(UNAUTHORIZED)
        )
        verdict = await result(authorizer, plain.url.replace("http:", "https:"))
        assert verdict == Verdict(0, error="no TLS handshake with the authorization server")
    await authorizer.close()
