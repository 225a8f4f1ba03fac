"""Collects the metrics of the source of objects, and the age of its objects.

Only these metrics show a watch that hangs. Its last state stays in force, and the activator serves
requests until the listed pods are gone. The module must not know where objects come from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from activator.records.source_status import SourceStatus
from activator.telemetry import families as f
from activator.telemetry.families import Family

_NONE = SourceStatus(kind="", name="", kinds={})


def source_metrics(
    source: SourceStatus | None,
) -> Iterator[tuple[Family, str, Mapping[str, float]]]:
    """Yield each metric with its one label, and its values by that label.

    Arguments:
        source: None before the source is made.
    """
    source = source or _NONE
    kinds = source.kinds
    watched = {kind: each.watch for kind, each in kinds.items() if each.watch is not None}
    yield f.OBJECTS, "kind", {kind: each.in_force for kind, each in kinds.items()}
    yield f.REJECTED_OBJECTS, "kind", {kind: each.rejected for kind, each in kinds.items()}
    yield f.WATCH_FAILURES, "kind", {kind: watch.failures for kind, watch in watched.items()}
    ages = {kind: age for kind in watched if (age := kinds[kind].age) is not None}
    yield f.WATCH_AGE, "kind", ages
    yield f.SELF_CHECKS, "result", source.missed.checks
    yield f.DRIFT, "kind", source.missed.found
    yield f.DRIFT_LEFT, "kind", source.missed.present
