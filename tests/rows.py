"""Rows of parameters with all pairs of values; a failure inside a test names its row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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


@contextmanager
def naming(*row: object) -> Iterator[None]:
    """Add the row to each failure inside, for a test that runs several rows."""
    try:
        yield
    except Exception as failure:
        failure.add_note(f"row: {', '.join(map(str, row))}")
        raise
