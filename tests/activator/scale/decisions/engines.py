"""An engine with prepared objects and reports, and an API server in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from activator.process.tasks import Tasks
from activator.scale.decisions.effects import Effect, Guard
from activator.scale.decisions.engine import Engine
from activator.scale.decisions.plan import Hold
from activator.scale.reports.load import Loads
from activator.scale.workloads.actuator import Actuator, Target
from activator.scale.workloads.rights import Rights
from activator.scale.workloads.services import Services
from tests.activator.scale.fake_api import FakeApi, status


class NoReviews:
    """Refuse each check of rights."""

    async def send(self, *args: Any) -> Any:
        return status(403, "no")


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
        self.services = Services()
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
            guard,
            effects,
        )

    def _actuator(self, report: Callable[[Target, Any], None]) -> Actuator:
        return Actuator(self.api, self.tasks.start, report)
