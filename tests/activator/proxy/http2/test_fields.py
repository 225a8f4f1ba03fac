"""The parts of messages: RFC 9113 section 8, and fields that the proxy never passes."""

from __future__ import annotations

import hpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from activator.proxy.http2.fields import REQUEST_LINES, read_request, read_response, read_trailers
from activator.proxy.http2.never_indexed import NeverIndexed
from activator.proxy.message.fields import REQUEST_FIELDS
from activator.proxy.message.grammar import FramingError
from tests.rows import in_one_test

GET = [
    (b":method", b"GET"),
    (b":scheme", b"http"),
    (b":path", b"/a?b"),
    (b":authority", b"h.ns:80"),
]
OK = [(b":status", b"200")]


def whole(block):
    return hpack.Decoder(max_header_list_size=1 << 24).decode(block, raw=True)


def passed(block):
    """Return the fields that pass, without the leading ones that the proxy adds."""
    decoded = whole(block)
    pseudo = [name for name, _ in decoded if name[:1] == b":"]
    assert sorted(pseudo) in ([], [b":method", b":path"], [b":status"])
    assert not any(name[:1] == b":" for name, _ in decoded[len(pseudo) :])
    return decoded[len(pseudo) :]


def without(name):
    return [field for field in GET if field[0] != name]


def replaced(name, value):
    return [(each, value if each == name else before) for each, before in GET]


def refused(read, *arguments):
    with pytest.raises(FramingError) as caught:
        read(*arguments)
    return caught.value


# Requests.


def test_a_request_is_taken_apart():
    others = [(b"accept", b"*/*"), (b"x-a", b"1"), (b"x-a", b"2"), (b"te", b"trailers")]
    request = read_request([*GET, *others, (b"content-length", b"12")])
    assert (request.method, request.path, request.authority) == (b"GET", b"/a?b", b"h.ns:80")
    assert request.length == 12
    assert request.fields[b"x-a"] == b"1, 2"
    assert request.fields[b":scheme"] == b"http"
    assert passed(request.block) == [*others, (b"content-length", b"12")]


def test_a_request_without_anything_else():
    request = read_request(GET)
    assert request.length == -1
    assert whole(request.block) == [(b":method", b"GET"), (b":path", b"/a?b")]


@settings(deadline=None, max_examples=50)
@given(st.permutations(GET), st.integers(0, 4), st.booleans())
def test_pseudo_fields_stand_in_front_in_any_order(pseudo, place, repeated):
    rest = [(b"x-a", b"1")] * (2 if repeated else 1)
    misplaced = [*pseudo[:place], *rest, *pseudo[place:]]
    if place == 4:
        assert read_request(misplaced).path == b"/a?b"
    else:
        assert refused(read_request, misplaced).status == 400


@pytest.mark.parametrize("name", [b":method", b":scheme", b":path", b":authority"])
def test_each_pseudo_field_is_there_once(name):
    refused(read_request, without(name))
    refused(read_request, [*GET, (name, dict(GET)[name])])
    refused(read_request, [*GET, (b"a", b"b"), (name, b"other")])


@pytest.mark.parametrize("name", [b":status", b":protocol", b":x", b":"])
def test_other_pseudo_fields_are_refused(name):
    refused(read_request, [*GET, (name, b"200")])
    refused(read_request, [(name, b"200"), *GET])


@in_one_test(
    ("name", "value"),
    [
        (b":method", b""),
        (b":method", b"GET /"),
        (b":method", b"GET\r\nX: y"),
        (b":method", b"G" * 65),
        (b":scheme", b""),
        (b":scheme", b"ftp"),
        (b":scheme", b"http\r\n"),
        (b":path", b""),
        (b":path", b"*"),
        (b":path", b"a"),
        (b":path", b"http://other/"),
        (b":path", b"/a b"),
        (b":path", b"/a\r\nX: y"),
        (b":path", b"/a\x00"),
        (b":path", b"/a#b"),
        (b":path", b"/\xe9"),
        (b":authority", b""),
        (b":authority", b"user@h"),
        (b":authority", b"a,b"),
        (b":authority", b"a b"),
        (b":authority", b"a\r\nX: y"),
        (b":authority", b"a/b"),
    ],
)
def test_a_malformed_pseudo_field(name, value):
    for _ in range(2):
        assert refused(read_request, replaced(name, value)).status == 400


def test_methods_of_all_kinds():
    assert read_request(replaced(b":method", b"PURGE")).method == b"PURGE"
    whole_server = replaced(b":path", b"*")
    whole_server[0] = (b":method", b"OPTIONS")
    assert read_request(whole_server).path == b"*"
    assert refused(read_request, [(b":method", b"CONNECT"), (b":authority", b"a:1")]).status == 405


def test_host_stands_in_for_authority_and_must_not_differ():
    assert read_request([*without(b":authority"), (b"host", b"other")]).authority == b"other"
    same = read_request([*GET, (b"host", b"H.ns:80")])
    assert same.authority == b"h.ns:80"
    assert passed(same.block) == []  # one host goes on, which others write
    refused(read_request, [*GET, (b"host", b"other")])
    refused(read_request, [*GET, (b"host", b"h.ns:80"), (b"host", b"h.ns:80")])
    refused(read_request, [*without(b":authority"), (b"host", b"a b")])


@pytest.mark.parametrize(
    "field",
    [
        (b"connection", b"close"),
        (b"connection", b""),
        (b"keep-alive", b"1"),
        (b"proxy-connection", b"keep-alive"),
        (b"transfer-encoding", b"chunked"),
        (b"transfer-encoding", b"identity"),
        (b"upgrade", b"h2c"),
    ],
)
def test_what_is_of_a_connection_is_malformed_everywhere(field):
    for _ in range(2):
        refused(read_request, [*GET, field])
        refused(read_response, [*OK, field])
        refused(read_trailers, [field])


@pytest.mark.parametrize(
    ("value", "fits"),
    [
        (b"trailers", True),
        (b"Trailers", True),
        (b"gzip", False),
        (b"trailers, gzip", False),
        (b"", False),
    ],
)
def test_te_says_trailers_or_nothing(value, fits):
    if fits:
        assert passed(read_request([*GET, (b"te", value)]).block) == [(b"te", b"trailers")]
    else:
        refused(read_request, [*GET, (b"te", value)])


@in_one_test("value", [b"", b"-1", b"+1", b"1_0", b"1, 1", b"0x1", b"1.0", b"9" * 20, "١".encode()])
def test_a_malformed_content_length(value):
    refused(read_request, [*GET, (b"content-length", value)])
    refused(read_response, [*OK, (b"content-length", value)])


def test_two_content_lengths_even_if_they_agree():
    twice = [(b"content-length", b"5"), (b"content-length", b"5")]
    refused(read_request, [*GET, *twice])
    refused(read_response, [*OK, *twice])


def test_a_crumb_in_front_of_pseudo_fields_is_not_joined_away():
    refused(read_request, [(b"cookie", b"a=1"), *GET, (b"cookie", b"b=2")])


def test_crumbs_become_one_cookie():
    """RFC 9113 section 8.2.3: the next server may speak HTTP/1."""
    request = read_request([*GET, (b"cookie", b"a=1"), (b"x", b"y"), (b"cookie", b"b=2; c=3")])
    assert passed(request.block) == [(b"x", b"y"), (b"cookie", b"a=1; b=2; c=3")]
    assert request.fields[b"cookie"] == b"a=1; b=2; c=3"


@in_one_test(
    "name",
    [
        *(b"k-network-probe", b"k-network-hash", b"k-kubelet-probe", b"k-proxy-request"),
        *(b"k-original-host", b"knative-serving-revision", b"knative-serving-namespace"),
        *(b"x-forwarded-for", b"expect", b"http2-settings", b"proxy-authorization"),
    ],
)
def test_what_is_read_does_not_pass(name):
    request = read_request([*GET, (name, b"v")])
    assert request.fields[name] == b"v"
    assert passed(request.block) == []


def test_nothing_that_http1_reads_passes_unless_it_is_meant_to():
    """HTTP/1 and HTTP/2 share one list; HTTP/2 passes three of its fields, which are not
    hop-by-hop.
    """
    for name in (b"te", b"trailer", b"content-length", b"host"):
        assert name in REQUEST_FIELDS
    block = read_request(
        [
            *GET,
            (b"te", b"trailers"),
            (b"trailer", b"grpc-status, host"),
            (b"content-length", b"1"),
            (b"host", b"h.ns:80"),
        ]
    ).block
    assert passed(block) == [
        (b"te", b"trailers"),
        (b"trailer", b"grpc-status"),
        (b"content-length", b"1"),
    ]


@pytest.mark.parametrize(
    "name",
    [b"x_forwarded_for", b"k_network_probe", b"knative_serving_revision", b"transfer_encoding"],
)
def test_lookalikes_do_not_pass(name):
    assert passed(read_request([*GET, (name, b"v"), (b"x_y", b"v")]).block) == [(b"x_y", b"v")]


@pytest.mark.parametrize("name", [b"authorization", b"cookie"])
def test_secrets_are_not_indexed_by_others_and_not_remembered(name):
    request = read_request([*GET, (name, b"secret")])
    assert isinstance(passed(request.block)[0], hpack.NeverIndexedHeaderTuple)
    assert (name, b"secret") not in REQUEST_LINES.known


def test_what_the_client_wants_unindexed_stays_so():
    request = read_request([*GET, NeverIndexed((b"x-token", b"secret"))])
    assert isinstance(passed(request.block)[0], hpack.NeverIndexedHeaderTuple)
    assert (b"x-token", b"secret") not in REQUEST_LINES.known


def test_it_stays_so_beside_cookies_that_are_joined():
    token = NeverIndexed((b"x-token", b"secret"))
    request = read_request([*GET, (b"cookie", b"a=1"), token, (b"cookie", b"b=2")])
    marked = [each for each in passed(request.block) if each[0] == b"x-token"]
    assert isinstance(marked[0], hpack.NeverIndexedHeaderTuple)


# Responses and trailers.


def test_a_response_is_parsed():
    others = [
        (b"content-type", b"a/b"),
        (b"date", b"now"),
        (b"set-cookie", b"a"),
        (b"set-cookie", b"b"),
    ]
    answer = read_response([*OK, *others, (b"content-length", b"0")])
    assert (answer.status, answer.length) == (200, 0)
    assert answer.fields[b"content-type"] == b"a/b"
    assert whole(answer.block) == [*OK, *others, (b"content-length", b"0")]
    assert read_response([(b":status", b"103")]).status == 103


@in_one_test(
    "answer",
    [
        [],
        [(b"a", b"b")],
        [(b"a", b"b"), *OK],
        [*OK, *OK],
        [*OK, (b":path", b"/")],
        [(b":status", b"")],
        [(b":status", b"20")],
        [(b":status", b"099")],
        [(b":status", b"2000")],
        [(b":status", b"+20")],
        [(b":status", b"101")],
        [*OK, (b"A", b"b")],
        [*OK, (b"a", b"b\r\n")],
    ],
)
def test_a_malformed_response(answer):
    for _ in range(2):
        refused(read_response, answer)


def test_trailers_pass_but_for_what_has_no_place_there():
    sent = [
        (b"grpc-status", b"0"),
        (b"grpc-message", b""),
        (b"content-length", b"1"),
        (b"k-a", b"1"),
        (b"grpc-bin-bin", b"AA"),
    ]
    assert passed(read_trailers(sent)) == [sent[0], sent[1], sent[4]]
    assert read_trailers([]) == b""
    refused(read_trailers, [(b":status", b"200")])
    refused(read_trailers, [(b"A", b"b")])


@settings(deadline=None, max_examples=120)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([b":method", b":path", b":status", b"cookie", b"host", b"te", b"x"])
            | st.binary(max_size=6),
            st.sampled_from([b"GET", b"/", b"200", b"trailers", b"h"]) | st.binary(max_size=6),
        ),
        max_size=8,
    ),
    st.booleans(),
)
def test_nothing_but_a_framing_error_comes_of_anything(sent, well_begun):
    for read, begun in ((read_request, GET), (read_response, OK), (read_trailers, [])):
        try:
            result = read([*begun, *sent] if well_begun else sent)
        except FramingError:
            continue
        block = result if isinstance(result, bytes) else result.block
        for name, value in passed(block):
            assert name
            assert name == name.lower()
            assert not set(value) & set(b"\r\n\x00")
