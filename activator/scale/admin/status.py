"""Collects what the admin port shows, from the parts of one scaler."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import final

from activator import __version__
from activator.scale.admin import state_views, views
from activator.scale.admin.metrics import Measured, Metrics
from activator.scale.admin.selection import Query, select
from activator.scale.election.leader import Candidate
from activator.scale.reasons import Finding
from activator.scale.reports.load import Name
from activator.scale.reports.stat_server import StatServer
from activator.scale.settings import ScaleSettings


@final
class Status:
    """The state of one scaler (application.Scaler).

    Arguments:
        settings: of the scaler.
        measured: the engine, the loads, the objects and their watch.
        candidate: takes part in the election.
        stats: receives the reports.
        findings: returns what a user must know of a Service.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        settings: ScaleSettings,
        measured: Measured,
        candidate: Candidate,
        stats: StatServer,
        findings: Callable[[Name], Iterable[Finding]],
        clock: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._engine, self._loads, self._objects, self._watch = measured
        self._candidate = candidate
        self._stats = stats
        self._findings = findings
        self._clock = clock
        self._started = clock()
        self._metrics = Metrics(measured)

    def readiness(self) -> str:
        """See application.Scaler."""
        if not self._candidate.leads:
            return f"not the leader; the leader is {self._candidate.holder or 'not known'}"
        return "" if self._watch.synced else "the first lists of objects are not complete"

    def leader(self) -> views.LeaderView:
        """See application.Scaler."""
        candidate = self._candidate
        return views.LeaderView(
            self._settings.pod_name, candidate.leads, candidate.holder, candidate.error
        )

    def state(self) -> state_views.ScalerView:
        """See application.Scaler."""
        now, rejected = self._clock(), self._objects.rejected
        return state_views.ScalerView(
            self.leader(),
            self._settings.system_namespace,
            __version__,
            round(now - self._started, 1),
            self.readiness() or None,
            state_views.activators(self._loads.reporting(), now),
            state_views.watches(self._watch.ages(now), self._watch.errors()),
            state_views.objects(rejected),
            len(rejected),
            self._settings.dashboard_url or None,
        )

    def services(self, query: Query) -> views.ServicesView:
        """See application.Scaler."""
        now = self._clock()
        selection = select(self._engine, self._loads, query, now)
        return views.services(self.leader(), selection, self._loads, self._findings, now)

    def service(self, name: Name) -> views.ServiceView | None:
        """See application.Scaler."""
        record = self._engine.get(name)
        if record is None:
            return None
        return views.service(name, record, self._loads, self._findings(name), self._clock())

    def metrics(self) -> bytes:
        """See application.Scaler."""
        return self._metrics.render(
            self._clock(), leads=self._candidate.leads, garbled=self._stats.garbled
        )
