"""The ConfigMap of templates for waiting pages: each key alone, and the last good version."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import pytest

from activator.knative.configmaps.cluster import pages_reader
from activator.knative.configmaps.following import Followed


def parse(text: str) -> str:
    if "bad" in text:
        raise ValueError("line 1: it is bad")
    return text.upper()


def test_each_key_is_a_template_and_a_wrong_one_keeps_its_last_good_version(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pages: Followed[Mapping[str, str]] = Followed("activator-pages", pages_reader(parse), {})
    pages.update({"a": "one", "b": "two", "_example": "bad"})
    assert pages.value == {"a": "ONE", "b": "TWO"}
    with caplog.at_level(logging.ERROR):
        pages.update({"a": "bad", "b": "three", "c": "bad"})
    assert pages.value == {"a": "ONE", "b": "THREE"}
    assert pages.problems.keys() == {"a", "c"}
    assert "line 1: it is bad; its last good version stays in force" in caplog.text
    assert "the default page stays in force" in caplog.text
    pages.update({"b": "three"})
    assert (pages.value, pages.problems) == ({"b": "THREE"}, {})
    pages.update({})
    assert pages.value == {}
