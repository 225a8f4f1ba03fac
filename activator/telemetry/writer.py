"""Defines the writer that ``collection`` and ``totals`` use to make text or points of metrics."""

from __future__ import annotations

from typing import Protocol, TypeVar

from activator.records.counters import Histogram
from activator.telemetry.families import Family

L = TypeVar("L")
P = TypeVar("P")


class Writer(Protocol[L, P]):
    """Makes pieces ``P``. ``L`` is its form of labels, which many series share."""

    nothing: P
    """The empty piece."""

    def labels(self, *pairs: tuple[str, str]) -> L:
        """Return labels in the writer's form."""

    def joined(self, one: L, other: L) -> L:
        """Return the labels of both arguments; neither is empty."""

    def header(self, family: Family) -> P:
        """Return the piece before the series of a metric."""

    def sample(self, family: Family, labels: L, value: float) -> P:
        """Return the piece of one number."""

    def histogram(self, family: Family, labels: L, histogram: Histogram) -> P:
        """Return the piece of one histogram, as it is now."""
