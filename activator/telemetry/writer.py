"""What a metric becomes, text or a point: whoever walks through metrics is given one of these."""

from __future__ import annotations

from typing import Protocol, TypeVar

from activator.records.counters import Histogram
from activator.telemetry.families import Family

L = TypeVar("L")
P = TypeVar("P")


class Writer(Protocol[L, P]):
    """Makes pieces; ``L`` is how it holds labels, of which many series share the same."""

    nothing: P
    """The piece that says nothing."""

    def labels(self, *pairs: tuple[str, str]) -> L:
        """Return labels, ready to be used."""

    def joined(self, one: L, other: L) -> L:
        """Return both together; neither is empty."""

    def header(self, family: Family) -> P:
        """Return what comes before a metric's series."""

    def sample(self, family: Family, labels: L, value: float) -> P:
        """Return one number."""

    def histogram(self, family: Family, labels: L, histogram: Histogram) -> P:
        """Return one histogram as it is now."""
