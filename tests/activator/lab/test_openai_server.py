"""The stand-in for a server of the OpenAI API."""

from __future__ import annotations

import json
from typing import Any

import pytest

from activator.lab.application import Application
from activator.lab.http1 import PodRequest, PodResponse
from activator.lab.switchboard import PodCounters, Switches


def ask(target: str, body: object = None) -> PodResponse:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Application("pod-1", Switches(), PodCounters()).respond(
        PodRequest("POST", target, "HTTP/1.1", (), data)
    )


def chat(**more: Any) -> PodResponse:
    messages = [{"role": "user", "content": "one two"}]
    return ask("/v1/chat/completions", {"model": "echo", "messages": messages, **more})


def test_its_only_model_is_in_the_list() -> None:
    assert [each["id"] for each in json.loads(ask("/v1/models").body)["data"]] == ["echo"]


def test_a_completion_repeats_the_last_message() -> None:
    (choice,) = json.loads(chat().body)["choices"]
    assert choice["message"] == {"role": "assistant", "content": "one two"}


def test_a_stream_has_a_word_in_each_event() -> None:
    response = chat(stream=True)
    assert response.content_type == "text/event-stream"
    assert response.pieces[-1] == b"data: [DONE]\n\n"
    chunks = [json.loads(piece.removeprefix(b"data: ")) for piece in response.pieces[:-1]]
    words = [each["choices"][0]["delta"].get("content", "") for each in chunks]
    assert words == ["", "one ", "two "]


@pytest.mark.parametrize(
    "body", [b"no", [], {}, {"model": "echo"}, {"model": "echo", "messages": []}]
)
def test_a_malformed_request_is_refused(body: object) -> None:
    assert ask("/v1/chat/completions", body).status == 400


def test_an_unknown_model_is_an_error_in_the_form_of_openai() -> None:
    response = chat(model="other")
    assert response.status == 404
    assert json.loads(response.body)["error"]["code"] == "model_not_found"


def test_events_are_lines() -> None:
    response = ask("/events?n=2&ms=20")
    assert response.pieces == (b"data: pod-1 line 1\n\n", b"data: pod-1 line 2\n\n")
    assert (response.content_type, response.interval) == ("text/event-stream", 0.02)
