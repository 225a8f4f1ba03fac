"""Rows of parameterised tests have all pairs of values, and are few."""

from __future__ import annotations

from itertools import combinations, product

import pytest

from tests.rows import all_pairs, in_one_test, naming

SHAPES = [[2, 2], [3, 1], [2, 2, 2], [6, 5, 2, 3], [11, 6, 2, 2], [4, 4, 4, 4, 4]]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_each_pair_of_values_is_in_some_row(shape):
    axes = [[f"{axis}{value}" for value in range(size)] for axis, size in enumerate(shape)]
    rows = all_pairs(*axes)
    met = {pair for row in rows for pair in combinations(row, 2)}
    assert all(pair in met for a, b in combinations(axes, 2) for pair in product(a, b))
    assert all(value in axis for row in rows for value, axis in zip(row, axes, strict=True))
    assert len(set(rows)) == len(rows)


@pytest.mark.parametrize(
    ("shape", "most"), [([2, 2, 2], 4), ([6, 5, 2, 3], 33), ([11, 6, 2, 2], 70), ([4] * 5, 32)]
)
def test_there_are_few_rows(shape, most):
    assert max(shape) ** 2 // 2 <= len(all_pairs(*(range(size) for size in shape))) <= most


def test_the_rows_are_the_same_each_time():
    axes = ("abc", "de", "fgh")
    assert all_pairs(*axes) == all_pairs(*axes)


def test_values_may_be_anything():
    assert all_pairs([[1], [1]], [{}]) == [([1], {}), ([1], {})]


def test_a_failure_names_its_row():
    with pytest.raises(AssertionError) as failure, naming("get", 1):
        raise AssertionError
    assert failure.value.__notes__ == ["row: get, 1"]


def test_all_rows_run_in_one_test_and_one_that_fails_is_named():
    seen = []

    @in_one_test("text, number", [("a", 1), ("b", 2), ("c", 3)])
    def taken(text, number, fixture):
        seen.append((text, number, fixture))
        assert number < 2

    with pytest.raises(AssertionError) as failure:
        taken(fixture="f")
    assert seen == [("a", 1, "f"), ("b", 2, "f")]
    assert failure.value.__notes__ == ["row: b, 2"]


@in_one_test("word", [])
def no_row(word):
    raise NotImplementedError(word)


def test_a_test_without_rows_fails():
    with pytest.raises(AssertionError, match="no row"):
        no_row()


@in_one_test("value", [["a"], "ab"])
def test_pytest_gives_such_a_test_its_fixtures(value, request):
    assert request.node.name == "test_pytest_gives_such_a_test_its_fixtures"
    assert len(value) in (1, 2)
