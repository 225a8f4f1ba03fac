from __future__ import annotations

import json

from activator.lab.http1 import as_json, text


def test_text_says_its_type_and_its_delay():
    answer = text(503, "später", delay=2)
    assert (answer.status, answer.body.decode(), answer.delay) == (503, "später", 2)
    assert answer.content_type == "text/plain; charset=utf-8"


def test_json_reads_back_and_ends_in_a_line_feed():
    answer = as_json({"a": [1]})
    assert json.loads(answer.body) == {"a": [1]}
    assert answer.body.endswith(b"}\n")
    assert answer.content_type == "application/json"
