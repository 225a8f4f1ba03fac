"""Decides about all Services: every tick, and at once when a request waits or an object changes.

Only the leader runs it. The rules are in ``plan``; this module collects the facts, and starts the
requests. It has the clock of its caller.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, Protocol

from activator.kpa.decision import SENTENCES as RULES
from activator.kpa.decision import Why
from activator.plain.annotations import Route
from activator.scale.decisions import reasons
from activator.scale.decisions.effects import Change, Decided, Effect, Guard, NoGuard
from activator.scale.decisions.facts import read
from activator.scale.decisions.plan import Hold, Plan, Seen
from activator.scale.decisions.record import Counters, Facts, Record
from activator.scale.reports.load import Loads, Name, ServiceLoad
from activator.scale.workloads.actuator import Actuator, Result, Target, Wish
from activator.scale.workloads.rights import Rights
from activator.scale.workloads.services import Services
from activator.scale.workloads.subresource import Problem

logger = logging.getLogger(__name__)

#: Seconds between two decisions about all Services, as in Knative.
TICK: Final = 2.0
#: Seconds for which a new leader removes no replicas: it has no history, and the activators
#: connect to it one after the other.
NEW_LEADER: Final = 60.0
#: Seconds between two reads of a workload that no watch follows.
LOOK: Final = 10.0
#: Seconds until a change that only a person can make possible is tried again.
AGAIN: Final = 30.0
#: Seconds between two clean-ups of loads that no Service has.
_PRUNE: Final = 60.0

#: The rules by which an idle workload keeps its replicas.
_IDLE_RULES: Final = frozenset({None, Why.IDLE, Why.NOT_IDLE, Why.MIN_SCALE})
#: One object for all: thousands of Services have these times.
_NEVER: Final = float("-inf")
_FOREVER: Final = float("inf")
_LASTING: Final = frozenset({Problem.FORBIDDEN, Problem.MISSING, Problem.REFUSED})


class Timer(Protocol):
    """Calls a function at a time (asyncio.AbstractEventLoop.call_at)."""

    def __call__(self, when: float, callback: Callable[[Name], object], name: Name, /) -> object:
        """Call ``callback(name)`` at ``when``."""


class Engine:
    """The decisions about all Services.

    Arguments:
        services: the Services, with their workloads and pods.
        loads: the reports of the activators.
        rights: looks up kinds and rights.
        scale: returns the actuator that carries out changes; its argument receives each result.
        frozen: returns why no replicas may be removed, as far as it is not about the leader.
        guard: knows the other components.
        effects: carry out the rest of each decision.
        call_at: calls a function at a time, on the clock of ``now``.
        clock: seconds, monotonic.
        wall: the time of day.

    Attributes:
        counters: for metrics.
    """

    def __init__(
        self,
        services: Services,
        loads: Loads,
        rights: Rights,
        scale: Callable[[Callable[[Target, Result], None]], Actuator],
        frozen: Callable[[float], Hold],
        call_at: Timer,
        clock: Callable[[], float],
        guard: Guard | None = None,
        effects: Sequence[Effect] = (),
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.counters = Counters()
        self._services = services
        self._loads = loads
        self._rights = rights
        self._actuator = scale(self._on_result)
        self._is_frozen = frozen
        self._call_at = call_at
        self._clock = clock
        self._guard = guard or NoGuard()
        self._effects = effects
        self._wall = wall
        self._records: dict[Name, Record] = {}
        self._sharing: dict[Target, tuple[Name, ...]] = {}
        self._since: float | None = None
        self._next_tick = 0.0
        self._next_prune = 0.0

    # -- whether to decide -------------------------------------------------------------------------

    def start(self, now: float) -> None:
        """Begin to decide: this process leads, and all objects have been listed."""
        self._since, self._next_tick = now, now + TICK
        for name in self._services:
            self._renew(name, now)
        for name, record in list(self._records.items()):
            self._decide(name, record, now)
        for effect in self._effects:
            effect.start(now)

    def stop(self, now: float) -> None:
        """Decide nothing more. Requests under way end."""
        self._since = None
        for record in self._records.values():
            if record.facts.target is not None:
                self._actuator.cancel(record.facts.target)
        self._records.clear()
        self._sharing.clear()
        for effect in self._effects:
            effect.stop(now)

    # -- events ------------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Decide about all Services that may need it."""
        if self._since is None:
            return
        self._next_tick = now + TICK
        frozen = self._frozen(now)
        for name, record in list(self._records.items()):
            # A time before the next tick needs a timer, which the decision sets.
            if record.quiet_until < self._next_tick:
                try:
                    self._decide(name, record, now, frozen)
                except Exception:
                    # A defect must not stop the other Services.
                    logger.exception("Service %s/%s: unexpected error", *name)
        if now >= self._next_prune:
            self._next_prune = now + _PRUNE
            self._loads.prune(self._records.keys(), now)

    def busy(self, names: Iterable[Name]) -> None:
        """Decide at once about Services without pods: an activator reports requests."""
        now = self._clock()
        for name in names:
            record = self._records.get(name)
            if record is None:
                continue
            record.quiet_until = _NEVER
            if record.facts.target is not None:
                self._wake(record.facts.target)
            if record.facts.ready:
                continue
            if not record.facts.replicas:
                self._decide(name, record, now)
            elif not record.facts.is_watched and record.facts.target is not None:
                self._actuator.look(record.facts.target)

    def changed(self, names: Iterable[Name]) -> None:
        """Decide about Services whose objects have changed, or are gone."""
        if self._since is None:
            return
        now = self._clock()
        for name in names:
            self._renew(name, now)
            if (record := self._records.get(name)) is not None:
                self._decide(name, record, now)

    def renew_all(self, namespace: str) -> None:
        """Decide again about all Services of a namespace; empty for all namespaces."""
        self.changed([name for name in self._records if namespace in ("", name.namespace)])

    # -- what people read --------------------------------------------------------------------------

    def __iter__(self) -> Iterator[tuple[Name, Record]]:
        return iter(self._records.items())

    def get(self, name: Name) -> Record | None:
        """Return a Service; None if this process does not lead, or does not know it."""
        return self._records.get(name)

    # -- facts -------------------------------------------------------------------------------------

    def _renew(self, name: Name, now: float) -> None:
        """Read the facts about a Service again."""
        joined, record = self._services.get(name), self._records.get(name)
        if joined is None:
            self._remove(name, now)
            return
        facts = read(joined, self._rights)
        if record is not None and facts.target is not None and facts.replicas is None:
            known = record.facts  # no watch follows the workload; the last read counts
            replicas = known.replicas if known.target == facts.target else None
            facts = facts._replace(replicas=replicas)
        if record is None:
            record = self._records[name] = Record(facts, now)
            self._share(name, None, facts.target)
        else:
            self._share(name, record.facts.target, facts.target)
            if record.facts.target != facts.target:
                record.failed, record.not_before = None, _NEVER
                record.look_at = _NEVER
            record.facts = facts
        findings = tuple(self._guard.findings(name))
        record.facts = facts = facts._replace(findings=findings)
        if (target := facts.target) is not None:
            record.facts = facts._replace(
                other_owner=self._guard.other_owner(name, facts.service, target),
                lease=self._guard.lease(facts.service, target),
            )
        is_settled = not (facts.reason or findings or facts.service.asks.route is Route.TAKEOVER)
        record.renew_at = _FOREVER if is_settled else now + AGAIN
        record.quiet_until = _NEVER

    def _remove(self, name: Name, now: float) -> None:
        record = self._records.pop(name, None)
        if record is None:
            return
        self._share(name, record.facts.target, None)
        self._loads.remove(name)
        for effect in self._effects:
            effect.remove(name, now)

    def _share(self, name: Name, before: Target | None, after: Target | None) -> None:
        """Record which Services have a workload in common; a change of one concerns all."""
        if before is not None and before != after:
            left = tuple(each for each in self._sharing[before] if each != name)
            if left:
                self._sharing[before] = left
                self._wake(before)
            else:
                del self._sharing[before]
        if after is not None:
            if before != after:
                self._sharing[after] = tuple(sorted({*self._sharing.get(after, ()), name}))
            self._wake(after)

    def _wake(self, target: Target) -> None:
        """Decide at the next tick about all Services of a workload: they add their loads."""
        sharing = self._sharing.get(target, ())
        if len(sharing) > 1:
            for name in sharing:
                self._records[name].quiet_until = _NEVER

    # -- decisions ---------------------------------------------------------------------------------

    def _frozen(self, now: float) -> Hold:
        """Return why no replicas of any workload may be removed."""
        if (hold := self._is_frozen(now)) is not Hold.NONE:
            return hold
        assert self._since is not None
        return Hold.NEW_LEADER if now < self._since + NEW_LEADER else Hold.NONE

    def _decide_later(self, name: Name) -> None:
        record = self._records.get(name)
        if record is not None and self._since is not None:
            self._decide(name, record, self._clock())

    def _decide(self, name: Name, record: Record, now: float, frozen: Hold | None = None) -> None:
        """Make a plan for a Service, and carry it out."""
        if now >= record.renew_at:
            self._renew(name, now)
        facts = record.facts
        if facts.target is None:
            record.quiet_until = record.renew_at
            self._conclude(name, record, None, now)
            return
        if not facts.is_watched and now >= record.look_at:
            record.look_at = now + LOOK
            self._actuator.look(facts.target)
        if facts.replicas is None:
            self._conclude(name, record, None, now)
            return
        seen = self._seen(name, facts, now, self._frozen(now) if frozen is None else frozen)
        plan = record.planner.decide(facts.service.asks, seen, now)
        if record.other_owner != seen.other_owner:
            record.other_owner, record.concluded = seen.other_owner, None
        if plan.replicas is not None and (not facts.replicas or now >= record.not_before):
            if not facts.replicas and record.cold_since is None:
                record.cold_since = now
            self._actuator.scale(facts.target, Wish(facts.replicas, plan.replicas))
        if now < plan.next < self._next_tick:
            self._call_at(plan.next, self._decide_later, name)
        record.quiet_until = self._quiet_until(record, plan, seen)
        self._conclude(name, record, plan, now)

    def _quiet_until(self, record: Record, plan: Plan, seen: Seen) -> float:
        """Return when the plan may change without a report or another event."""
        is_idle = not seen.current and not seen.stable
        if not is_idle or plan.replicas is not None or plan.hold is not Hold.NONE:
            return _NEVER
        if plan.why not in _IDLE_RULES:
            return _NEVER
        times = [plan.next, record.renew_at]
        if seen.replicas and plan.why is not None:
            times.append(record.planner.idle_at(record.facts.service.asks))
        if not record.facts.is_watched:
            times.append(record.look_at)
        return min(times)

    def _seen(self, name: Name, facts: Facts, now: float, frozen: Hold) -> Seen:
        """Return what a plan needs; the loads of Services with one workload are added."""
        assert facts.target is not None
        assert facts.replicas is not None
        other, decides = facts.other_owner, True
        sharing = self._sharing[facts.target]
        if len(sharing) == 1:
            stable, panic, current, last_busy = self._load(self._loads.of(name), now)
        else:
            rows = [self._load(self._loads.of(each), now) for each in sharing]
            stable, panic, current = (sum(row[at] for row in rows) for at in range(3))
            last_busy = max(row[3] for row in rows)
            elder = min(sharing, key=self._age)
            if elder != name:
                decides = False
                other = f"Service {'/'.join(elder)}"
        slice_since = None
        if facts.service.asks.route is Route.TAKEOVER:
            slice_since = self._guard.slice_since(name, now)
        return Seen(
            *(current, stable, panic, last_busy, frozen, facts.replicas, facts.ready),
            *(other, slice_since, facts.lease, decides),
        )

    def _load(self, load: ServiceLoad | None, now: float) -> tuple[float, float, float, float]:
        """Return the load of both windows and of now, and when there was a request."""
        if load is None:
            return 0.0, 0.0, 0.0, _NEVER
        stable, panic = load.window.averages(int(now))
        return stable, panic, load.current(now, self._loads.lost), load.last_busy

    def _age(self, name: Name) -> tuple[str, Name]:
        return self._records[name].facts.service.created, name

    # -- results -----------------------------------------------------------------------------------

    def _conclude(self, name: Name, record: Record, plan: Plan | None, now: float) -> None:
        """Record a decision, and pass it to the effects if it differs from the last one."""
        facts, before = record.facts, record.decided
        is_known = before is not None and record.concluded is facts and record.failed is None
        if is_known and before is not None and _is_same(before.plan, plan):
            return
        record.concluded = facts
        reason, detail = self._reason(record, plan)
        if before is not None and (
            before[:4] == facts[:4]
            and _is_same(before.plan, plan)
            and (before.reason, before.detail) == (reason, detail)
            and before.findings == facts.findings
        ):
            return
        decided = Decided(*facts[:4], plan, reason, detail, facts.findings)
        record.decided = decided
        if before is None or (reason, detail) != (before.reason, before.detail):
            self._log_reason(name, before, decided)
        for effect in self._effects:
            effect.put(name, decided, now)

    def _reason(self, record: Record, plan: Plan | None) -> tuple[str, str]:
        facts = record.facts
        if plan is not None and plan.replicas is None and plan.hold is Hold.NONE:
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

    def _log_reason(self, name: Name, before: Decided | None, decided: Decided) -> None:
        is_quiet = decided.reason in reasons.QUIET
        if is_quiet and (before is None or before.reason in reasons.QUIET):
            return
        if is_quiet:
            logger.info("Service %s/%s: scaled again", *name, extra=_fields(name))
            return
        logger.warning(
            "Service %s/%s: %s: %s",
            *name,
            decided.reason,
            reasons.text(decided.reason, decided.detail),
            extra=_fields(name, reason=decided.reason),
        )

    def _on_result(self, target: Target, result: Result) -> None:
        """Record the result of a request for replicas."""
        now = self._clock()
        if result.problem is not None:
            word = result.problem.value
            self.counters.failures[word] = self.counters.failures.get(word, 0) + 1
        names = self._sharing.get(target, ())
        if result.changed_from is not None and result.replicas is not None:
            self._rights.granted(target)
            self._note_change(names, target, result.changed_from, result.replicas)
        for name in names:
            record = self._records[name]
            record.failed = result if result.problem is not None else None
            record.concluded = None
            record.not_before = now + AGAIN if result.problem in _LASTING else _NEVER
            record.quiet_until = _NEVER
            if record.facts.reason and result.changed_from is not None:
                record.facts = record.facts._replace(reason="", detail="")
            if result.replicas not in (None, record.facts.replicas):
                record.facts = record.facts._replace(replicas=result.replicas)
                self._decide(name, record, now)
            else:
                plan = record.decided.plan if record.decided is not None else None
                self._conclude(name, record, plan, now)

    def _note_change(self, names: Sequence[Name], target: Target, before: int, after: int) -> None:
        for name in names:
            record = self._records[name]
            plan = record.decided.plan if record.decided is not None else None
            why = plan.why if plan is not None else None
            word = why.value if why is not None else "unknown"
            record.change = Change(self._wall(), before, after, word)
            if record.cold_since is not None:
                self.counters.cold_starts.observe(self._clock() - record.cold_since)
                record.cold_since = None
            self.counters.changes[word] = self.counters.changes.get(word, 0) + 1
            logger.info(
                "Service %s/%s: %s: %d -> %d replicas: %s",
                *name,
                f"{target.resource.kind} {target.name}",
                before,
                after,
                RULES[why] if why is not None else "decided before",
                extra=_fields(name, reason=word, replicas=after),
            )


def _is_same(one: Plan | None, other: Plan | None) -> bool:
    """Return whether two plans are equal, apart from the time of the next one."""
    return one is other or (one is not None and other is not None and one[:-1] == other[:-1])


def _fields(name: Name, **more: object) -> Mapping[str, object]:
    """Return the fields of a log line."""
    return {"service_namespace": name.namespace, "service_name": name.name, **more}
