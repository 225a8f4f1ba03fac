"""Errors have the place in the template."""

from __future__ import annotations

from activator.telemetry.gotemplate.errors import At, TemplateError


def test_the_place_comes_first() -> None:
    error = TemplateError(At(2, 7), "unexpected }}")
    assert str(error) == "2:7: unexpected }}"
    assert (error.at.line, error.at.column, error.reason) == (2, 7, "unexpected }}")
    assert isinstance(error, ValueError)
