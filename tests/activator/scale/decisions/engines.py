"""An engine with prepared objects and reports, and an API server in memory."""

from __future__ import annotations

import asyncio
from typing import Any

from activator.discovery.api_server import ApiServer
from activator.process.timers import Tasks
from activator.scale.decisions import engine
from activator.scale.part import Part
from activator.scale.reports.load import Loads
from activator.scale.workloads.replicas import Rights
from activator.scale.workloads.services import EnabledServices
from tests.activator.scale.fake_api import FakeApi, status


class NoReviews(ApiServer):
    """Refuse each check of rights."""

    def __init__(self) -> None:
        """Connect to no server."""

    async def send(self, *args: Any) -> Any:
        return status(403, "no")


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
        parts: know other components, and get each decision.
        api: the API server, if not one with Deployments alone.
        replicas: of the Deployments of the API server, by name.

    Attributes:
        is_stale: whether the objects may be outdated, so that no replicas may be removed.
    """

    def __init__(self, *parts: Part, api: ApiServer | None = None, **replicas: int) -> None:
        loop = asyncio.get_running_loop()
        self.clock = loop.time
        self.api = FakeApi(**replicas)
        self.tasks = Tasks()
        self.services = EnabledServices()
        self.loads = Loads(lambda name: name in self.services)
        self.is_stale = False
        rights = Rights(
            NoReviews(),
            self.tasks.start,
            lambda namespace: self.engine.changed(self.engine.names(namespace)),
        )
        self.engine = Engine(
            self.services,
            self.loads,
            parts,
            rights=rights,
            api=api or self.api,
            start=self.tasks.start,
            is_stale=lambda now: self.is_stale,
        )
