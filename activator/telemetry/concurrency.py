"""Keeps the concurrency that the activator last reported of each revision, for the gauge.

The stat reporter calls it as one of its sinks. Knative's counterpart: the gauge that
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
        """The revision."""

    @property
    def concurrency(self) -> float:
        """The mean number of concurrent requests."""


class ReportedConcurrency:
    """The value last reported of each revision. It holds busy revisions only, so it stays small."""

    def __init__(self) -> None:
        self._last: dict[RevisionID, float] = {}

    def __call__(self, stats: Iterable[Stat]) -> None:
        """Record a report. The last one of an idle revision says 0, and removes the revision."""
        for stat in stats:
            if stat.concurrency:
                self._last[stat.revision_id] = stat.concurrency
            else:
                self._last.pop(stat.revision_id, None)

    def of(self, entry: Entry) -> float:
        """Return the concurrency that was last reported of a revision."""
        return self._last.get(entry.throttler.revision.id, 0.0)
