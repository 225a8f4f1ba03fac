"""Templates of waiting pages: placeholders, the policy for their code, and useful errors."""

from __future__ import annotations

import re

import pytest

from activator.proxy.message.waiting_page import DEFAULT, MOST_BYTES, PLACEHOLDERS, Template

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


@pytest.mark.parametrize(
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
