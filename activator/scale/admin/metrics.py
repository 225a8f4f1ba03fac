"""Makes the scaler's metrics on request: one table of families, one line for each value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from activator.plain.service import word_of
from activator.records.counters import Histogram
from activator.scale import families as f
from activator.scale.cluster.watch import ClusterObjects, ClusterWatch
from activator.scale.decisions.engine import Engine
from activator.scale.decisions.record import Record
from activator.scale.reasons import ScaleReason
from activator.scale.reports.load import Loads, Name
from activator.telemetry.families import Family
from activator.telemetry.metric_writers import TextWriter
from activator.telemetry.process import ProcessMetrics


class Measured(NamedTuple):
    """The parts that metrics read."""

    engine: Engine
    loads: Loads
    objects: ClusterObjects
    watch: ClusterWatch


class Metrics:
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
        lines = [*self._own(now, leads=leads, garbled=garbled), self._process.render()]
        return "".join(lines).encode()

    def _own(self, now: float, *, leads: bool, garbled: int) -> Iterator[str]:
        engine, loads, objects, watch = self._parts
        write = _Writer()
        yield from write.one(f.LEADER, float(leads))
        yield from write.one(f.ACTIVATORS, loads.activators)
        yield from write.one(f.GARBLED, garbled)
        records = list(engine)
        owners = Counter(record.facts.service.asks.owner.value for _, record in records)
        yield from write.many(
            f.SERVICES, {(owner,): count for owner, count in owners.items()}.items()
        )
        yield from self._services(write, records, now)
        counts = engine.counters
        yield from write.many(f.CHANGES, {(why,): n for why, n in counts.changes.items()}.items())
        yield from write.many(f.FAILURES, {(why,): n for why, n in counts.failures.items()}.items())
        yield from write.histogram(f.COLD_STARTS, counts.cold_starts)
        yield from write.histogram(f.TICKS, counts.ticks)
        yield from write.many(
            f.WATCH_AGE, {(kind,): age for kind, age in watch.ages(now).items()}.items()
        )
        rejected = Counter(key.kind for key in objects.rejected)
        yield from write.many(
            f.REJECTED, {(kind,): rejected[kind] for kind in objects.counts}.items()
        )

    def _services(
        self, write: _Writer, records: list[tuple[Name, Record]], now: float
    ) -> Iterator[str]:
        loads = self._parts.loads
        replicas, wanted, problems = {}, {}, {}
        for name, record in records:
            facts, decided = record.facts, record.decided
            if facts.replicas is not None:
                asked = record.planner.wanted
                replicas[name] = float(facts.replicas)
                wanted[name] = float(facts.replicas if asked is None else asked)
            if decided is not None and decided.reason:
                problems[*name, decided.reason] = 1.0
            problems |= {(*name, finding.reason.value): 1.0 for finding in facts.findings}
            for text in facts.service.warnings:
                problems[*name, word_of(text, ScaleReason.SERVICE_WARNING)] = 1.0
        yield from write.many(f.REPLICAS, replicas.items())
        yield from write.many(f.WANTED, wanted.items())
        yield from write.many(
            f.READY, {name: float(each.facts.ready) for name, each in records}.items()
        )
        yield from write.many(
            f.LOAD, {name: loads.current(name, now) for name, _ in records}.items()
        )
        yield from write.many(f.PROBLEM, problems.items())


class _Writer:
    """Writes metrics as text."""

    def __init__(self) -> None:
        self._text = TextWriter()

    def one(self, family: Family, value: float) -> Iterator[str]:
        """Yield a metric without labels."""
        yield self._text.header(family)
        yield self._text.sample(family, "", value)

    def many(
        self, family: Family, values: Iterable[tuple[tuple[str, ...], float]]
    ) -> Iterator[str]:
        """Yield a metric; each value comes with the values of its labels."""
        yield self._text.header(family)
        for labels, value in values:
            pairs = zip(family.labels, labels, strict=True)
            yield self._text.sample(family, self._text.labels(*pairs), value)

    def histogram(self, family: Family, histogram: Histogram) -> Iterator[str]:
        """Yield a histogram without labels."""
        yield self._text.header(family)
        yield self._text.histogram(family, "", histogram)
