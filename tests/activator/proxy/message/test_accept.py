"""Whether a client prefers JSON to text."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activator.proxy.message.error_forms import prefers_json


def asks(*values: bytes) -> bool:
    block = b"\r\nUser-Agent: application/json" + b"".join(b"\r\nAccept: " + v for v in values)
    return prefers_json(block + b"\r\nX-Accept: application/json")


@pytest.mark.parametrize(
    "value",
    [
        b"application/json",
        b"application/problem+json",
        b"APPLICATION/JSON; charset=utf-8",
        b"application/json, text/plain, */*",  # axios
        b"application/json;q=0.001",
        b"text/html, application/json;q=0.9",
        b"text/plain;q=0.5, application/json;q=0.5",
        b"*/*;q=0.8,application/json",
        b"text/*;q=0.3, */*;q=0.2, application/json ; q = 0.4",
        b'text/html;level="1,2;q=0", application/json',
        b",, ,application/json",
        b"text/plain;q=2, application/json",  # an invalid quality counts as absent
        b"application/json;q=0, application/problem+json",
    ],
)
def test_json_is_named_and_liked_no_less_than_text(value):
    assert asks(value)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"*/*",
        b"application/*",
        b"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",  # a browser
        b"application/jsonp",
        b"application/json;q=0",
        b"application/json;q=0.000, */*",
        b"application/json;q=0.5, text/plain",
        b"application/json;q=0.5, */*",
        b"application/problem+json;q=0, application/json",
        b"application/json;q=1.1",
        b"application/json;q=0.0001",
        b"application/json;q=",
        b"application/json;q=nan",
        b'"application/json"',
        b"application/grpc",
    ],
)
def test_all_other_clients_get_text(value):
    assert not asks(value)


def test_who_says_nothing_gets_text():
    assert not prefers_json(b"")
    assert not prefers_json(b"\r\nHost: x")


def test_several_fields_are_one_list():
    assert asks(b"text/html", b"application/json")
    assert not asks(b"application/json;q=0.1", b"text/plain")


@given(st.binary(max_size=200))
def test_nothing_that_a_client_sends_is_too_much_for_it(junk):
    assert prefers_json(b"\r\nAccept: " + junk) in (True, False)


def test_a_field_of_a_megabyte_costs_no_more_than_its_beginning():
    begun = time.process_time()
    assert not prefers_json(b"\r\nAccept: " + b'"\\",' * 250_000 + b"application/json")
    assert time.process_time() - begun < 0.2
