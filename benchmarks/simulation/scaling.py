"""The scaler: the product's load reports and plans, with reports that come late or not at all."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Final, final

from activator.autoscaler.concurrency import ConcurrencyReporter, RevisionLoad, Stat, poke_of
from activator.kpa.rules import Rules
from activator.plain.annotations import Annotations
from activator.scale.decisions.plan import Observed, Planner
from activator.scale.reasons import ScaleReason
from activator.scale.reports.load import Loads, Name, Report
from benchmarks.simulation.agenda import Agenda
from benchmarks.simulation.product import REVISION
from benchmarks.simulation.requests import Request
from benchmarks.simulation.scenario import Scaling

if TYPE_CHECKING:
    from benchmarks.simulation.cluster import Cluster, Member

#: Seconds between two reports of an activator, and between two decisions.
REPORTS_EVERY: Final = 1.0
TICKS_EVERY: Final = 2.0

_SERVICE: Final = Name(REVISION.namespace, REVISION.name)


@final
class Scaler:
    """The scaler of one revision.

    Arguments:
        scaling: see Scaling.
        random: decides which reports are late or lost.
    """

    def __init__(self, scaling: Scaling, agenda: Agenda, random: Random) -> None:
        self._scaling = scaling
        self._agenda = agenda
        self._random = random.random
        self._asks = Annotations(scale=Rules(target=scaling.target))
        self._loads = Loads()
        self._members: dict[object, RevisionLoad] = {}
        self._cluster: Cluster
        self._decided: Callable[[int], None]
        self._planner: Planner

    def begin(self, cluster: Cluster, decided: Callable[[int], None]) -> None:
        """Begin to decide.

        Arguments:
            decided: called with the replicas that each periodic decision wants.
        """
        self._cluster = cluster
        self._decided = decided
        self._planner = Planner(self._agenda.now, cluster.ready)
        self._agenda.at(self._agenda.now + TICKS_EVERY, self._tick)

    # -- requests -------------------------------------------------------------------------------

    def began(self, request: Request, member: Member) -> None:
        """Count a request that arrives at an activator."""
        load = self._members.get(member.rule)
        if load is None:
            load = self._members[member.rule] = self._connect(member)
        load.request_began(self._agenda.now)

    def ended(self, request: Request) -> None:
        """Count the end of a request."""
        self._members[request.activator].request_ended(self._agenda.now)

    def _connect(self, member: Member) -> RevisionLoad:
        """Connect an activator, which then reports every second, each at another moment."""

        def poke(_: object) -> None:
            self._send(member, [poke_of(REVISION)])

        reporter = ConcurrencyReporter(poke)
        self._loads.connected(member.number, self._agenda.now)
        self._agenda.at(
            self._agenda.now + self._random() * REPORTS_EVERY, self._report, member, reporter
        )
        return reporter.load(REVISION)

    # -- reports --------------------------------------------------------------------------------

    def _report(self, member: Member, reporter: ConcurrencyReporter) -> None:
        self._agenda.at(self._agenda.now + REPORTS_EVERY, self._report, member, reporter)
        if stats := reporter.report(self._agenda.now):
            self._send(member, stats)

    def _send(self, member: Member, stats: list[Stat]) -> None:
        if self._random() >= self._scaling.lost:
            at = self._agenda.now + self._random() * self._scaling.late
            self._agenda.at(at, self._received, member, stats)

    def _received(self, member: Member, stats: list[Stat]) -> None:
        now = self._agenda.now
        reports = [Report(_SERVICE, stat.concurrency, stat.request_count) for stat in stats]
        busy = self._loads.record(member.number, member.address, reports, now)
        if busy and not self._cluster.replicas:
            self._decide()

    # -- decisions ------------------------------------------------------------------------------

    def _tick(self) -> None:
        self._agenda.at(self._agenda.now + TICKS_EVERY, self._tick)
        self._decide()
        self._decided(self._cluster.replicas)

    def _decide(self) -> None:
        now, cluster = self._agenda.now, self._cluster
        load = self._loads.of(_SERVICE)
        if load is None:
            return
        stable, panic = load.window.averages(int(now))
        current = load.current(now, self._loads.lost)
        frozen = None if self._loads.is_known(now) else ScaleReason.ACTIVATORS_UNREACHABLE
        seen = Observed(
            *(current, stable, panic, load.last_busy, frozen), cluster.replicas, cluster.ready
        )
        plan = self._planner.decide(self._asks, seen, now)
        if plan.replicas is not None:
            cluster.set_replicas(plan.replicas, self._scaling.start)
