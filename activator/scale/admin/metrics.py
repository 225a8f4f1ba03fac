"""Makes the scaler's metrics on request: one table of families, one line for each value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from activator.plain.service import word_of
from activator.records.counters import Histogram
from activator.scale import families as f
from activator.scale.cluster.objects import Objects
from activator.scale.cluster.watch import Watch
from activator.scale.decisions.engine import Engine
from activator.scale.decisions.findings import Reason
from activator.scale.decisions.record import Record
from activator.scale.reports.load import Loads
from activator.telemetry.exposition import TextWriter
from activator.telemetry.families import Family
from activator.telemetry.process import ProcessMetrics

#: Values by the values of their labels, or one histogram without labels.
_Values = Mapping[tuple[str, ...], float] | Histogram


class Measured(NamedTuple):
    """The parts that metrics read."""

    engine: Engine
    loads: Loads
    objects: Objects
    watch: Watch


class ScalerMetrics:
    """The metrics of one scaler.

    Arguments:
        parts: read only while metrics are made.
    """

    def __init__(self, parts: Measured) -> None:
        self._parts = parts
        self._process = ProcessMetrics()

    def render(self, now: float, *, leads: bool, garbled: int) -> bytes:
        """Return all metrics as Prometheus' text.

        Arguments:
            now: seconds, on the loop's clock.
            leads: whether this process decides.
            garbled: frames that cannot be decoded as reports.
        """
        families = self._families(now, leads=leads, garbled=garbled)
        write = TextWriter()
        lines = [text for each in families.items() for text in _lines(write, *each)]
        return "".join((*lines, self._process.render())).encode()

    def _families(self, now: float, *, leads: bool, garbled: int) -> dict[Family, _Values]:
        engine, loads, objects, watch = self._parts
        records, counts = list(engine), engine.counters
        owners = Counter(record.facts.service.asks.owner.value for _, record in records)
        rejected = Counter(key.kind for key in objects.rejected)
        known = [
            (name, record.facts.replicas, record.planner.wanted)
            for name, record in records
            if record.facts.replicas is not None
        ]
        return {
            f.LEADER: {(): float(leads)},
            f.ACTIVATORS: {(): loads.activators},
            f.GARBLED: {(): garbled},
            f.SERVICES: _each(owners),
            f.REPLICAS: {name: float(present) for name, present, _ in known},
            f.WANTED: {
                name: float(present if asked is None else asked) for name, present, asked in known
            },
            f.READY: {name: float(record.facts.ready) for name, record in records},
            f.LOAD: {name: loads.current(name, now) for name, _ in records},
            f.PROBLEM: {
                (*name, word): 1.0 for name, record in records for word in _problems(record)
            },
            f.CHANGES: _each(counts.changes),
            f.FAILURES: _each(counts.failures),
            f.COLD_STARTS: counts.cold_starts,
            f.TICKS: counts.ticks,
            f.WATCH_AGE: _each(watch.ages(now)),
            f.REJECTED: _each({kind: rejected[kind] for kind in objects.counts}),
        }


def _problems(record: Record) -> Iterator[str]:
    """Yield the word of each problem of a Service."""
    if record.decided is not None and record.decided.reason:
        yield record.decided.reason
    yield from (finding.reason.value for finding in record.facts.findings)
    for text in record.facts.service.warnings:
        yield word_of(text, Reason.SERVICE_WARNING.value)


def _each(values: Mapping[str, float]) -> _Values:
    """Return values by their only label."""
    return {(label,): value for label, value in values.items()}


def _lines(write: TextWriter, family: Family, values: _Values) -> Iterator[str]:
    yield write.header(family)
    if isinstance(values, Histogram):
        yield write.histogram(family, "", values)
        return
    for labels, value in values.items():
        pairs = zip(family.labels, labels, strict=True)
        yield write.sample(family, write.labels(*pairs), value)
