"""Decides about all Services: every tick, and at once when a request waits or an object changes.

Only the leader runs it. The rules are in ``plan``; this module knows when to apply them, and starts
the requests. It has the clock of its caller.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVarTuple

from activator.discovery.api_server import ApiServer
from activator.plain.annotations import Annotations
from activator.scale.cluster.api import Start
from activator.scale.decisions.plan import (
    NEVER,
    RETRY_COLD_START,
    WITH_SLICES,
    Observed,
    Plan,
    Planner,
)
from activator.scale.decisions.record import (
    AGAIN,
    CALL,
    LOOK,
    EngineCounters,
    Record,
    Workload,
    read_facts,
)
from activator.scale.reasons import ScaleReason
from activator.scale.reports.load import Loads, Measure, ServiceName
from activator.scale.wakers.scale import SCALE
from activator.scale.workloads.replicas import (
    REFUSALS,
    Actuator,
    Result,
    Rights,
    ScaleTarget,
    TargetRef,
    Wish,
)
from activator.scale.workloads.services import EnabledServices

if TYPE_CHECKING:
    from activator.scale.part import Part


logger = logging.getLogger(__name__)

Arguments = TypeVarTuple("Arguments")

#: Seconds between two decisions about all Services, as in Knative.
TICK: Final = 2.0
#: Seconds for which a new leader removes no replicas: it has no history, and the activators
#: connect to it one after the other.
NEW_LEADER: Final = 60.0
#: Seconds between two clean-ups of loads that no Service has.
_PRUNE: Final = 60.0
#: Services of one step, which decides in about 2 ms. Other tasks run between two steps.
STEP: Final = 50

#: The failures after which the same request is repeated late.
_LATER: Final = REFUSALS | {ScaleReason.SCALE_TARGET_MISSING}
#: The failures after which the workload may sleep although its request failed.
_UNSURE: Final = (ScaleReason.API_SERVER_UNAVAILABLE, ScaleReason.WAKER_FAILED)

#: Most changed Services of one turn. To read their facts and to decide takes about 5 ms.
MOST: Final = 50


class _Phase(Enum):
    """What the engine does. STARTING: it reads the facts of all Services, and decides nothing."""

    STOPPED = "stopped"
    STARTING = "starting"
    DECIDING = "deciding"


def observe(
    record: Record,
    loads: Loads,
    parts: Iterable[Part],
    now: float,
    frozen: ScaleReason | None,
) -> Observed:
    """Return what the plan of a Service needs; the loads of one workload are added.

    Arguments:
        record: of a Service that has a workload, and its replicas are known.
        loads: the reports of the activators.
        parts: know the other components.
        now: seconds, on the clock of the loads.
        frozen: why no replicas of any workload may be removed.
    """
    facts, workload = record.facts, record.workload
    assert facts.target is not None
    assert facts.replicas is not None
    is_own = len(workload.records) == 1
    load = loads.measured(record.name, now) if is_own else _sum(loads, workload, now)
    slice_since = None
    if facts.service.asks.route in WITH_SLICES:
        every = (part.slice_since(record.name, now) for part in parts)
        slice_since = next((since for since in every if since is not None), None)
    seen = Observed(
        *load[:4],
        frozen=frozen,
        replicas=facts.replicas,
        ready=facts.listed,
        other_owner=facts.other_owner,
        slice_since=slice_since,
        lease=facts.lease,
        rate=load.rate,
        panic_rate=load.panic_rate,
    )
    if is_own and facts.target.waker is SCALE and not facts.findings:
        return seen  # as nearly all Services
    eldest = workload.eldest
    older = f"Service {'/'.join(eldest.name)}" if eldest is not record else facts.other_owner
    other_waker = workload.other_waker(facts.target)
    return seen._replace(
        ready=facts.ready,
        other_owner=other_waker or older,
        decides=eldest is record,
        paused=facts.is_paused,
        marks=facts.marks,
        is_marked=facts.marks and workload.is_marked,
        wakers_differ=bool(other_waker),
    )


def _sum(loads: Loads, workload: Workload, now: float) -> Measure:
    """Return the load of all Services of a workload."""
    rows = [loads.measured(each.name, now) for each in workload.records]
    current, stable, panic, _, *rates = (sum(column) for column in zip(*rows, strict=True))
    return Measure(current, stable, panic, max(row.last_busy for row in rows), *rates)


def _reconsider(workload: Workload) -> None:
    """Let the next tick decide about all Services of a workload: they add their loads."""
    if len(workload.records) > 1:
        for each in workload.records:
            each.quiet_until = NEVER


def time_of_day() -> datetime:
    """Return the time of day, which awake hours follow."""
    return datetime.now(UTC)


def woken_with(name: ServiceName, asks: Annotations) -> Iterator[ServiceName]:
    """Yield the Services that a Service wakes; a name without a namespace is of its own."""
    for each in asks.wake_with:
        namespace, _, other = each.rpartition("/")
        yield ServiceName(namespace or name.namespace, other)


def may_call(name: ServiceName, other: ServiceName, asks: Annotations) -> bool:
    """Return whether a Service may wake another one, whose annotations are ``asks``."""
    return name.namespace in (other.namespace, *asks.wake_from)


class Engine:
    """The decisions about all Services.

    Arguments:
        services: the Services, with their workloads and pods.
        loads: the reports of the activators.
        parts: know the other components, and carry out the rest of each decision.
        rights: looks up kinds and rights.
        api: sends the requests for replicas.
        start: starts a coroutine as a task.
        is_stale: returns whether the objects of the cluster may be outdated.
        waker_hosts: as for ``Actuator``.

    Attributes:
        counters: for metrics.
    """

    def __init__(
        self,
        services: EnabledServices,
        loads: Loads,
        parts: Sequence[Part],
        *,
        rights: Rights,
        api: ApiServer,
        start: Start,
        is_stale: Callable[[float], bool],
        waker_hosts: Collection[str] = (),
    ) -> None:
        self.counters = EngineCounters()
        self._services = services
        self._loads = loads
        self._parts = parts
        self._rights = rights
        self._actuator = Actuator(api, start, self._on_result, waker_hosts)
        self._is_stale = is_stale
        self._call_at = asyncio.get_running_loop().call_at
        self._clock = asyncio.get_running_loop().time
        self._records: dict[ServiceName, Record] = {}
        # The oldest Service of a workload decides about it.
        self._workloads: dict[TargetRef, Workload] = {}
        self._phase = _Phase.STOPPED
        # Changed Services: one event may change several objects of a Service.
        self._changed: dict[ServiceName, None] = {}
        # Since when this process leads.
        self._since = NEVER
        self._next_tick = 0.0
        self._next_prune = 0.0

    # -- whether to decide -------------------------------------------------------------------------

    def starting(self, now: float) -> Iterator[None]:
        """Begin to decide, in steps: this process leads, and all objects have been listed.

        The first decision follows when the facts of all Services are known. If ``stop`` or a new
        start comes between two steps, the rest of the steps does nothing.

        Arguments:
            now: seconds, on the engine's clock.
        """
        self._phase, self._since, self._next_tick = _Phase.STARTING, now, now + TICK
        self._changed.clear()  # all Services are decided now
        for number, name in enumerate(list(self._services), 1):
            self._try(name, self._renew, name, now)
            if number % STEP == 0:
                yield
                if (self._phase, self._since) != (_Phase.STARTING, now):
                    return
        self._phase = _Phase.DECIDING
        for _ in self._deciding(list(self._records.values())):
            yield
            if self._since != now:
                return
        for part in self._parts:
            part.start(now)

    @property
    def decides(self) -> bool:
        """Whether it knows the facts of all Services, and decides about them."""
        return self._phase is _Phase.DECIDING

    def stop(self, now: float) -> None:
        """Decide nothing more. Requests under way end."""
        self._phase, self._since = _Phase.STOPPED, NEVER
        self._actuator.clear()
        self._records.clear()
        self._workloads.clear()
        for part in self._parts:
            part.stop(now)

    # -- events ------------------------------------------------------------------------------------

    def ticking(self, now: float) -> Iterator[None]:
        """Decide about all Services that may need it, in steps; other tasks may run between them.

        Arguments:
            now: seconds, on the engine's clock.
        """
        if self._phase is not _Phase.DECIDING:
            return
        self._next_tick = now + TICK
        # A time before the next tick needs a timer, which the decision sets.
        due = [each for each in self._records.values() if each.quiet_until < self._next_tick]
        yield from self._deciding(due)
        if now >= self._next_prune:
            self._next_prune = now + _PRUNE
            self._loads.prune(now)

    def _deciding(self, due: Sequence[Record]) -> Iterator[None]:
        """Decide about Services in steps; skip each Service that is gone meanwhile."""
        for first in range(0, len(due), STEP):
            # Time passes between the steps, and a report may make the load unknown.
            now = self._clock()
            frozen = self._frozen(now)
            for record in due[first : first + STEP]:
                if self._records.get(record.name) is record:
                    self._try(record.name, self._decide, record, now, frozen)
            yield

    @staticmethod
    def _try(name: ServiceName, do: Callable[[*Arguments], object], *arguments: *Arguments) -> None:
        """Call a function for one Service: a defect must not stop the other Services."""
        try:
            do(*arguments)
        except Exception:
            logger.exception("Service %s/%s: unexpected error", *name)

    def busy(self, names: Iterable[ServiceName]) -> None:
        """Decide at once about Services with a request, but without replicas or ready pods.

        ``ScalerProcess`` calls it for each report with requests.

        Arguments:
            names: of the Services that have requests.
        """
        if self._phase is not _Phase.DECIDING:
            return
        now = self._clock()
        frozen = self._frozen(now)
        for name in names:
            record = self._records.get(name)
            if record is None:
                continue
            record.quiet_until = NEVER
            _reconsider(record.workload)
            # Its pods are ready, and get no requests; or a trial run has none.
            is_closed = bool(record.facts.service.mark) or record.trial == 0
            if record.facts.ready and not is_closed:
                continue
            if is_closed or not record.facts.replicas:
                self._decide(record, now, frozen)
            elif not record.facts.is_watched and record.facts.target is not None:
                self._actuator.read(record.facts.target, None)

    def later(self, names: Iterable[ServiceName]) -> None:
        """Decide about changed Services at the end of this turn; the rest in the next turns."""
        was_empty = not self._changed
        self._changed.update(dict.fromkeys(names))
        if was_empty and self._changed:
            asyncio.get_running_loop().call_soon(self._decide_changed)

    def _decide_changed(self) -> None:
        names = list(islice(self._changed, MOST))
        for name in names:
            del self._changed[name]
        if self._changed:
            asyncio.get_running_loop().call_soon(self._decide_changed)
        self.changed(names)

    def changed(self, names: Iterable[ServiceName]) -> None:
        """Decide about Services whose objects have changed, or are gone."""
        if self._phase is _Phase.STOPPED:
            return
        now = self._clock()
        frozen = self._frozen(now)
        for name in names:
            self._renew(name, now)
            record = self._records.get(name)
            if record is not None and self._phase is _Phase.DECIDING:
                self._decide(record, now, frozen)

    # -- what people read --------------------------------------------------------------------------

    def __iter__(self) -> Iterator[tuple[ServiceName, Record]]:
        return iter(self._records.items())

    def names(self, namespace: str) -> Sequence[ServiceName]:
        """Return the Services of a namespace; empty for all namespaces."""
        return [name for name in self._records if namespace in ("", name.namespace)]

    def get(self, name: ServiceName) -> Record | None:
        """Return a Service; None if this process does not lead, or does not know it."""
        return self._records.get(name)

    def sharing(self, target: TargetRef) -> Sequence[Record]:
        """Return the Services of a workload; none if this process does not lead."""
        workload = self._workloads.get(target)
        return () if workload is None else workload.records

    # -- facts -------------------------------------------------------------------------------------

    def _renew(self, name: ServiceName, now: float) -> None:
        """Read the facts about a Service again."""
        joined, record = self._services.get(name), self._records.get(name)
        if joined is None:
            self._remove(name, now)
            return
        facts = read_facts(joined, self._rights)
        for part in self._parts:
            facts = part.complete(name, facts)
        if record is None:
            record = self._records[name] = Record(name, facts, Planner(now, facts.ready))
        self._share(record, facts.target)
        record.renew(facts, now)

    def _remove(self, name: ServiceName, now: float) -> None:
        record = self._records.get(name)
        if record is None:
            return
        self._share(record, None)
        del self._records[name]
        self._loads.remove(name)
        for part in self._parts:
            part.leave(name, now)

    def _share(self, record: Record, target: ScaleTarget | None) -> None:
        """Record the workload of a Service, None for none; a change concerns all that share it."""
        workload = record.workload
        _reconsider(workload)
        before = record.facts.target if workload.records else None
        if before == target:
            return
        if before is not None:
            workload.records = tuple(each for each in workload.records if each is not record)
            if not workload.records:
                del self._workloads[before.ref]
            record.workload = Workload(workload.change)
        if target is not None:
            record.workload = self._workloads.setdefault(target.ref, record.workload)
            record.workload.records += (record,)
        _reconsider(record.workload)

    # -- decisions ---------------------------------------------------------------------------------

    def _frozen(self, now: float) -> ScaleReason | None:
        """Return why no replicas of any workload may be removed; None if they may."""
        if self._is_stale(now):
            return ScaleReason.STALE_STATE
        if not self._loads.is_known(now):
            return ScaleReason.ACTIVATORS_UNREACHABLE
        return ScaleReason.NEW_LEADER if now < self._since + NEW_LEADER else None

    def _decide_later(self, name: ServiceName) -> None:
        record, now = self._records.get(name), self._clock()
        if record is not None and self._phase is _Phase.DECIDING:
            self._decide(record, now, self._frozen(now))

    def _decide(self, record: Record, now: float, frozen: ScaleReason | None) -> None:
        """Make a plan for a Service, and carry it out."""
        if now >= record.renew_at:
            self._renew(record.name, now)
        self._conclude(record, self._plan(record, now, frozen), now)

    def _conclude(self, record: Record, plan: Plan | None, now: float) -> None:
        """Record a decision about a Service; another one than before goes to the parts."""
        if (decided := record.conclude(plan)) is not None:
            for part in self._parts:
                part.carry_out(record.name, decided, now)

    def _plan(self, record: Record, now: float, frozen: ScaleReason | None) -> Plan | None:
        """Make a plan for a Service, and begin to change its replicas; None if it has none."""
        facts = record.facts
        if facts.target is None:
            record.quiet_until = record.renew_at
            return None
        if facts.replicas is None:
            if record.begins_look(now):
                self._actuator.read(facts.target, None)
            return None
        seen = observe(record, self._loads, self._parts, now, frozen)
        wishes = facts.service.asks
        if wishes.awake.spans or wishes.dry_run or now < record.called_at + CALL:
            seen = record.with_wishes(seen, now, time_of_day())
        asks = wishes
        if not (seen.decides or seen.replicas):
            # Any Service starts a shared workload, but always with the replicas of the oldest one.
            asks = replace(wishes, scale=record.workload.eldest.facts.service.asks.scale)
        if seen.wakers_differ:
            asks = asks.with_a_replica()
        plan = record.planner.decide(asks, seen, now)
        if record.sleep.replicas != seen.replicas:
            record.sleep.note(seen.replicas, now)
        if not seen.replicas and seen.current and wishes.wake_with:
            for other in woken_with(record.name, wishes):
                self._call(record.name, other, now)
        if record.other_owner != seen.other_owner:
            record.other_owner, record.reconsiders = seen.other_owner, True
        if record.trial is not None:
            if plan.replicas not in (None, record.trial):
                record.sleep.waited += 0 if record.trial else seen.waiting
                record.trial = plan.replicas
                record.sleep.note(plan.replicas, now)
            plan = record.as_trial(plan)
        elif plan.replicas is not None and (not facts.replicas or now >= record.not_before):
            if not facts.replicas and record.cold_since is None:
                record.cold_since = now
                record.sleep.waited += seen.waiting
            record.sleeping = facts.target.waker.marks and not plan.replicas
            self._actuator.put(facts.target, Wish(facts.replicas, plan.replicas, plan.why))
        if seen.wakers_differ and plan.replicas is None:
            plan = plan._replace(hold=ScaleReason.TWO_OWNERS)
        if seen.marks and record.workload.is_closing:
            plan = plan._replace(marked=True)
        if now < plan.next < self._next_tick:
            self._call_at(plan.next, self._decide_later, record.name)
        if record.begins_look(now):
            self._actuator.read(facts.target, None)
        record.quiet_until = record.rest_until(plan, seen)
        return plan

    def _call(self, name: ServiceName, other: ServiceName, now: float) -> None:
        """Wake another Service soon, since a request for this one will need it."""
        record = self._records.get(other)
        if record is None or now < record.called_at + RETRY_COLD_START:
            return
        if may_call(name, other, record.facts.service.asks):
            record.called_at = now
            self._call_at(now, self._decide_later, other)

    # -- results -----------------------------------------------------------------------------------

    def _on_result(self, target: ScaleTarget, result: Result) -> None:
        """Record the result of a request for replicas."""
        now, workload = self._clock(), self._workloads.get(target.ref)
        self.counters.failed(result)
        if result.changed_from is not None:
            self._rights.granted(target)
        if workload is None:
            return
        if result.changed_from is not None and result.replicas is not None:
            self.counters.changed(workload, result, now, datetime.now(UTC))
        for record in workload.records:
            self._note(record, target, result, now)

    def _note(self, record: Record, target: ScaleTarget, result: Result, now: float) -> None:
        """Record the result of a request for one Service of the workload."""
        replicas, problem, known = result.replicas, result.problem, record.facts.replicas
        slept = record.sleeping
        record.sleeping = slept and self._actuator.has_next(target)
        if problem is ScaleReason.NOT_AWAKE_YET:
            # Without a mark the workload is awake, and only its condition has changed.
            if known or not record.facts.service.mark:
                result = Result(replicas)
            else:
                idle_at = record.planner.idle_at(record.facts.service.asks)
                is_unwanted = record.planner.wanted == 0 and not self._frozen(now)
                if replicas and is_unwanted and now >= idle_at:
                    record.sleeping = True
                    self._actuator.put(target, Wish(replicas, 0))
                replicas = 0
        ends = slept and not record.sleeping
        if result.changed_from is not None:
            record.instead = result.instead
        again = now + AGAIN if problem in _LATER else now + TICK if ends and problem else NEVER
        record.note(result, again)
        if ends and problem in _UNSURE:
            # The workload may have fallen asleep: only a read shows it.
            record.facts = record.facts._replace(replicas=None)
            record.look_at = now + LOOK
            self._actuator.put(target, None)
        elif replicas not in (None, known):
            record.facts = record.facts._replace(replicas=replicas)
        elif not ends:
            self._conclude(record, record.plan, now)
            return
        self._decide(record, now, self._frozen(now))
