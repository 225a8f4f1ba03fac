"""Errors follow RFC 9457."""

from __future__ import annotations

import json

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request

from activator.admin.problems import on_error, on_http_exception, problem


def request(path="/x"):
    return Request(
        {"type": "http", "method": "GET", "path": path, "headers": [], "query_string": b""}
    )


def test_a_problem_has_the_members_of_the_rfc():
    answer = problem(404, "Nothing.", {"X-A": "b"})
    assert json.loads(bytes(answer.body)) == {
        "type": "about:blank",
        "title": "Not Found",
        "status": 404,
        "detail": "Nothing.",
    }
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["x-a"] == "b"


@pytest.mark.parametrize(
    ("status", "says"), [(404, "nothing at /x"), (405, "GET or HEAD"), (413, "too much")]
)
def test_each_status_says_what_to_do(status, says):
    answer = on_http_exception(request(), HTTPException(status, "too much"))
    assert answer.status_code == status
    assert says in json.loads(bytes(answer.body))["detail"]


def test_headers_of_the_refusal_are_kept():
    answer = on_http_exception(request(), HTTPException(405, headers={"Allow": "GET"}))
    assert answer.headers["allow"] == "GET"


def test_a_bug_says_where_to_look():
    detail = json.loads(bytes(on_error(request(), ValueError("secret")).body))["detail"]
    assert "log" in detail
    assert "secret" not in detail
