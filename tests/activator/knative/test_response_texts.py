"""Texts of responses; proxy/message/test_own_responses.py tests them with their fields."""

from __future__ import annotations

import pytest

from activator.knative import words


def test_a_missing_revision_is_named() -> None:
    text = 'Error getting active endpoint: revision.serving.knative.dev "rev" not found'
    assert words.not_found("rev") == text


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (b"queue", "queue"),
        (b"<a href='x'>&\"", "&lt;a href=&#39;x&#39;&gt;&amp;&#34;"),
        (b"\\\t", "\\\\\\t"),
        (b"\xff", "\\xff"),
        ("\u2028".encode(), "\\u2028"),
        (b"x" * 500, "x" * 200),
    ],
)
def test_the_value_of_a_probe_is_quoted_as_by_go(value: bytes, shown: str) -> None:
    assert words.unexpected_probe(value) == f'unexpected probe header value: "{shown}"'
