"""Verbs, flags and mistakes; the expected output is Go's (see test_compiler.py)."""

from __future__ import annotations

import pytest

from activator.telemetry.gotemplate.errors import ExecutionError
from activator.telemetry.gotemplate.printf import check_format, sprintf
from activator.telemetry.gotemplate.values import GoStruct


@pytest.mark.parametrize(
    ("text", "arguments", "written"),
    [
        ("%5.1f|%-6d|%06d|%+d", [3.14159, 42, -42, 7], "  3.1|42    |-00042|+7"),
        ("%q %x %X %T", ["a\n", "hi", 255, 1.5], '"a\\n" 6869 FF float64'),
        ("%t %v %s", [True, None, ["a", "b"]], "true <nil> [a b]"),
        ("%q", [["a", "b"]], '["a" "b"]'),
        ("%*d%%", [4, 7], "   7%"),
        ("%d", ["x"], "%!d(string=x)"),
        ("%d", [], "%!d(MISSING)"),
        ("%d", [1, 2, "a"], "1%!(EXTRA int=2, string=a)"),
        ("%", [], "%!(NOVERB)"),
        ("%*d", ["a", 1], "%!(BADWIDTH)1"),
        ("%.2s", ["é☺x"], "é☺"),
        ("%f %e", [float("inf"), float("nan")], "+Inf NaN"),
    ],
)
def test_each_verb_writes_what_gos_does(text: str, arguments: list[object], written: str) -> None:
    assert sprintf(text, arguments) == written


def test_argument_indexes_are_reported_beforehand() -> None:
    assert "are not offered" in check_format("%[1]d")
    assert check_format("%d [1]") == ""


def test_what_cannot_be_printed_cannot_be_formatted() -> None:
    with pytest.raises(ExecutionError):
        sprintf("%v", [GoStruct()])


@pytest.mark.parametrize("text", ["%999999d", "%.999999d", "%-1001s", "%.1001f"])
def test_a_width_that_would_fill_the_memory_is_refused(text: str) -> None:
    with pytest.raises(ExecutionError, match="more than 1000"):
        sprintf(text, [1])
    assert "1000 is the most" in check_format(text)
    assert len(sprintf("%1000d", [1])) == 1000


def test_a_width_that_go_refuses_is_none() -> None:
    assert sprintf("%*d", [10**9, 1]) == "%!(BADWIDTH)1"
