"""Requests to an admin port, and the fields of its responses."""

from __future__ import annotations

import json
import socket

import httpx
import pytest
import respx

from activator.console import client
from activator.console.client import (
    Admin,
    Json,
    NoResponse,
    NotKnown,
    UnexpectedResponse,
    parse,
    printable,
)
from tests.rows import in_one_test

URL = "http://127.0.0.1:8080"
ANSWER = '{"revisions": []}'


def get(url: str = URL, path: str = client.REVISIONS) -> str:
    with Admin(url) as admin:
        return admin.get(path)


@respx.mock
@pytest.mark.parametrize("url", [URL, URL + "/"])
def test_it_asks_the_admin_api(url):
    respx.get(URL + "/api/v1/revisions").respond(text=ANSWER)
    assert get(url) == ANSWER


@respx.mock
@pytest.mark.parametrize(
    ("error", "raised", "says"),
    [
        (httpx.ConnectError("refused"), NoResponse, "refused"),
        (httpx.ReadError(""), NoResponse, "ReadError"),
        (httpx.ReadTimeout(""), NoResponse, "no response within 5 s"),
        (httpx.RemoteProtocolError("bad"), UnexpectedResponse, "does not speak HTTP/1.1: bad"),
        (
            httpx.RemoteProtocolError("Server disconnected without sending a response."),
            NoResponse,
            "as `kubectl port-forward` does when its pod is gone.\n",
        ),
    ],
)
def test_failures_say_what_was_tried(error, raised, says):
    respx.get(URL + "/api/v1/revisions").mock(side_effect=error)
    with pytest.raises(raised, match=says) as caught:
        get()
    assert URL + "/api/v1/revisions" in str(caught.value)


@respx.mock
def test_another_status_or_bytes_that_are_no_text_are_unexpected():
    route = respx.get(URL + "/api/v1/revisions").respond(404)
    with pytest.raises(UnexpectedResponse, match="the status was 404"):
        get()
    route.respond(421)
    with pytest.raises(UnexpectedResponse, match="ACTIVATOR_ADMIN_HOSTS"):
        get()
    route.respond(content=b"\xff")
    with pytest.raises(UnexpectedResponse, match="not UTF-8"):
        get()


@respx.mock
def test_an_activator_that_does_not_know_it_is_distinguished():
    problem = {"Content-Type": "application/problem+json"}
    respx.get(URL + "/api/v1/revisions/a/b").respond(404, headers=problem)
    with pytest.raises(NotKnown):
        get(path="/api/v1/revisions/a/b")


@respx.mock
def test_an_endless_response_is_an_error(monkeypatch):
    monkeypatch.setattr(client, "MAX_RESPONSE", 1000)
    respx.get(URL + "/api/v1/revisions").respond(content=b"x" * 1001)
    with pytest.raises(UnexpectedResponse, match="exceeds 1000 bytes"):
        get()


@respx.mock
def test_a_response_that_drips_is_an_error(monkeypatch):
    monkeypatch.setattr(client, "TOTAL_TIMEOUT", -1.0)
    respx.get(URL + "/api/v1/revisions").respond(content=b"x")
    with pytest.raises(NoResponse, match="had no end"):
        get()


def test_without_an_activator_the_error_says_how_to_start_or_reach_one(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "no-proxy-at-all://x")  # would raise on any access
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound but not listening: connections are refused
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(NoResponse) as caught:
            get(url)
    assert "Errno" not in str(caught.value)
    for hint in (
        url,
        "refused",
        "activator demo",
        "kubectl port-forward",
        "-n activator-system",
        "deployment/keda-add-ons-http-interceptor 9090",
        "--admin-url",
    ):
        assert hint in str(caught.value)


def test_fields_of_each_kind():
    node = parse('{"t": "a", "w": 3, "n": 1.5, "f": true, "o": {"t": "b"}, "l": [{"w": 1}]}')
    inner = node.node("o")
    assert inner is not None
    assert (node.text("t"), node.whole("w"), node.number("n")) == ("a", 3, 1.5)
    assert node.number("w") == 3.0
    assert (node.flag("f"), node.flag("t"), node.flag("x")) == (True, False, False)
    assert inner.text("t") == "b"
    assert [one.whole("w") for one in node.nodes("l")] == [1]
    assert list(inner.items()) == [("t", "b")]
    nested = parse('{"a\\u0007": {"w": 1}, "b": null}')
    assert [(name, one.whole("w")) for name, one in nested.children()] == [("a?", 1)]
    assert list(parse('{"a": 1, "b": null}').numbers()) == [("a", 1.0)]


def test_what_is_absent_or_null():
    node = Json({"null": None}, "")
    for name in ("null", "absent"):
        assert name not in node
        assert node.text(name, default="-") == "-"
        assert node.node(name) is None
        assert node.nodes(name, required=False) == []


@in_one_test(
    ("text", "read", "says"),
    [
        ("<html>", None, "Expecting value"),
        ("[]", None, "the response: expected an object, got []"),
        ("[" * 100_000, None, "recursion"),
        ("{}", lambda node: node.nodes("l"), "l is missing"),
        ('{"l": {}}', lambda node: node.nodes("l"), "l: expected an array, got {}"),
        ('{"l": [1]}', lambda node: node.nodes("l"), "l[0]: expected an object, got 1"),
        ('{"l": [{}]}', lambda node: node.nodes("l")[0].whole("w"), "l[0].w is missing"),
        ('{"w": true}', lambda node: node.whole("w"), "w: expected a whole number, got True"),
        ('{"w": null}', lambda node: node.whole("w"), "w: expected a whole number, got None"),
        ('{"n": "1"}', lambda node: node.number("n"), "whole number or a number, got '1'"),
        (json.dumps({"t": ["x" * 999]}), lambda node: node.text("t"), "xxx"),
    ],
)
def test_the_field_that_is_wrong_is_named(text, read, says):
    with pytest.raises(ValueError, match=r".") as caught:
        read(parse(text))
    assert says in str(caught.value)
    assert len(str(caught.value)) < 150


def test_what_a_server_sends_cannot_steer_the_terminal():
    assert printable("a\x1b[2J\nb") == "a?[2J?b"
    assert parse('{"t": "\\u001b"}').text("t") == "?"
