"""Says as metrics what is known of the cluster, and how old that is.

A watch that is stuck shows nowhere else: what it knew stays in force, and requests are served by
it until the pods that it lists are gone. Must not know where objects come from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from activator.telemetry import families as f
from activator.telemetry.families import Family


class Objects(Protocol):
    """The objects that were read, by kind."""

    @property
    def counts(self) -> Mapping[str, int]:
        """How many are in force."""

    @property
    def rejected(self) -> Mapping[str, int]:
        """How many cannot be used at present."""


class WatchCounters(Protocol):
    """What is counted of one watch."""

    failures: int


class Watch(Protocol):
    """What follows a cluster."""

    @property
    def counters(self) -> Mapping[str, WatchCounters]:
        """By kind."""

    def ages(self, now: float) -> Mapping[str, float]:
        """Return the seconds since each kind's last sign of life."""


def knowledge(
    objects: Objects | None, watch: Watch | None, now: float
) -> Iterator[tuple[Family, Mapping[str, float]]]:
    """Yield the metrics of what is known, each with its values by kind.

    Arguments:
        objects: None before anything is read.
        watch: None where there is no cluster.
        now: on the loop's clock.
    """
    yield f.OBJECTS, objects.counts if objects else {}
    yield f.REJECTED_OBJECTS, objects.rejected if objects else {}
    counters = watch.counters if watch else {}
    yield f.WATCH_FAILURES, {kind: each.failures for kind, each in counters.items()}
    yield f.WATCH_AGE, watch.ages(now) if watch else {}
