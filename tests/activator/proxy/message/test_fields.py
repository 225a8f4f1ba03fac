"""Field names: which the proxy reads, which never pass, which clients cannot remove."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from activator.proxy.message.fields import clean_trailers, tokens, without_named
from activator.proxy.message.grammar import REQUEST_LINES, RESPONSE_LINES, KnownLines, MessageHead
from tests.rows import in_one_test, naming

READ = (
    *("Connection", "Content-Length", "Expect", "Host", "HTTP2-Settings", "Keep-Alive", "TE"),
    *("K-Network-Probe", "K-Network-Hash", "K-Kubelet-Probe", "K-Proxy-Request", "Upgrade"),
    *("K-Original-Host", "Knative-Serving-Revision", "Trailer"),
    *("Knative-Serving-Namespace", "Proxy-Connection", "Proxy-Authenticate"),
    *("Proxy-Authorization", "Transfer-Encoding", "X-Forwarded-For"),
)


def split(
    *lines: bytes, start: bytes = b"GET / HTTP/1.1", known: KnownLines = REQUEST_LINES
) -> tuple[bytes, dict[bytes, bytes], bytes]:
    """Return start line, fields and block of a head, and the fields with a place of their own."""
    head = MessageHead(known, b"\r\n".join((start, *lines, b"", b"")))
    fields = dict(head.fields)
    if head.singles:
        fields[b"host" if known is REQUEST_LINES else b"date"] = head.single
    if head.length >= 0:
        fields[b"content-length"] = b"%d" % head.length
    return head.start, fields, head.block


def test_a_head_is_taken_apart():
    start, fields, block = split(b"A: 1", b"Host: h", b"b:2", b"connection:close", b"Z: ")
    assert start == b"GET / HTTP/1.1"
    assert fields == {b"host": b"h", b"connection": b"close"}
    assert block == b"\r\nA: 1\r\nb:2\r\nZ: "


def test_a_head_without_fields():
    assert split() == (b"GET / HTTP/1.1", {}, b"")
    assert split(b"A: 1") == (b"GET / HTTP/1.1", {}, b"\r\nA: 1")
    assert split(b"Host: h") == (b"GET / HTTP/1.1", {b"host": b"h"}, b"")


@pytest.mark.parametrize("spell", [str.lower, str.upper, str.title])
def test_each_own_field_is_found_in_any_spelling(spell):
    for name in READ:
        with naming(name):
            line = f"{spell(name)}: \t17 ".encode()
            _, fields, block = split(b"A: 1", line, b"B: 2")
            assert fields == {name.lower().encode(): b"17" if name == "Content-Length" else b"17 "}
            assert block == b"\r\nA: 1\r\nB: 2"


def test_a_name_that_only_resembles_one_of_ours_is_not_taken():
    ours = {name.lower() for name in READ}
    for name in READ:
        for other in (f"X{name}", f"{name}X", f"{name}-", name[:-1]):
            if other.lower() not in ours:
                line = f"{other}: v".encode()
                assert split(line) == (b"GET / HTTP/1.1", {}, b"\r\n" + line)


def test_equal_names_are_joined_in_order():
    _, fields, block = split(b"TE: a ", b"X: y", b"te: b", b"Te:c")
    assert fields == {b"te": b"a, b, c"}
    assert block == b"\r\nX: y"


def test_a_value_cannot_smuggle_a_field():
    _, fields, block = split(b"X: a Host: evil", b"Y: Host:")
    assert fields == {}
    assert block == b"\r\nX: a Host: evil\r\nY: Host:"


NAMES = st.sampled_from([*READ, "X", "Cookie", "accept", "Content-Type", "Hos", "k-x", "Date"])


@settings(deadline=None)
@given(st.lists(st.tuples(NAMES, st.text("ab ,:;-", max_size=8)), max_size=12))
def test_no_field_is_lost_and_the_others_keep_their_order(pairs):
    lines = [f"{name}: {value.strip()}".encode() for name, value in pairs]
    _, fields, block = split(*lines)
    ours = {name.lower().encode() for name in READ}
    others = [line for line in lines if line.partition(b":")[0].lower() not in ours]
    assert block == b"".join(b"\r\n" + line for line in others)
    for name in {line.partition(b":")[0].lower() for line in lines} & ours:
        values = [
            line.partition(b":")[2].strip()
            for line in lines
            if line.partition(b":")[0].lower() == name
        ]
        given = tokens(fields.pop(name))
        if name == b"host":
            assert given == tokens(values[-1])  # several are refused
        else:
            assert given == tokens(b", ".join(values))
    assert not fields


@in_one_test(
    "name",
    [
        *(b"Connection", b"content-length", b"DATE", b"Keep-Alive", b"Proxy-Connection"),
        *(b"Proxy-Authenticate", b"Trailer", b"transfer-encoding", b"Upgrade"),
    ],
)
def test_the_fields_of_a_response(name):
    lines = (b"A: 1", name + b": 7", b"Host: kept")
    _, fields, block = split(*lines, start=b"HTTP/1.1 200 OK", known=RESPONSE_LINES)
    assert fields == {name.lower(): b"7"}
    assert block == b"\r\nA: 1\r\nHost: kept"


def test_tokens():
    assert tokens(b" Close ,, keep-ALIVE\t,x y") == [b"close", b"keep-alive", b"x y"]
    assert tokens(b"") == []


def test_what_connection_names_is_taken_out_unless_it_is_protected():
    block = b"\r\nA: 1\r\nX-Mine: 2\r\nX-Forwarded-Proto: https\r\nx-mine: 3\r\nForwarded: f"
    assert without_named(block, [b"x-mine", b"x-forwarded-proto", b"forwarded", b"k-x"]) == (
        b"\r\nA: 1\r\nX-Forwarded-Proto: https\r\nForwarded: f"
    )


def test_lookalikes_of_control_fields_are_taken_out():
    lookalikes = (b"K_Proxy_Request: 1", b"X_Forwarded-For: 2", b"Content_Length: 3")
    for _ in range(2):  # as they come first, and once more
        _, fields, block = split(*lookalikes, b"My_Own: 4", b"TE: a_b")
        assert (fields, block) == ({b"te": b"a_b"}, b"\r\nMy_Own: 4")
    # No field of a response counts as one of a client or an ingress.
    _, fields, block = split(b"Content_Length: 3", start=b"HTTP/1.1 200 OK", known=RESPONSE_LINES)
    assert (fields, block) == ({}, b"\r\nContent_Length: 3")


@in_one_test(
    "name",
    [
        *(b"Content-Length", b"transfer-encoding", b"Host", b"K-Proxy-Request", b"Trailer"),
        *(b"Knative-Serving-Revision", b"X-Forwarded-Host", b"Authorization", b"Set-Cookie"),
        *(b"Connection", b"TE", b"Upgrade", b"Content-Type", b"Expect", b"Range", b"Forwarded"),
    ],
)
def test_what_has_no_place_in_trailers(name):
    assert clean_trailers(b"A: 1\r\n" + name + b": x\r\nGrpc-Status: 0\r\n") == (
        b"A: 1\r\nGrpc-Status: 0\r\n"
    )


def test_no_trailers():
    assert clean_trailers(b"") == b""
