"""Errors in the form of the OpenAI API, and which clients get them."""

from __future__ import annotations

import json

import pytest

from activator.proxy.message import own_responses
from activator.proxy.message.error_forms import as_error, error_in, wants_json
from activator.proxy.message.fields import HTTP_1_1
from activator.proxy.message.request import Request
from throttler.model import RevisionKind
from throttler.reason import Reason

JSON = b"\r\nContent-Type: application/json"


@pytest.mark.parametrize(
    ("lines", "wants"),
    [
        (b"\r\nAccept: application/json", True),
        (b"\r\nAccept: */*" + JSON, True),
        (JSON, True),
        (b"\r\nAccept: text/event-stream" + JSON, True),
        (b"\r\nContent-Type: application/vnd.api+json; charset=utf-8", True),
        (b"\r\nAccept: text/plain" + JSON, False),
        (b"\r\nAccept: text/html, */*" + JSON, False),
        (b"\r\nAccept: */*", False),
        (b"", False),
        (b"\r\nContent-Type: text/plain", False),
    ],
)
def test_clients_of_json(lines, wants):
    request = Request(b"POST", b"/", HTTP_1_1, b"a", {}, lines, has_body=True)
    assert wants_json(request) is wants


def test_an_error_names_reason_and_detail():
    late = own_responses.timed_out(Reason.NO_ENDPOINTS, "wait-seconds 5", 7)
    response = as_error(late, b"\r\nA: b", RevisionKind.SERVICE)
    assert json.loads(response.body) == {
        "error": {
            "message": "Kubernetes lists no pod of this Service. (wait-seconds 5)",
            "type": "server_error",
            "code": "no-endpoints",
        }
    }
    assert response.fields == JSON + b"\r\nVary: Accept\r\nA: b"
    assert (response.status, response.retry_after) == (504, 7)
    refused = as_error(own_responses.refused(431, "too large"), b"", RevisionKind.REVISION)
    assert json.loads(refused.body)["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b'{"error":{"message":"no\\nmodel"}}', ("no\nmodel", "invalid_request_error", "word")),
        (b'{"error":{"message":"m","type":"t","code":"c"},"x":1}', ("m", "t", "c")),
        (
            b'{"error":{"message":"m","type":null,"code":404}}',
            ("m", "invalid_request_error", "word"),
        ),
    ],
)
def test_the_error_of_a_pod_passes_in_one_line(body, error):
    found = error_in(body, 404, "word")
    assert b"\n" not in found
    assert tuple(json.loads(found)["error"].values()) == error


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"no", b"[]", b"{}", b'{"error":"text"}', b'{"error":{"message":1}}'),
        *(b"[" * 100_000, b'{"error":{"message":"cut', b"\xff\xfe"),
    ],
)
def test_other_bodies_have_no_error(body):
    assert error_in(body, 404, "word") == b""
