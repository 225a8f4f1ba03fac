"""An engine with prepared objects and reports, and an API server in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from activator.plain.service import PlainService
from activator.process.tasks import Tasks
from activator.scale.cluster.api import Api
from activator.scale.decisions import engine
from activator.scale.decisions.plan import ACTIVATION_LEASE, Hold
from activator.scale.decisions.reasons import Finding
from activator.scale.decisions.record import Effect, Guard
from activator.scale.reports.load import Loads, Name
from activator.scale.workloads.replicas import Actuator, Rights, ScaleTarget
from activator.scale.workloads.services import EnabledServices
from tests.activator.scale.fake_api import FakeApi, status


class NoReviews(Api):
    """Refuse each check of rights."""

    def __init__(self) -> None:
        """Connect to no server."""

    async def send(self, *args: Any) -> Any:
        return status(403, "no")


class NoGuard:
    """A guard that knows no other components."""

    def slice_since(self, name: Name, now: float) -> float | None:
        """See Guard."""
        return None

    def lease(self, service: PlainService, target: ScaleTarget) -> float:
        """See Guard."""
        return ACTIVATION_LEASE

    def findings(self, name: Name) -> Sequence[Finding]:
        """See Guard."""
        return ()

    def other_owner(self, name: Name, service: PlainService, target: ScaleTarget) -> str:
        """See Guard."""
        return ""


class Engine(engine.Engine):
    """An engine that takes all steps at once."""

    def start(self, now: float) -> None:
        """Begin to decide."""
        for _ in self.starting(now):
            pass

    def tick(self, now: float) -> None:
        """Decide about all Services that may need it."""
        for _ in self.ticking(now):
            pass


class EngineWorld:
    """An engine in virtual time.

    Arguments:
        guard: knows the other components.
        effects: get each decision.
        replicas: of the Deployments of the API server, by name.

    Attributes:
        hold: why no replicas may be removed.
    """

    def __init__(self, guard: Guard | None, effects: Sequence[Effect], **replicas: int) -> None:
        loop = asyncio.get_running_loop()
        self.clock = loop.time
        self.api = FakeApi(**replicas)
        self.tasks = Tasks()
        self.services = EnabledServices()
        self.loads = Loads(lambda name: name in self.services)
        self.hold = Hold.NONE
        rights = Rights(
            NoReviews(),
            self.tasks.start,
            self.clock,
            lambda namespace: self.engine.changed(self.engine.names(namespace)),
        )
        self.engine = Engine(
            self.services,
            self.loads,
            rights,
            self._actuator,
            lambda now: self.hold,
            loop.call_at,
            self.clock,
            NoGuard() if guard is None else guard,
            effects,
        )

    def _actuator(self, report: Callable[[ScaleTarget, Any], None]) -> Actuator:
        return Actuator(self.api, self.tasks.start, report)
