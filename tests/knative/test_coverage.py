"""No test of Knative is silently missing: the table of tests against this folder's tests."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from tests.guards import expect_none
from tests.knative.go_tests import GO_TESTS, OUR_OWN

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

ROWS = {row: reason for tests in GO_TESTS.values() for row, reason in tests.items()}


@cache
def functions() -> dict[str, str]:
    """Return the tests of this folder that replay Go tests, with their docstrings."""
    return {
        node.name: ast.get_docstring(node) or ""
        for path in sorted(HERE.glob("test_*.py"))
        if path.name not in OUR_OWN
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if node.name.startswith("test_")
    }


def name_of(row: str) -> str:
    """Return the name of the function that replays a row."""
    test, _, case = row.partition("/")
    return f"test_{test}__{re.sub(r'[^0-9A-Za-z]+', '_', case)}" if case else f"test_{test}"


def replaying(row: str) -> set[str]:
    """Return the tests that replay a row; several tests may replay one Go test."""
    name = name_of(row)
    return {found for found in functions() if found == name or found.startswith(f"{name}__")}


def test_each_row_without_a_reason_is_replayed() -> None:
    expect_none(
        f"go_tests.py: {row}: write {name_of(row)}, or give the reason why there is none"
        for row, reason in ROWS.items()
        if not reason and not replaying(row)
    )


def test_each_row_with_a_reason_is_not_replayed() -> None:
    expect_none(
        f"go_tests.py: {row}: a test replays it: remove the reason"
        for row, reason in ROWS.items()
        if reason and replaying(row)
    )


def test_each_path_that_a_reason_names_exists() -> None:
    expect_none(
        f"go_tests.py: {row}: {path} does not exist"
        for row, reason in ROWS.items()
        for path in re.findall(r"(?:tests|benchmarks)/[\w./]*", reason or "")
        if not (ROOT / path).exists()
    )


def test_each_test_here_replays_a_row() -> None:
    known = set[str]().union(*(replaying(row) for row in ROWS))
    # Additional cases of a Go test whose cases are rows also have the name of the Go test.
    tests = {name_of(row.partition("/")[0]) for row in ROWS}
    assert {
        name for name in functions() if name not in known and name.partition("__")[0] not in tests
    } == set()


def test_each_test_here_says_what_the_go_test_asserts() -> None:
    assert [name for name, text in functions().items() if not text] == []
