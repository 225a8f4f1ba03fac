"""A stand-in for a server of the OpenAI API: one model, which repeats the last message.

Only as much of the API as clients need for a first request.
Source: https://platform.openai.com/docs/api-reference/chat.
"""

from __future__ import annotations

import json
from typing import Any, Final

from activator.lab.http1 import PodRequest
from activator.lab.responses import JSON, PodResponse, as_json

EVENT_STREAM: Final = "text/event-stream"
MODEL: Final = "echo"
#: Seconds between two words of a streamed response.
_PACE: Final = 0.05


def models(request: PodRequest) -> PodResponse:
    """Return the list of models."""
    model = {"id": MODEL, "object": "model", "created": 0, "owned_by": "lab"}
    return as_json({"object": "list", "data": [model]})


def chat(request: PodRequest) -> PodResponse:
    """Return a chat completion, as an event stream if the request wants one."""
    try:
        asked: dict[str, Any] = json.loads(request.body)
        model, words = asked["model"], str(asked["messages"][-1]["content"]).split()
    except (ValueError, LookupError, TypeError):
        return _error(400, "expected a model and messages", "invalid_request_error")
    if model != MODEL:
        return _error(404, f"no model {model!r}; try {MODEL!r}", "model_not_found")
    if asked.get("stream") is True:
        deltas = [{"role": "assistant"}, *({"content": f"{word} "} for word in words)]
        events = (*(_event(_choice(delta=delta)) for delta in deltas), b"data: [DONE]\n\n")
        return PodResponse(content_type=EVENT_STREAM, pieces=events, interval=_PACE)
    message = {"role": "assistant", "content": " ".join(words)}
    return as_json(_choice("chat.completion", message=message, finish_reason="stop"))


def events(lines: tuple[bytes, ...], interval: float) -> PodResponse:
    """Return lines as an event stream, one event each.

    Arguments:
        lines: each with its line feed.
        interval: seconds between two events.
    """
    pieces = tuple(b"data: %b\n" % line for line in lines)
    return PodResponse(content_type=EVENT_STREAM, pieces=pieces, interval=interval)


def _choice(
    kind: str = "chat.completion.chunk", *, finish_reason: str | None = None, **given: object
) -> dict[str, Any]:
    choice = {"index": 0, "finish_reason": finish_reason, **given}
    return {"id": "1", "object": kind, "created": 0, "model": MODEL, "choices": [choice]}


def _event(value: object) -> bytes:
    return b"data: %b\n\n" % json.dumps(value).encode()


def _error(status: int, message: str, code: str) -> PodResponse:
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": code}
    return PodResponse(status, json.dumps({"error": error}).encode(), JSON)
