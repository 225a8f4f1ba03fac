"""Makes what the admin port shows: the replicas of each Service with the reasons, and the metrics.

Names in responses are in camel case, times in seconds before now. Metrics have one table of
families, and one line for each value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, final

from activator import __version__
from activator.kpa.decision import Why
from activator.objects.fields import ObjectKey
from activator.records.counters import Histogram
from activator.scale import families as f
from activator.scale import reasons
from activator.scale.admin.selection import Query, select
from activator.scale.decisions.record import Record, rule_of
from activator.scale.reasons import ScaleReason
from activator.scale.reports.load import Loads, ServiceName
from activator.scale.wakers.scale import SCALE
from activator.scale.workloads.services import PodRequests
from activator.telemetry.families import Family
from activator.telemetry.metric_writers import TextWriter, in_chunks
from activator.telemetry.process import ProcessMetrics

if TYPE_CHECKING:
    from activator.scale.scaler import ScalerProcess

#: Unusable objects in a response, at most.
MOST_OBJECTS: Final = 100

_HOUR: Final = 3600.0

JsonObject = dict[str, Any]


@final
class ScalerStatus:
    """The state of one scaler, as its admin port shows it.

    Arguments:
        scaler: has everything that is shown.
    """

    def __init__(self, scaler: ScalerProcess) -> None:
        self._scaler = scaler
        self._started = scaler.clock()
        self._process = ProcessMetrics()

    def readiness(self) -> str:
        """Return why this process does not decide; empty if it does."""
        if not self._scaler.candidate.leads:
            return f"not the leader; the leader is {self._scaler.candidate.holder or 'not known'}"
        return "" if self._scaler.watch.synced else "the first lists of objects are not complete"

    def leader(self) -> JsonObject:
        """Return the leader, as this process observes it."""
        return {
            "pod": self._scaler.settings.pod_name,
            "leads": self._scaler.candidate.leads,
            "holder": self._scaler.candidate.holder,
            "error": self._scaler.candidate.error,
        }

    def state(self) -> JsonObject:
        """Return the response about the scaler itself."""
        now = self._scaler.clock()
        ages, errors = self._scaler.watch.ages(now), self._scaler.watch.errors()
        return {
            "leader": self.leader(),
            "namespace": self._scaler.settings.system_namespace,
            "version": __version__,
            "uptimeSeconds": round(now - self._started, 1),
            "notReadyReason": self.readiness() or None,
            "activators": self._activators(now),
            "interceptors": self._interceptors(now),
            "watches": {
                kind: {"ageSeconds": round(ages.get(kind, 0.0), 1), "error": errors.get(kind, "")}
                for kind in sorted(ages.keys() | errors.keys())
            },
            "objects": unusable(self._scaler.objects.rejected),
            "objectsTotal": len(self._scaler.objects.rejected),
            "dashboard": self._scaler.settings.dashboard_url or None,
        }

    def _activators(self, now: float) -> list[JsonObject]:
        """Return the activators that report, and the ones that were just lost."""

        def ago(at: float | None) -> float | None:
            return None if at is None else round(max(0.0, now - at), 1)

        return [
            {
                "name": one.name,
                "address": one.address,
                "connected": one.lost is None,
                "connectedSeconds": ago(one.connected),
                "lastReportSeconds": ago(one.reported),
                "lostSeconds": ago(one.lost),
            }
            for one in self._scaler.loads.reporting()
        ]

    def _interceptors(self, now: float) -> list[JsonObject]:
        """Return the interceptors that are polled, since they do not report."""
        routes = self._scaler.routes
        return [
            {
                "address": address,
                "lastResponseSeconds": None if polled.at < 0 else round(now - polled.at, 1),
                "error": polled.error,
                "objects": len(polled.counts),
            }
            for address, polled in sorted(routes.polled.items() if routes is not None else ())
        ]

    def services(self, query: Query) -> JsonObject:
        """Return the Services that a query wants, and sums over all Services."""
        now = self._scaler.clock()
        found = select(self._scaler.engine, self._scaler.loads, query, now)
        return {
            "leader": self.leader(),
            "services": [self._service(*pair, now) for pair in found.services],
            "matching": found.matching,
            "summary": {
                "services": found.known,
                "phases": found.phases,
                "problems": found.problems,
                "load": round(found.load, 3),
            },
        }

    def service(self, name: ServiceName) -> JsonObject | None:
        """Return one Service; None if it does not opt in, or if this process does not lead."""
        record = self._scaler.engine.get(name)
        return None if record is None else self._service(name, record, self._scaler.clock())

    def _service(self, name: ServiceName, record: Record, now: float) -> JsonObject:
        decided, facts = record.decided, record.facts
        asks, plan = facts.service.asks, record.plan
        why = plan.why if plan else None
        reason = decided.reason if decided else ScaleReason.REPLICAS_UNKNOWN
        detail = reasons.text(reason, decided.detail if decided else "") if reason else None
        wanted = facts.replicas if plan is None or plan.replicas is None else plan.replicas
        target, parts = facts.target, self._scaler.parts
        findings = [each for part in parts for each in part.findings(name)]
        words = (reason, *(each.reason.value for each in findings))
        return {
            "namespace": name.namespace,
            "name": name.name,
            "kind": "service",
            "target": f"{target.resource.kind}/{target.name}" if target else None,
            "owner": asks.owner.value,
            "route": asks.route.value,
            "phase": plan.phase.value if plan else None,
            "replicas": {"present": facts.replicas, "wanted": wanted, "ready": facts.ready},
            "active": plan is not None and plan.active,
            "takesOver": plan is not None and plan.takes_over,
            "why": why.value if why else None,
            "sentence": rule_of(record, why) if why else None,
            "reason": reason or None,
            "detail": detail,
            "cause": next((word for word in words if word in reasons.CAUSES), None),
            "load": _load(name, self._scaler.loads, now),
            "lastChange": _change(record),
            "savings": self._savings(record, now),
            "findings": [each._asdict() for each in (*facts.warnings, *findings)],
        }

    def _savings(self, record: Record, now: float) -> JsonObject:
        """Return what the sleep of a workload has saved, or would have saved."""
        pods, cpu, memory = self._saved(record, now)
        trial, waited = record.trial is not None, record.sleep.waited
        sentence = (
            f"{'A trial run: sleep would have' if trial else 'Sleep has'} saved "
            f"{pods / _HOUR:.2f} pod-hours, {cpu / _HOUR:.2f} CPU-hours and "
            f"{memory / _HOUR / 2**30:.2f} GiB-hours; requests that {'would have ' * trial}waited "
            f"for a first pod: {waited}"
        )
        return {
            "dryRun": trial,
            "asleep": record.sleep.since is not None,
            "podSeconds": round(pods, 3),
            "cpuCoreSeconds": round(cpu, 3),
            "memoryByteSeconds": round(memory),
            "waited": waited,
            "sentence": reasons.worded(sentence, is_tcp=record.facts.service.asks.tcp.chosen),
        }

    def _saved(self, record: Record, now: float) -> tuple[float, float, float]:
        """Return saved pod-seconds, CPU core-seconds and memory byte-seconds."""
        pods, target = record.sleep.saved(now), record.facts.target
        requests = self._scaler.services.workloads.requests(target) if target else PodRequests()
        waker = target.waker if target and not record.instead else SCALE
        pod_share, cpu_share, memory_share = waker.frees
        cpu, memory = pods * cpu_share * requests.cpu, pods * memory_share * requests.memory
        return pods * pod_share, cpu, memory

    def metrics(self) -> Iterator[bytes]:
        """Yield all metrics as Prometheus' text, in chunks; the caller may pause in between."""
        write = TextWriter()
        families = self._families().items()
        yield from in_chunks(text for each in families for text in _lines(write, *each))
        yield self._process.render().encode()

    def _families(self) -> dict[Family, _Values]:
        engine, loads, clock = self._scaler.engine, self._scaler.loads, self._scaler.clock
        records, counts = [record for _, record in engine], engine.counters
        owners = Counter(record.facts.service.asks.owner.value for record in records)
        rejected = Counter(key.kind for key in self._scaler.objects.rejected)
        return {
            f.LEADER: [((), int(self._scaler.candidate.leads))],
            f.ACTIVATORS: [((), loads.activators)],
            f.GARBLED: [((), self._scaler.stats.garbled)],
            f.SERVICES: _each(owners),
            f.REPLICAS: _by_service(records, lambda each: each.facts.replicas),
            f.WANTED: _by_service(records, _wanted),
            **{family: self._savings_of(records, unit) for unit, family in enumerate(f.SAVED)},
            f.READY: _by_service(records, lambda each: each.facts.ready),
            f.LOAD: _by_service(records, lambda each: loads.current(each.name, clock())),
            f.PROBLEM: (((*each.name, word), 1) for each in records for word in _problems(each)),
            f.CHANGES: _each(counts.changes),
            f.FAILURES: _each(counts.failures),
            f.COLD_STARTS: counts.cold_starts,
            f.TICKS: counts.ticks,
            f.WATCH_AGE: _each(self._scaler.watch.ages(clock())),
            f.REJECTED: _each({kind: rejected[kind] for kind in self._scaler.objects.counts}),
        }

    def _savings_of(self, records: Sequence[Record], unit: int) -> _Samples:
        """Yield what sleep has saved, by Service; ``unit`` as in ``families.SAVED``."""
        for each in records:
            labels = (*each.name, str(each.trial is not None).lower())
            yield labels, self._saved(each, self._scaler.clock())[unit]


def unusable(rejected: Mapping[ObjectKey, str]) -> list[JsonObject]:
    """Return the first objects that the scaler cannot use, sorted by kind and name."""
    return [
        {"kind": key.kind, "namespace": key.namespace, "name": key.name, "problem": why}
        for key, why in sorted(rejected.items())[:MOST_OBJECTS]
    ]


def _load(name: ServiceName, loads: Loads, now: float) -> JsonObject:
    """Return the requests in flight or queued: now, as means of 60 s and 6 s, by activator.

    ``rate`` is the number of requests per second, as the mean of 60 s.
    """
    known, load = loads.of(name), loads.measured(name, now)
    each = known.by_activator() if known is not None else {}
    return {
        "current": load.current,
        "stable": load.stable,
        "panic": load.panic,
        "rate": load.rate,
        "byActivator": each,
    }


def _change(record: Record) -> JsonObject | None:
    """Return the last change of replicas by this process."""
    change = record.workload.change
    if change is None:
        return None
    known = {why.value: why for why in Why}
    sentence = rule_of(record, known[change.why]) if change.why in known else change.why
    at = change.at.isoformat(timespec="milliseconds")
    return {**change._asdict(), "at": at, "sentence": sentence}


#: Values with the values of their labels. Each is made when it is sent: all at once would take
#: 15 MiB in a large cluster.
_Samples = Iterable[tuple[tuple[str, ...], float]]
_Values = _Samples | Histogram  # a histogram has no labels


def _by_service(records: Sequence[Record], value: Callable[[Record], float | None]) -> _Samples:
    """Yield the value of each Service that has one."""
    for each in records:
        if (found := value(each)) is not None:
            yield each.name, found


def _wanted(record: Record) -> int | None:
    """Return the replicas that a rule wants, or else the present ones; None if they are unknown."""
    replicas, wanted = record.facts.replicas, record.planner.wanted
    return replicas if replicas is None or wanted is None else wanted


def _problems(record: Record) -> Iterable[str]:
    """Return the word of each problem of a Service, once."""
    decided, facts = record.decided, record.facts
    found = (each.reason.value for each in (*facts.findings, *facts.warnings))
    return dict.fromkeys(filter(None, (decided.reason if decided else "", *found)))


def _each(values: Mapping[str, float]) -> _Samples:
    """Return values with their only label."""
    return [((label,), value) for label, value in values.items()]


def _lines(write: TextWriter, family: Family, values: _Values) -> Iterator[str]:
    yield write.header(family)
    if isinstance(values, Histogram):
        yield write.histogram(family, "", values)
        return
    for labels, value in values:
        pairs = zip(family.labels, labels, strict=True)
        yield write.sample(family, write.labels(*pairs), value)
