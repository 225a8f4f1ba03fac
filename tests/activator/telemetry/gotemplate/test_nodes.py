"""Nodes are values: two templates with the same text are equal."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from activator.telemetry.gotemplate.parser import parse


def test_blanks_in_actions_and_comments_make_no_difference() -> None:
    assert parse("a{{if .X}}b{{end}}")[0] == parse("a{{if  .X }}b{{end}}")[0]
    assert len(parse("a{{/* c */}}b")) == 2


def test_nothing_changes_a_template_that_was_read() -> None:
    with pytest.raises(FrozenInstanceError):
        parse("a")[0].text = "b"  # type: ignore[union-attr] # which is what is tested
