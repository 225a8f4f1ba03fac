"""Requests to an admin listener, to other servers, and to a closed port."""

from __future__ import annotations

import socket

import httpx
import pytest
import respx

from activator.console import client
from activator.console.client import Admin, NoResponse, NotKnown
from activator.console.responses import UnexpectedResponse

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
        "--admin-url",
    ):
        assert hint in str(caught.value)
