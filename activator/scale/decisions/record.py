"""Keeps the state of one Service between two decisions: facts, plan, and the last change."""

from __future__ import annotations

from typing import NamedTuple

from activator.kpa.decision import Why
from activator.plain.annotations import Route
from activator.plain.service import PlainService
from activator.records.counters import Histogram
from activator.scale.decisions.effects import Change, Decided
from activator.scale.decisions.findings import Finding
from activator.scale.decisions.plan import ACTIVATION_LEASE, FOREVER, NEVER, Planner
from activator.scale.families import COLD_START_BOUNDS, TICK_BOUNDS
from activator.scale.workloads.actuator import Result, Target
from activator.scale.workloads.subresource import REFUSALS


class Counters:
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
    target: Target | None
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
        self.change: Change | None = None
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
