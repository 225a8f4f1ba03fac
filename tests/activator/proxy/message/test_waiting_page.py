"""The waiting page, and the templates for it."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from activator.proxy.message.waiting_page import (
    DEFAULT,
    MOST_BYTES,
    PLACEHOLDERS,
    Start,
    StartPhase,
    Template,
    page,
    peek,
    whole_seconds,
)
from tests.rows import in_one_test
from throttler.reason import Reason

MANY = "{{polling}}" + "".join(f"<script>{n}</script>" for n in range(17))
VALUES = dict.fromkeys(PLACEHOLDERS, "x")


def test_values_are_escaped_wherever_they_stand() -> None:
    template = Template('{{polling}}<p title="{{name}}">{{ reason }}</p>')
    page = template.render({**VALUES, "name": "\"><script>'", "reason": "<b>&amp;"}).decode()
    assert 'title="&quot;&gt;&lt;script&gt;&#x27;">&lt;b&gt;&amp;amp;</p>' in page


def test_the_policy_has_a_hash_for_each_inline_element_and_no_other_permission() -> None:
    template = Template("{{polling}}<style>a{}</style>\r\n<SCRIPT>f(1 < 2)</script><script>g()")
    assert template.policy.count("'sha256-") == 3  # the last script does not end
    assert "unsafe" not in template.policy
    assert "http" not in template.policy
    assert template.policy.startswith("default-src 'none'; connect-src 'self'; img-src data:;")


def test_windows_line_ends_do_not_change_the_policy() -> None:
    text = "{{polling}}\n<style>\na { }\n</style>"
    assert Template(text).policy == Template(text.replace("\n", "\r\n")).policy


@in_one_test(
    ("text", "problem"),
    [
        ("<p>", "{{polling}} must occur once"),
        ("{{polling}}{{polling}}", "{{polling}} must occur once"),
        ("{{polling}}{{host}}", "{{host}} is unknown; the placeholders are name,"),
        ("{{polling}}\n<script>'{{name}}'</script>", "line 2: a <script> must not have"),
        ("{{polling}}\n<style>{{ name }}</style>", "line 2: a <style> must not have"),
        ("{{polling}}\n\n<script src=a.js></script>", "line 3: <script src> must be a data: URL"),
        ("{{polling}}<link href=a.css rel=stylesheet>", "line 1: <link href> must be a data: URL"),
        ("{{polling}}<img src=//a.example/a.png>", "line 1: <img src> must be a data: URL"),
        ("{{polling}}<body onload=f()>", "line 1: <body onload> does not work; use a <script>"),
        ("{{polling}}<p style=a>", "line 1: <p style> does not work; use a <style>"),
        (MANY, "at most 16 inline"),
        ("{{polling}}" + MOST_BYTES * "x", "at most 262144 bytes"),
    ],
)
def test_a_template_that_cannot_work_names_its_fault(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        Template(text)


def test_images_inside_the_page_are_allowed() -> None:
    Template(
        '{{polling}}<img alt="" src="data:image/png;base64,AAAA"><a href="https://a.example">a'
    )


def test_the_largest_template_works() -> None:
    text = "{{polling}}"
    assert len(Template(text + (MOST_BYTES - len(text)) * "x").render(VALUES)) > MOST_BYTES


def test_the_default_page_is_small() -> None:
    assert len(DEFAULT.render({**VALUES, "name": 63 * "x"})) <= 8192


EVERYTHING = Template(
    "{{polling}}<p>{{name}} {{namespace}} {{phase}} {{step}} {{message}} {{forecast}} {{reason}}"
)


def start(phase: StartPhase = StartPhase.ASKED, forecast: int | None = None) -> Start:
    return Start("shop", "default", phase, forecast, Reason.NO_ENDPOINTS, "")


@pytest.mark.parametrize(
    ("phase", "forecast", "shown"),
    [
        (StartPhase.ASKED, None, "asked 1 A new instance is requested. not known yet"),
        (StartPhase.LISTED, 89, "listed 2 An instance is starting. about 89 s"),
        (StartPhase.PROBED, 90, "probed 3 An instance runs. It does not respond yet. about 2 min"),
        (StartPhase.BUSY, 1, "busy 3 All instances are busy at the moment. about 1 s"),
        (
            *(StartPhase.FAILED, None),
            "failed 0 It did not start in time (no-endpoints). Load this page again to retry. "
            "not known yet",
        ),
    ],
)
def test_a_page_has_the_phase_and_the_forecast(
    phase: StartPhase, forecast: int | None, shown: str
) -> None:
    body = page(EVERYTHING, start(phase, forecast)).body.decode()
    assert body.endswith(f"<p>shop default {shown} no-endpoints")


def test_a_peek_has_the_phase_and_the_forecast_until_a_request_would_be_served() -> None:
    assert b"Activator-Forecast: 7" in peek(start(forecast=7)).fields
    assert b"Activator-Forecast" not in peek(start()).fields
    assert (peek(start()).status, peek(None).status, peek(None).why) == (503, 200, "")


def test_a_late_start_is_longer_than_usual_and_has_no_forecast() -> None:
    late = replace(start(StartPhase.LISTED), is_late=True)
    assert b"longer than usual" in page(EVERYTHING, late).body
    assert b"Activator-Forecast: late" in peek(late).fields


def test_the_last_page_does_not_load_itself_again() -> None:
    for phase, status in ((StartPhase.ASKED, 503), (StartPhase.FAILED, 504)):
        shown, peeked = page(EVERYTHING, start(phase)), peek(start(phase))
        assert shown.status == peeked.status == status
        assert (b'http-equiv="refresh"' in shown.body) == (phase is StartPhase.ASKED)
        assert (shown.retry_after is None) == (peeked.retry_after is None) == (status == 504)


@pytest.mark.parametrize(("expected", "shown"), [(None, None), (0.0, 1), (0.2, 1), (1.01, 2)])
def test_a_forecast_is_in_whole_seconds(expected: float | None, shown: int | None) -> None:
    assert whole_seconds(expected) == shown
