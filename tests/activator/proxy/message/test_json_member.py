"""A member of a JSON object in a body that may be cut anywhere."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activator.proxy.exchange.heartbeat import MOST_BYTES, MOST_TOKENS, is_true
from tests.rows import in_one_test

JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text() | st.just("stream"),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.just("stream"), inner),
    max_leaves=8,
)


@in_one_test(
    ("body", "found"),
    [
        (b'{"stream":true}', True),
        (b' \r\n\t{ "a" : [1, {"b": "}"}] , "stream" : true }', True),
        (b'{"stream":true}{"stream":false} trailing', True),
        (b"\xef\xbb\xbf" + b'{"stream":true}', True),
        (b'{"a":"\xff\xfe\x00","stream":true}', True),
        (b'{"str\\u0065am":true}', True),
        (b'{"stream":false,"stream":true}', True),
        (b'{"stream":{"a":1},"stream":true}', True),
        (b'{"stream":true,"messages":[{"content":"cut', True),
        (b'{"stream":true', True),
        (b'{"stream":true,"stream":false}', False),
        (b'{"stream":true,"stream":[true]}', False),
        (b'{"stream":tru', False),
        (b'{"stream":True}', False),
        (b'{"stream":"true"}', False),
        (b'{"stream":1}', False),
        (b'{"Stream":true}', False),
        (b'{"options":{"stream":true}}', False),
        (b'{"a":"\\"stream\\":true"}', False),
        (b'{"a":"\\\\","b":"stream","c":true}', False),
        (b'{"a":"stream": true}', False),
        (b'{"a":["stream",true]}', False),
        (b'[{"stream":true}]', False),
        (b'"stream":true', False),
        (b'"{\\"stream\\":true}"', False),
        (b'x{"stream":true}', False),
        (b'{"a":"b', False),
        (b"stream=true", False),
        (b"", False),
        (b'{"' + b"s" * 200 + b'":true}', False),
    ],
)
def test_only_a_member_of_the_outermost_object_counts(body, found):
    assert is_true(body, "stream") is found


def test_no_more_than_the_beginning_is_read():
    inside = b'{"a":"%b","stream":true}'
    assert is_true(inside % (b"x" * (MOST_BYTES - 100)), "stream")
    assert not is_true(inside % (b"x" * MOST_BYTES), "stream")


@pytest.mark.parametrize("part", [b"[", b"{", b'{"a":', b"1,", b'"a",', b"]", b"}"])
def test_the_number_of_tokens_is_limited(part):
    body = b'{"a":[' + part * (MOST_TOKENS + 1) + b'],"stream":true}'
    assert not is_true(body, "stream")


@given(st.dictionaries(st.text() | st.just("stream"), JSON), st.booleans(), st.integers(0, 300))
def test_a_body_means_the_same_as_to_a_parser(members, plain, cut):
    body = json.dumps(members, ensure_ascii=plain).encode("utf-8", "surrogatepass")
    assert is_true(body, "stream") is (members.get("stream") is True)
    is_true(body[:cut], "stream")


@given(st.binary())
def test_other_bytes_raise_nothing(body):
    assert is_true(b'{"a":' + body, "stream") in (True, False)
