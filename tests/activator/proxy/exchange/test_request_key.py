"""The part of a request by which a policy picks a pod; all of it comes from clients."""

from __future__ import annotations

import ipaddress
from typing import Any, cast

import pytest

from activator.proxy.exchange.placement import ClientAddresses, cookie_line, key_of, token_in
from activator.proxy.message.request import Request, RequestLimits, read_request
from throttler.lb_policy import FirstAvailable
from throttler.model import HashKey, KeyKind, Overflow
from throttler.sticky import Sticky

TOKEN, OTHER = b"0123456789abcdef01234567", b"f" * 24
CLIENT_IP = HashKey(kind=KeyKind.CLIENT_IP)
PROXIES = ClientAddresses([ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("fd00::/8")])


STICKY = Sticky(FirstAvailable(), Overflow.OTHER)
STICKY.tokens[TOKEN] = cast(Any, None)  # TOKEN names a usable pod, and OTHER none


def asking(fields: bytes = b"", target: bytes = b"/") -> Request:
    head = b"GET %b HTTP/1.1\r\nHost: example.com\r\n%b\r\n" % (target, fields)
    return read_request(head, RequestLimits())


def key(
    kind: HashKey, fields: bytes = b"", target: bytes = b"/", peer: bytes = b"10.1.2.3"
) -> bytes:
    return key_of(asking(fields, target), kind, STICKY, peer, PROXIES)


def test_a_field_is_the_key_or_the_digest_of_a_long_one() -> None:
    field = HashKey(b"x-user")
    assert key(field, b"X-User: anna\r\n") == b"anna"
    assert key(field) == b""
    assert key(field, b"X-User: anna\r\nX-User: bert\r\n") == b"anna, bert"
    keys = {key(field, b"X-User: " + b"a" * size + b"\r\n") for size in (64, 65, 66, 60_000)}
    assert sorted(map(len, keys)) == [32, 32, 32, 64]


def test_the_path_is_the_target_without_its_query() -> None:
    path = HashKey(kind=KeyKind.PATH)
    assert key(path, target=b"/a/b?c=d?e") == key(path, target=b"/a/b") == b"/a/b"
    assert len(key(path, target=b"/" + b"a" * 5000)) == 32


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        (b"192.0.2.1", b"198.51.100.7", b"192.0.2.1"),  # the peer is no trusted proxy
        (b"10.1.2.3", b"", b"10.1.2.3"),
        (b"10.1.2.3", b"198.51.100.7", b"198.51.100.7"),
        (b"10.1.2.3", b"203.0.113.9, 198.51.100.7", b"198.51.100.7"),
        (b"10.1.2.3", b"203.0.113.9,198.51.100.7:4711", b"198.51.100.7"),
        (b"10.1.2.3", b"[2001:DB8::1]:4711", b"2001:db8::1"),
        (b"10.1.2.3", b"2001:db8:0::1", b"2001:db8::1"),
        (b"fd00::1", b"198.51.100.7", b"198.51.100.7"),
        (b"::ffff:10.1.2.3", b"198.51.100.7", b"198.51.100.7"),  # a socket for both versions
        (b"::ffff:192.0.2.1", b"198.51.100.7", b"192.0.2.1"),
        (b"10.1.2.3", b"198.51.100.7, unknown", b"10.1.2.3"),
        (b"10.1.2.3", b"198.51.100.7,", b"10.1.2.3"),
        (b"10.1.2.3", b"9" * 5000, b"10.1.2.3"),
        (b"10.1.2.3", b"\xff\xfe", b"10.1.2.3"),
    ],
)
def test_the_client_is_the_peer_or_the_last_address_from_a_trusted_proxy(
    peer: bytes, forwarded: bytes, client: bytes
) -> None:
    fields = b"X-Forwarded-For: %b\r\n" % forwarded if forwarded else b""
    assert key(CLIENT_IP, fields, peer=peer) == client


def test_repeated_fields_of_a_trusted_proxy_count_in_their_order() -> None:
    fields = b"X-Forwarded-For: 203.0.113.9\r\nX-Forwarded-For: 198.51.100.7\r\n"
    assert key(CLIENT_IP, fields) == b"198.51.100.7"
    nobody = ClientAddresses()
    assert key_of(asking(fields), CLIENT_IP, None, b"10.1.2.3", nobody) == b"10.1.2.3"


def test_addresses_that_clients_invent_take_little_memory() -> None:
    for number in range(10_000):
        key(CLIENT_IP, b"X-Forwarded-For: x%d\r\n" % number)
    assert len(PROXIES._memo) <= 4096
    assert key(CLIENT_IP, b"X-Forwarded-For: 198.51.100.7\r\n") == b"198.51.100.7"


@pytest.mark.parametrize(
    ("cookies", "token"),
    [
        (b"activator-pod=" + TOKEN, TOKEN),
        (b"a=b; activator-pod=" + TOKEN + b"; c=d", TOKEN),
        (b"a=b;activator-pod=" + TOKEN + b" ;c=d", TOKEN),
        (b"activator-pod=" + TOKEN + b"; activator-pod=" + OTHER, TOKEN),
        (b"activator-pod=; activator-pod=" + OTHER, OTHER),
        (b"a=b, activator-pod=" + TOKEN, TOKEN),  # repeated fields, joined
        (b"", b""),
        (b"activator-pod=10.0.0.1:8012", b""),
        (b"activator-pod=" + TOKEN.upper(), b""),
        (b"activator-pod=" + TOKEN + b"0", b""),
        (b"activator-pod=" + TOKEN[1:], b""),
        (b'activator-pod="' + TOKEN + b'"', b""),
        (b"my-activator-pod=" + TOKEN, b""),
        (b"activator-pods=" + TOKEN, b""),
        (b"a=activator-pod=" + TOKEN, b""),
        (b"activator-pod=" * 20_000, b""),
        (b"; " * 30_000 + b"activator-pod=" + TOKEN, TOKEN),
    ],
)
def test_only_a_well_formed_token_is_a_key(cookies: bytes, token: bytes) -> None:
    assert token_in(cookies) == token
    assert key(HashKey(kind=KeyKind.COOKIE), b"Cookie: %b\r\n" % cookies) == token


def test_the_cookie_of_a_request_is_read_in_any_spelling() -> None:
    cookie = HashKey(kind=KeyKind.COOKIE)
    assert key(cookie, b"cOOkie: activator-pod=%b\r\n" % TOKEN) == TOKEN
    assert key(cookie, b"Cookie: a=b\r\nCookie: activator-pod=%b\r\n" % TOKEN) == TOKEN
    assert key(cookie) == b""


def test_a_token_in_another_field_is_no_cookie() -> None:
    cookie, other = HashKey(kind=KeyKind.COOKIE), b"X-Debug: activator-pod=%b\r\n" % TOKEN
    assert key(cookie, other) == b""
    assert key(cookie, other + b"Cookie: activator-pod=%b\r\n" % OTHER) == OTHER
    assert key(cookie, b"Cookie: a=b\r\n" + other) == b""
    assert key(cookie, b"Cookie: activator-pod=%b\r\n" % TOKEN + other) == TOKEN


def test_the_cookie_is_for_the_whole_site_and_not_for_scripts() -> None:
    line = b"\r\nSet-Cookie: activator-pod=%b; Path=/; HttpOnly; SameSite=Lax" % TOKEN
    assert cookie_line(TOKEN, secure=False) == line
    assert cookie_line(TOKEN, secure=True) == line + b"; Secure"
