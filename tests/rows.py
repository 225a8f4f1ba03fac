"""Rows of parameters with all pairs of values; a failure inside a test names its row."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from itertools import combinations, product
from typing import Any

import pytest


def all_pairs(*axes: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return rows in which each two values of different axes meet at least once.

    The rows depend only on the order of axes and values. Each row begins with the first missing
    pair. The other axes get the values that add the most missing pairs.
    """
    missing = {
        pair: None
        for (i, left), (j, right) in combinations(enumerate(axes), 2)
        for pair in product(((i, a) for a in range(len(left))), ((j, b) for b in range(len(right))))
    }
    rows = []
    while missing:
        row = dict(next(iter(missing)))
        for axis, values in enumerate(axes):
            if axis not in row:
                row[axis] = max(range(len(values)), key=lambda v: _added(missing, row, axis, v))
        for pair in combinations(sorted(row.items()), 2):
            missing.pop(pair, None)
        rows.append(tuple(values[row[axis]] for axis, values in enumerate(axes)))
    return rows


def _added(missing: dict[Any, None], row: dict[int, int], axis: int, value: int) -> int:
    """Return how many missing pairs a value of an axis has with the values of a row."""
    place = (axis, value)
    return sum(tuple(sorted((place, other))) in missing for other in row.items())


def pairwise(**axes: Sequence[Any]) -> pytest.MarkDecorator:
    """Run a test for all pairs of its parameters' values instead of all combinations."""
    return pytest.mark.parametrize(tuple(axes), all_pairs(*axes.values()))


def in_one_test(
    names: str | Sequence[str], rows: Iterable[Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test for each row, as ``pytest.mark.parametrize`` does, but as one test of pytest.

    Each test of pytest takes some milliseconds in its worker, and some of the collection in all
    workers. So this is for many rows that are quick. It is not for tests with fixtures that change.

    Arguments:
        names: the parameters that a row has values for, with commas between them or as a sequence.
    """
    of_row = [each.strip() for each in names.split(",")] if isinstance(names, str) else list(names)
    is_bare = isinstance(names, str) and len(of_row) == 1
    given = [(row,) if is_bare else tuple(row) for row in rows]

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def run(*fixed: Any, **fixtures: Any) -> None:
            assert given, "no row"
            for row in given:
                with naming(*row):
                    test(*fixed, **dict(zip(of_row, row, strict=True)), **fixtures)

        signature = inspect.signature(test)
        left = [each for name, each in signature.parameters.items() if name not in of_row]
        run.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined] # read by pytest
        return run

    return decorate


@contextmanager
def naming(*row: object) -> Iterator[None]:
    """Add the row to each failure inside, for a test that runs several rows."""
    try:
        yield
    except Exception as failure:
        failure.add_note(f"row: {', '.join(map(str, row))}")
        raise
