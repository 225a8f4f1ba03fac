"""Remembers what the autoscaler was last told of each revision, for the concurrency gauge.

A sink of the stat reporter, which knows nothing of it. Knative's counterpart: the gauge that
pkg/activator/handler/concurrency_reporter.go writes with each report. The announcement of a
revision's first request counts here too, so the gauge shows it up to a second earlier.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from activator.records.entries import Entry
from throttler.model import RevisionID


class Stat(Protocol):
    """The load of one revision over one period."""

    @property
    def revision_id(self) -> RevisionID:
        """Whose it is."""

    @property
    def concurrency(self) -> float:
        """The mean number of requests at a time."""


class ReportedConcurrency:
    """The value last reported of each revision. Holds busy revisions only, so it stays small."""

    def __init__(self) -> None:
        self._last: dict[RevisionID, float] = {}

    def __call__(self, stats: Iterable[Stat]) -> None:
        """Take a report. An idle revision's last one says 0, and it is forgotten."""
        for stat in stats:
            if stat.concurrency:
                self._last[stat.revision_id] = stat.concurrency
            else:
                self._last.pop(stat.revision_id, None)

    def of(self, entry: Entry) -> float:
        """Return what was last reported of a revision."""
        return self._last.get(entry.throttler.revision.id, 0.0)
