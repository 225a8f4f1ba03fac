"""Keeps the state of one Service between two decisions: facts, plan, and the last change."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, NamedTuple

from activator.kpa.decision import SENTENCES as RULES
from activator.kpa.decision import Why
from activator.objects.fields import shared
from activator.plain import service as services
from activator.plain.annotations import NO_WORDS, Route
from activator.plain.service import PlainService
from activator.records.counters import Histogram
from activator.scale import reasons
from activator.scale.decisions.plan import (
    ACTIVATION_LEASE,
    FOREVER,
    NEVER,
    Observed,
    Plan,
    Planner,
    WorkloadPhase,
)
from activator.scale.families import COLD_START_BOUNDS, TICK_BOUNDS
from activator.scale.reasons import QUIET, Finding, ScaleReason
from activator.scale.reports.load import ServiceName
from activator.scale.wakers.scale import SCALE
from activator.scale.wakers.table import waker_of
from activator.scale.wakers.waker import AnyWaker
from activator.scale.workloads.replicas import KNOWN as KNOWN_KINDS
from activator.scale.workloads.replicas import REFUSALS, Result, Rights, ScaleTarget
from activator.scale.workloads.services import Found, Joined

logger = logging.getLogger(__name__)

#: Seconds until a change that only a person can make possible is tried again, unless the workload
#: is asleep; and until facts are read again that may change without an event.
AGAIN: Final = 30.0

#: Seconds between two reads of a workload that no watch follows.
LOOK: Final = 10.0
#: Seconds for which a cold start of a Service counts as a request to the Services that it wakes.
CALL: Final = 30.0
#: Seconds until the time of day is read again: the clock may have been set.
HOUR: Final = 3600.0

#: The place of a plan's time of the next one, which a kept plan does not have.
_NEXT: Final = Plan._fields.index("next")
#: The rules by which an idle workload keeps its replicas.
_IDLE_RULES: Final = frozenset({None, Why.IDLE, Why.NOT_IDLE, Why.MIN_SCALE, Why.AWAKE_HOURS})


class Facts(NamedTuple):
    """What is known of a Service, apart from its load; it changes with the Service's objects.

    Attributes:
        service: as its annotations have it.
        target: its workload; None if it has none.
        replicas: how many the workload asks for; None if that is unknown.
        listed: pods that Kubernetes lists as ready.
        reason: why it cannot be scaled; empty if it can.
        detail: the reason for people.
        findings: more that a user must know.
        other_owner: another component that scales the workload, as in ``HPA shop/hello``.
        lease: seconds for which the owner of the workload must read it as active.
        is_watched: whether a watch follows the workload.
    """

    service: PlainService
    target: ScaleTarget | None
    replicas: int | None
    listed: int
    reason: str = ""
    detail: str = ""
    findings: tuple[Finding, ...] = ()
    other_owner: str = ""
    lease: float = ACTIVATION_LEASE
    is_watched: bool = True

    @property
    def marks(self) -> bool:
        """Whether the Service has the asleep mark while its workload sleeps."""
        return self.target is not None and self.target.waker.marks

    @property
    def ready(self) -> int:
        """Pods that may get requests: no pod of a workload that sleeps, though it is listed."""
        return self.listed if self.replicas or not self.marks else 0

    @property
    def is_paused(self) -> bool:
        """Whether the ScaledObject that owns the workload must not add replicas."""
        paused = ScaleReason.SCALED_OBJECT_PAUSED
        return any(each.reason is paused for each in self.findings)

    @property
    def warnings(self) -> Sequence[Finding]:
        """What a user must know of the Service's own fields."""
        general = ScaleReason.SERVICE_WARNING
        warnings = self.service.warnings
        return [Finding(ScaleReason(services.word_of(each, general)), each) for each in warnings]

    @property
    def is_settled(self) -> bool:
        """Whether they stay as they are until an object changes."""
        asks = self.service.asks
        has_problem = self.reason or self.findings
        return not (has_problem or asks.wake_with) and asks.route is Route.SHARED


class Decided(NamedTuple):
    """What was decided about one Service.

    Attributes:
        plan: what to do; None if the Service cannot be scaled.
        reason: why the Service is not scaled as its load asks for; empty if it is.
        detail: the reason for people.
    """

    facts: Facts
    plan: Plan | None
    reason: str = ""
    detail: str = ""

    @property
    def shown(self) -> tuple[object, ...]:
        """What the parts get, beside the plan: a decision that changes no more is not new."""
        facts = self.facts
        found = facts.service, facts.target, facts.replicas, facts.ready, facts.findings
        return *found, self.reason, self.detail


class ReplicaChange(NamedTuple):
    """A change of replicas by this process.

    Attributes:
        at: time of day.
        why: the rule, as ``kpa.decision.Why`` has it.
    """

    at: datetime
    before: int
    after: int
    why: str


def read_facts(joined: Joined, rights: Rights) -> Facts:
    """Return the facts about a Service, without the findings of the parts."""
    service, found, ready = joined
    if service.refused:
        reason = service.refusal or ScaleReason.SERVICE_REFUSED
        return Facts(service, None, None, ready, reason, service.refused)
    if found.look_up is not None:
        found = _looked_up(service, found, rights)
    if found.problem is not None:
        return Facts(service, None, None, ready, found.problem, found.detail)
    if (target := found.target) is None:
        return Facts(service, None, None, ready, ScaleReason.REPLICAS_UNKNOWN)
    replicas, waker = found.replicas, _waker(service, target)
    if isinstance(waker, str) and service.mark:  # it fitted when the workload fell asleep
        service = services.awake(services.as_marked(service))
        waker = _waker(service, target)
    if isinstance(waker, str):
        return Facts(service, None, None, ready, ScaleReason.WAKER_REFUSED, waker)
    if waker is not SCALE:
        target, replicas = target._replace(waker=waker), None
    elif not target.resource.has_scale:
        detail = _NO_SCALE.format(service.asks.target, target.resource)
        return Facts(service, None, None, ready, ScaleReason.UNKNOWN_TARGET_KIND, detail)
    if waker.is_binary:
        asks, least = service.asks, min(service.asks.scale.min_scale, 1)
        rules = replace(
            asks.scale, min_scale=least, max_scale=1, initial_scale=1, activation_scale=1
        )
        service = replace(service, asks=replace(asks, scale=rules))
    missing = rights.problem(target)
    forbidden = ScaleReason.SCALE_FORBIDDEN if missing else ""
    is_watched = replicas is not None
    return Facts(service, target, replicas, ready, forbidden, missing, is_watched=is_watched)


def _waker(service: PlainService, target: ScaleTarget) -> AnyWaker | str:
    """Return the waker of a Service, or why it can have none; most Services need no table."""
    is_plain = service.asks.waker is NO_WORDS and target.resource in KNOWN_KINDS.values()
    return SCALE if is_plain else waker_of(service, target)


_NO_SCALE: Final = (
    "annotation activator.dev/target: {0}: {1.kind} of {1.group}/{1.version} has no scale "
    "subresource: say how it sleeps by activator.dev/waker patch, with activator.dev/sleep-patch "
    "and activator.dev/wake-patch"
)


def _looked_up(service: PlainService, found: Found, rights: Rights) -> Found:
    """Return the target of a kind that only the API server knows."""
    wanted = found.look_up
    assert wanted is not None
    kind = rights.resource(wanted)
    if kind is None:
        return found
    if isinstance(kind, str):
        detail = f"annotation activator.dev/target: {wanted}: {kind}"
        return Found(None, problem=ScaleReason.UNKNOWN_TARGET_KIND, detail=detail)
    return Found(ScaleTarget(kind, service.key.namespace, wanted.name))


@dataclass(slots=True, eq=False)
class Sleep:
    """The sleep of one workload, as this process has observed it; in a trial run, as it would be.

    Attributes:
        replicas: the last ones; -1 before the first.
        size: the pods that it had when it was last awake; 1 if it was never seen awake.
        since: when it fell asleep; None while it is awake.
        pod_seconds: what past sleep has saved.
        waited: requests that have begun a cold start.
    """

    replicas: int = -1
    size: int = 1
    since: float | None = None
    pod_seconds: float = 0.0
    waited: int = 0

    def note(self, replicas: int, now: float) -> None:
        """Record the replicas; ``now`` in seconds, monotonic."""
        self.replicas = replicas
        if not replicas:
            self.since = now
            return
        if self.since is not None:
            self.pod_seconds, self.since = self.saved(now), None
        self.size = replicas

    def saved(self, now: float) -> float:
        """Return the pod-seconds that all sleep has saved until now."""
        lasting = 0.0 if self.since is None else now - self.since
        return self.pod_seconds + self.size * lasting


@dataclass(slots=True, eq=False)
class Workload:
    """What the Services of one workload have in common; nearly all workloads have one Service.

    Attributes:
        change: the last change of replicas; None before the first.
        records: the Services.
    """

    change: ReplicaChange | None = None
    records: tuple[Record, ...] = ()

    @property
    def eldest(self) -> Record:
        """The oldest Service, which decides about the replicas."""
        return min(self.records, key=lambda each: (each.facts.service.created, each.name))

    @property
    def is_marked(self) -> bool:
        """Whether all Services have the asleep mark."""
        return all(each.facts.service.mark for each in self.records)

    @property
    def is_closing(self) -> bool:
        """Whether a Service is about to put it to sleep."""
        return any(each.sleeping or each.planner.is_closing for each in self.records)

    def other_waker(self, target: ScaleTarget) -> str:
        """Return the first Service with another waker than ``target`` has; empty for none.

        It would not know that the workload sleeps, and would send requests to its pods.
        """
        others = (each.name for each in self.records if each.facts.target != target)
        name = min(others, default=None)
        return f"waker of Service {'/'.join(name)}" if name is not None else ""


@dataclass(slots=True, eq=False)
class Record:
    """One Service.

    Attributes:
        decided: the last decision; None before the first.
        reconsiders: whether the reason must be concluded again, though no fact has changed.
        workload: shared with other Services, or its own if it has none.
        failed: the last failed request, until nothing is wanted any more.
        cold_since: when a request began to wait for the first pod.
        other_owner: as the last plan had it.
        look_at, not_before, renew_at: when to read the replicas, repeat a change, renew the facts.
        quiet_until: nothing changes before that without an event: the workload has no requests.
        sleeping: whether the request to fall asleep waits or is under way.
        instead: why it sleeps in another way than its waker's; empty if it does not.
        called_at: when a Service that wakes this one had a cold start.
        awake, awake_until: whether it has awake hours now, and when to look again.
        trial: the replicas of a trial run; None without one.
    """

    name: ServiceName
    facts: Facts
    planner: Planner
    sleep: Sleep = field(default_factory=Sleep)
    decided: Decided | None = None
    reconsiders: bool = False
    workload: Workload = field(default_factory=Workload)
    failed: Result | None = None
    cold_since: float | None = None
    other_owner: str = ""
    look_at: float = NEVER
    not_before: float = NEVER
    renew_at: float = FOREVER
    quiet_until: float = NEVER
    sleeping: bool = False
    instead: str = ""
    called_at: float = NEVER
    awake: bool = False
    awake_until: float = FOREVER
    trial: int | None = None

    @property
    def plan(self) -> Plan | None:
        """The plan of the last decision; None before the first, or if it had none."""
        return self.decided.plan if self.decided is not None else None

    @property
    def is_refused(self) -> bool:
        """Whether the API server has refused the last change."""
        return self.failed is not None and self.failed.problem in REFUSALS

    @property
    def needs_look(self) -> bool:
        """Whether only a read shows the workload as it is, or that the API server responds."""
        return not self.facts.is_watched or not (self.failed is None or self.is_refused)

    def begins_look(self, now: float) -> bool:
        """Return whether the caller must read the replicas now, and set the next time."""
        if now < self.look_at or not self.needs_look:
            return False
        self.look_at = now + LOOK
        return True

    def renew(self, facts: Facts, now: float) -> None:
        """Record the facts as the objects and the parts have them now."""
        known = self.facts
        if known.target != facts.target:
            self.failed, self.not_before = None, NEVER
            self.look_at = NEVER
        elif facts.target is not None and facts.replicas is None:
            facts = facts._replace(replicas=known.replicas)  # no watch; the last read counts
        self.facts = facts
        self.renew_at = FOREVER if facts.is_settled else now + AGAIN
        self.quiet_until = NEVER
        self.awake = False
        if not facts.service.asks.dry_run:
            self.trial = None
        self.awake_until = NEVER if facts.service.asks.awake.spans else FOREVER

    def with_wishes(self, seen: Observed, now: float, wall: datetime) -> Observed:
        """Return what was seen, with awake hours, the calls of other Services, and a trial run.

        Arguments:
            wall: the time of day.
        """
        asks = self.facts.service.asks
        if asks.awake.spans and now >= self.awake_until:
            self.awake, seconds = asks.awake.at(wall)
            self.awake_until = now + min(seconds, HOUR)
        called = not seen.current and now < self.called_at + CALL
        if not (asks.dry_run and self.facts.replicas):
            self.trial = None
        elif self.trial is None:
            self.trial = self.facts.replicas
        replicas = seen.replicas if self.trial is None else self.trial
        return seen._replace(
            awake=self.awake,
            awake_until=self.awake_until,
            called=called,
            current=1.0 if called else seen.current,
            last_busy=max(seen.last_busy, self.called_at),
            replicas=replicas,
            ready=seen.ready if replicas or self.trial is None else 0,
            marks=seen.marks and self.trial is None,
        )

    def as_trial(self, plan: Plan) -> Plan:
        """Return the plan of a trial run as the other components get it: the workload is awake."""
        wanted, replicas = self.planner.wanted, self.facts.replicas
        return plan._replace(
            replicas=None,
            hold=None if wanted in (None, replicas) else ScaleReason.DRY_RUN,
            takes_over=self.facts.service.asks.route is Route.FRONT,
            active=True,
            phase=WorkloadPhase.AWAKE if self.facts.ready else WorkloadPhase.STARTING,
        )

    def note(self, result: Result, not_before: float) -> None:
        """Record the result of a request for replicas.

        Arguments:
            not_before: when the request may be repeated, unless the workload is asleep.
        """
        # A read does not prove that a change is allowed.
        if result.problem or result.changed_from is not None or not self.is_refused:
            self.failed = result if result.problem is not None else None
        self.reconsiders = True
        self.not_before = not_before
        self.quiet_until = NEVER
        if self.facts.reason and result.changed_from is not None:
            self.facts = self.facts._replace(reason="", detail="")

    # -- decisions ---------------------------------------------------------------------------------

    def rest_until(self, plan: Plan, seen: Observed) -> float:
        """Return when a plan may change without a report or another event; -inf for each tick.

        Thousands of Services sleep, and nothing changes.

        Arguments:
            plan: the last one.
            seen: what the plan is about.
        """
        is_idle = not (seen.current or seen.stable or seen.rate)
        if not is_idle or plan.replicas is not None or plan.hold is not None:
            return NEVER
        if plan.why not in _IDLE_RULES:
            return NEVER
        times = [plan.next, self.renew_at]
        if seen.replicas and plan.why is not None:
            times.append(self.planner.idle_at(self.facts.service.asks))
        if self.needs_look:
            times.append(self.look_at)
        return min(times)

    def conclude(self, plan: Plan | None) -> Decided | None:
        """Record a decision about the Service, and log a new reason.

        Arguments:
            plan: None if the Service cannot be scaled, or if its replicas are unknown.

        Returns:
            None if it does not differ from the last one, apart from the load.
        """
        facts, before = self.facts, self.decided
        is_same = before is not None and _is_same(before.plan, plan)
        is_known = before is not None and before.facts is facts and not self.reconsiders
        if is_same and is_known and self.failed is None:
            return None
        self.reconsiders = False
        kept = plan and shared(plan._replace(next=NEVER))  # nearly all Services have equal plans
        decided = self.decided = Decided(facts, kept, *self._reason(plan))
        if before is not None and is_same and before.shown == decided.shown:
            return None
        _log_reason(self.name, before, decided)
        return decided

    def _reason(self, plan: Plan | None) -> tuple[str, str]:
        """Return why the Service is not scaled as its load asks for, and the detail for people."""
        facts = self.facts
        is_content = plan is not None and plan.replicas is None and plan.hold is None
        # Without pods, the client of a failed cold start has left. The next one would fail like it.
        if is_content and facts.ready:
            self.failed = None  # nothing is wanted any more
        failed = self.failed
        if failed is not None and failed.problem is not None:
            return failed.problem, failed.detail
        if facts.reason:
            return facts.reason, facts.detail
        if plan is None:
            return ScaleReason.REPLICAS_UNKNOWN, ""
        if plan.hold is ScaleReason.TWO_OWNERS:
            text = reasons.two_owners(self.other_owner)
            return plan.hold, reasons.worded(text, is_tcp=facts.service.asks.tcp.chosen)
        if self.instead and plan.hold is None:
            return ScaleReason.CANNOT_RESIZE, self.instead
        return plan.hold or "", ""


def _is_same(one: Plan | None, other: Plan | None) -> bool:
    """Return whether two plans are equal, apart from the time of the next one."""
    if one is None or other is None:
        return one is other
    return one[:_NEXT] == other[:_NEXT] and one.marked == other.marked


class EngineCounters:
    """Counts of the engine since the start.

    Attributes:
        changes: changes of replicas by their rule.
        failures: failed changes by their reason.
        cold_starts: seconds from the first report of a request to the API server's response.
        ticks: seconds of CPU time in which all Services were decided.
    """

    def __init__(self) -> None:
        self.changes: dict[str, int] = {}
        self.failures: dict[str, int] = {}
        self.cold_starts = Histogram(COLD_START_BOUNDS)
        self.ticks = Histogram(TICK_BOUNDS)

    def failed(self, result: Result) -> None:
        """Count a failed request; a result without a problem does not count."""
        if result.problem not in (None, ScaleReason.NOT_AWAKE_YET):
            word = result.problem.value
            self.failures[word] = self.failures.get(word, 0) + 1

    def changed(self, workload: Workload, result: Result, now: float, wall: datetime) -> None:
        """Count, log and record a change of a workload's replicas.

        Arguments:
            workload: it has a Service.
            result: of the change.
            now: seconds, monotonic.
            wall: the time of day.
        """
        record, before, after = workload.eldest, result.changed_from, result.replicas
        target = record.facts.target
        assert target is not None
        assert before is not None
        assert after is not None
        why = result.why or (record.plan.why if record.plan is not None else None)
        word = why.value if why is not None else "unknown"
        workload.change = ReplicaChange(wall, before, after, word)
        waits = [each.cold_since for each in workload.records]
        if begins := [since for since in waits if since is not None]:
            self.cold_starts.observe(now - min(begins))
        for each in workload.records:
            each.cold_since = None
        self.changes[word] = self.changes.get(word, 0) + 1
        logger.info(
            "Service %s/%s: %s: %d -> %d replicas: %s",
            *record.name,
            f"{target.resource.kind} {target.name}",
            before,
            after,
            rule_of(record, why) if why is not None else "decided before",
            extra=fields(record.name, reason=word, replicas=after),
        )


def rule_of(record: Record, why: Why) -> str:
    """Return the sentence of a rule about a Service."""
    return reasons.worded(RULES[why], is_tcp=record.facts.service.asks.tcp.chosen)


def _log_reason(name: ServiceName, before: Decided | None, decided: Decided) -> None:
    """Log a new reason why a Service is not scaled, and its end."""
    now = decided.reason, decided.detail
    if before is not None and (before.reason, before.detail) == now:
        return
    is_quiet = decided.reason in QUIET
    if is_quiet and (before is None or before.reason in QUIET):
        return
    if is_quiet:
        logger.info("Service %s/%s: scaled again", *name, extra=fields(name))
        return
    logger.warning(
        "Service %s/%s: %s: %s",
        *name,
        decided.reason,
        reasons.text(decided.reason, decided.detail),
        extra=fields(name, reason=decided.reason),
    )


def fields(name: ServiceName, **more: object) -> Mapping[str, object]:
    """Return the fields of a log line about a Service."""
    return {"service_namespace": name.namespace, "service_name": name.name, **more}
