"""Keeps the state of one Service between two decisions: facts, plan, and the last change."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple, Protocol, final

from activator.kpa.decision import SENTENCES as RULES
from activator.kpa.decision import Why
from activator.plain.annotation_values import Route
from activator.plain.service import PlainService
from activator.records.counters import Histogram
from activator.scale.decisions import reasons
from activator.scale.decisions.plan import (
    ACTIVATION_LEASE,
    FOREVER,
    NEVER,
    Hold,
    Plan,
    Planner,
    Seen,
)
from activator.scale.decisions.reasons import Finding
from activator.scale.families import COLD_START_BOUNDS, TICK_BOUNDS
from activator.scale.reports.load import Name
from activator.scale.workloads.replicas import REFUSALS, Problem, Result, Rights, ScaleTarget
from activator.scale.workloads.services import Found, Joined, TargetProblem


class Decided(NamedTuple):
    """What was decided about one Service.

    Attributes:
        service: as its annotations have it.
        target: its workload; None if it has none.
        replicas: how many the workload asks for; None if that is unknown.
        ready: pods that Kubernetes lists as ready.
        plan: what to do; None if the Service cannot be scaled.
        reason: why the Service is not scaled as its load asks for; empty if it is.
        detail: the reason for people.
        findings: more that a user must know.
    """

    service: PlainService
    target: ScaleTarget | None
    replicas: int | None
    ready: int
    plan: Plan | None
    reason: str = ""
    detail: str = ""
    findings: tuple[Finding, ...] = ()


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


class Effect(Protocol):
    """Carries out one part of a decision. A call must not block."""

    def put(self, name: Name, decided: Decided, now: float) -> None:
        """Carry out a decision. The engine calls it when anything but the load differs.

        Arguments:
            now: seconds, monotonic, on the loop's clock.
        """

    def remove(self, name: Name, now: float) -> None:
        """Record that a Service is deleted, or no longer opts in."""

    def start(self, now: float) -> None:
        """Begin to write: this process leads, and has decided about all Services."""

    def stop(self, now: float) -> None:
        """Write nothing more: this process no longer leads."""


class Guard(Protocol):
    """Knows what other components do with workloads."""

    def slice_since(self, name: Name, now: float) -> float | None:
        """Return since when the activators are endpoints of a Service; None if they are not."""

    def lease(self, service: PlainService, target: ScaleTarget) -> float:
        """Return the seconds for which the owner of a workload must read it as active."""

    def findings(self, name: Name) -> Sequence[Finding]:
        """Return what a user must know of a Service."""

    def other_owner(self, name: Name, service: PlainService, target: ScaleTarget) -> str:
        """Return which other component scales a workload, as in ``HPA shop/hello``.

        Returns:
            Empty if there is none, or if the Service's annotation names it as the owner.
        """


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


class Facts(NamedTuple):
    """What is known of a Service, apart from its load; it changes with the Service's objects."""

    service: PlainService
    target: ScaleTarget | None
    replicas: int | None
    ready: int
    reason: str = ""
    detail: str = ""
    findings: tuple[Finding, ...] = ()
    other_owner: str = ""
    lease: float = ACTIVATION_LEASE
    is_watched: bool = True

    @property
    def is_settled(self) -> bool:
        """Whether they stay as they are until an object changes."""
        return not (self.reason or self.findings) and self.service.asks.route is Route.SHARED


class Record:
    """One Service.

    Attributes:
        decided: the last decision.
        change: the last change of replicas; None before the first.
        why: the rule behind the request for replicas that is under way; None without one.
    """

    __slots__ = (
        "change",
        "cold_since",
        "concluded",
        "decided",
        "facts",
        "failed",
        "look_at",
        "not_before",
        "other_owner",
        "planner",
        "quiet_until",
        "renew_at",
        "why",
    )

    def __init__(self, facts: Facts, now: float) -> None:
        self.facts = facts
        self.planner = Planner(now, facts.ready)
        self.decided: Decided | None = None
        # The facts of the last decision.
        self.concluded: Facts | None = None
        self.change: ReplicaChange | None = None
        self.why: Why | None = None
        self.failed: Result | None = None
        # When a request began to wait for the first pod.
        self.cold_since: float | None = None
        self.other_owner = ""
        self.look_at = NEVER
        self.not_before = NEVER
        self.renew_at = FOREVER
        # Nothing changes before that without an event: the workload has no requests.
        self.quiet_until = NEVER

    @property
    def is_refused(self) -> bool:
        """Whether the API server has refused the last change."""
        return self.failed is not None and self.failed.problem in REFUSALS

    @property
    def needs_look(self) -> bool:
        """Whether only a read shows the workload as it is, or that the API server responds."""
        return not self.facts.is_watched or not (self.failed is None or self.is_refused)

    def renew(self, facts: Facts) -> None:
        """Record the facts as the objects have them now."""
        known = self.facts
        if known.target != facts.target:
            self.failed, self.not_before = None, NEVER
            self.look_at = NEVER
        elif facts.target is not None and facts.replicas is None:
            facts = facts._replace(replicas=known.replicas)  # no watch; the last read counts
        self.facts = facts

    def note(self, result: Result, not_before: float) -> None:
        """Record the result of a request for replicas.

        Arguments:
            not_before: when the request may be repeated, unless the workload is asleep.
        """
        # A read does not prove that a change is allowed.
        if result.problem or result.changed_from is not None or not self.is_refused:
            self.failed = result if result.problem is not None else None
        self.concluded = None
        self.not_before = not_before
        self.quiet_until = NEVER
        if self.facts.reason and result.changed_from is not None:
            self.facts = self.facts._replace(reason="", detail="")


def read(joined: Joined, rights: Rights) -> Facts:
    """Return the facts about a Service, without the findings of the parts."""
    service, found, ready = joined
    if service.refused:
        reason = service.refusal or reasons.SERVICE_REFUSED
        return Facts(service, None, None, ready, reason, service.refused)
    if found.look_up is not None:
        found = _looked_up(service, found, rights)
    if found.problem is not None:
        return Facts(service, None, None, ready, found.problem.value, found.detail)
    if found.target is None:
        return Facts(service, None, None, ready, reasons.REPLICAS_UNKNOWN)
    missing = rights.problem(found.target)
    reason = Problem.FORBIDDEN.value if missing else ""
    is_watched = found.replicas is not None
    return Facts(
        *(service, found.target, found.replicas, ready, reason, missing),
        is_watched=is_watched,
    )


def _looked_up(service: PlainService, found: Found, rights: Rights) -> Found:
    """Return the target of a kind that only the API server knows."""
    wanted = found.look_up
    assert wanted is not None
    resource = rights.resource(wanted)
    if resource is None:
        return found
    if isinstance(resource, str):
        detail = f"annotation activator.dev/target: {wanted}: {resource}"
        return Found(None, problem=TargetProblem.UNKNOWN_KIND, detail=detail)
    return Found(ScaleTarget(resource, service.key.namespace, wanted.name))


#: The rules by which an idle workload keeps its replicas.
_IDLE_RULES: Final = frozenset({None, Why.IDLE, Why.NOT_IDLE, Why.MIN_SCALE})


def quiet_until(record: Record, plan: Plan, seen: Seen) -> float:
    """Return when a plan may change without a report or another event; -inf for each tick.

    Arguments:
        record: the Service.
        plan: its last plan.
        seen: what the plan is about.
    """
    is_idle = not seen.current and not seen.stable
    if not is_idle or plan.replicas is not None or plan.hold is not Hold.NONE:
        return NEVER
    if plan.why not in _IDLE_RULES:
        return NEVER
    times = [plan.next, record.renew_at]
    if seen.replicas and plan.why is not None:
        times.append(record.planner.idle_at(record.facts.service.asks))
    if record.needs_look:
        times.append(record.look_at)
    return min(times)


logger = logging.getLogger(__name__)


def conclude(record: Record, plan: Plan | None) -> Decided | None:
    """Record a decision about a Service.

    Arguments:
        plan: None if the Service cannot be scaled, or if its replicas are unknown.

    Returns:
        None if it does not differ from the last one, apart from the load.
    """
    facts, before = record.facts, record.decided
    is_known = before is not None and record.concluded is facts and record.failed is None
    if is_known and before is not None and _is_same(before.plan, plan):
        return None
    record.concluded = facts
    reason, detail = _reason(record, plan)
    if before is not None and (
        before[:4] == facts[:4]
        and _is_same(before.plan, plan)
        and (before.reason, before.detail) == (reason, detail)
        and before.findings == facts.findings
    ):
        return None
    record.decided = Decided(*facts[:4], plan, reason, detail, facts.findings)
    return record.decided


def log_reason(name: Name, before: Decided | None, decided: Decided) -> None:
    """Log a new reason why a Service is not scaled, and its end."""
    now = decided.reason, decided.detail
    if before is not None and (before.reason, before.detail) == now:
        return
    is_quiet = decided.reason in reasons.QUIET
    if is_quiet and (before is None or before.reason in reasons.QUIET):
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


def fields(name: Name, **more: object) -> Mapping[str, object]:
    """Return the fields of a log line about a Service."""
    return {"service_namespace": name.namespace, "service_name": name.name, **more}


def _reason(record: Record, plan: Plan | None) -> tuple[str, str]:
    """Return why a Service is not scaled as its load asks for, and the detail for people."""
    facts = record.facts
    is_content = plan is not None and plan.replicas is None and plan.hold is Hold.NONE
    # Without pods, the client of a failed cold start has left. The next one would fail like it.
    if is_content and facts.ready:
        record.failed = None  # nothing is wanted any more
    failed = record.failed
    if failed is not None and failed.problem is not None:
        return failed.problem.value, failed.detail
    if facts.reason:
        return facts.reason, facts.detail
    if plan is None:
        return reasons.REPLICAS_UNKNOWN, ""
    if plan.hold is Hold.TWO_OWNERS:
        return plan.hold.value, reasons.two_owners(record.other_owner)
    return plan.hold.value, ""


def _is_same(one: Plan | None, other: Plan | None) -> bool:
    """Return whether two plans are equal, apart from the time of the next one."""
    return one is other or (one is not None and other is not None and one[:-1] == other[:-1])


@final
class Changes:
    """Records changes and failures.

    Arguments:
        counters: take the counts.
        clock: seconds, monotonic.
        wall: the time of day.
    """

    def __init__(
        self, counters: EngineCounters, clock: Callable[[], float], wall: Callable[[], datetime]
    ) -> None:
        self._counters = counters
        self._clock = clock
        self._wall = wall

    def count_failure(self, result: Result) -> None:
        """Count a failed request; a result without a problem does not count."""
        if result.problem is not None:
            word = result.problem.value
            self._counters.failures[word] = self._counters.failures.get(word, 0) + 1

    def note(
        self, name: Name, record: Record, target: ScaleTarget, before: int, after: int
    ) -> None:
        """Record a change of a Service's replicas.

        Arguments:
            record: of the Service.
            target: its workload.
            before, after: replicas.
        """
        plan = record.decided.plan if record.decided is not None else None
        # An event may show the change, and end its rule, before the API server responds.
        why = record.why or (plan.why if plan is not None else None)
        record.why = None
        word = why.value if why is not None else "unknown"
        record.change = ReplicaChange(self._wall(), before, after, word)
        if record.cold_since is not None:
            self._counters.cold_starts.observe(self._clock() - record.cold_since)
            record.cold_since = None
        self._counters.changes[word] = self._counters.changes.get(word, 0) + 1
        logger.info(
            "Service %s/%s: %s: %d -> %d replicas: %s",
            *name,
            f"{target.resource.kind} {target.name}",
            before,
            after,
            RULES[why] if why is not None else "decided before",
            extra=fields(name, reason=word, replicas=after),
        )
