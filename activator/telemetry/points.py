"""Makes points of metrics: numbers with their metric and labels, copied for use in a thread.

Making one takes half a microsecond. ``otlp_metrics`` converts points.
"""

from __future__ import annotations

from typing import NamedTuple

from activator.records.counters import Histogram
from activator.telemetry.families import Family

Pairs = tuple[tuple[str, str], ...]


class Counted(NamedTuple):
    """A histogram at one moment.

    Attributes:
        counts: by bucket, not cumulative; the last bucket has the values above all bounds.
        total: the sum of the values.
    """

    counts: tuple[int, ...]
    total: float


class Point(NamedTuple):
    """One series at one moment."""

    family: Family
    labels: Pairs
    value: float | Counted


class PointWriter:
    """Makes points (writer.Writer)."""

    nothing: Point | None = None

    def labels(self, *pairs: tuple[str, str]) -> Pairs:
        """See writer.Writer."""
        return pairs

    def joined(self, one: Pairs, other: Pairs) -> Pairs:
        """See writer.Writer."""
        return one + other

    def header(self, family: Family) -> Point | None:
        """See writer.Writer: a point carries its metric itself."""
        return None

    def sample(self, family: Family, labels: Pairs, value: float) -> Point | None:
        """See writer.Writer."""
        return Point(family, labels, value)

    def histogram(self, family: Family, labels: Pairs, histogram: Histogram) -> Point | None:
        """See writer.Writer."""
        return Point(family, labels, Counted((*histogram.counts,), histogram.total))
