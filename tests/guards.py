"""Failures of a rule over many files: one violation per line, as ``file:line: rule``."""

from __future__ import annotations

from collections.abc import Iterable

import pytest


def expect_none(violations: Iterable[str], hint: str = "") -> None:
    """Fail the test with all violations at once, without a traceback; pass if there are none.

    Arguments:
        violations: one line each: file, line and the rule that it breaks.
        hint: how to correct the violations.
    """
    if found := list(violations):
        pytest.fail("\n".join([f"violations: {len(found)}. {hint}", *found]), pytrace=False)
