"""Writes the slices by which the activators take over Services, as decisions ask for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Final, final

from activator.discovery.api_server import ApiResponse, Meaning
from activator.objects.fields import ObjectKey
from activator.plain.annotations import Route
from activator.scale.cluster.api import KeyedWriter
from activator.scale.decisions.plan import Plan, WorkloadPhase
from activator.scale.decisions.record import Decided
from activator.scale.part import Part, PartContext
from activator.scale.reasons import Finding
from activator.scale.reports.load import ServiceName
from activator.scale.takeover.pods import Pods, usable
from activator.scale.takeover.ports import Ports
from activator.scale.takeover.slices import SliceKey, Write
from activator.scale.takeover.takeovers import Takeovers

logger = logging.getLogger(__name__)

#: Requests at a time: a change of the activators changes the slices of all sleeping Services.
MOST_REQUESTS: Final = 16


@final
class TakeoverPart(Part):
    """Carries out the routes ``takeover`` and ``front`` of each decision.

    It sends one request at a time for each slice, and a few for all.

    Attributes:
        takeovers: decides about the requests.
    """

    def __init__(self, context: PartContext) -> None:
        self._context = context
        self._pods = Pods()
        self.takeovers = Takeovers(Ports(context.settings.takeover_ports), self._pods)
        self._writer = KeyedWriter[SliceKey, Write](
            context.start, self._send, MOST_REQUESTS, self.poke
        )
        self._timer: asyncio.TimerHandle | None = None
        self._activators = ObjectKey("Service", *context.settings.activators)
        self.views = {"EndpointSlice": self}

    # -- the slices of all Services, and so the addresses of the activators ------------------------

    def put(self, key: ObjectKey, obj: object) -> None:
        """Record an EndpointSlice that was added or changed."""
        self._note_pods(self._pods.put(key, obj))
        self._note(self.takeovers.observe(obj, self._context.clock()))

    def remove(self, key: ObjectKey) -> None:
        """Record a deleted EndpointSlice; an unknown one is no error."""
        self._note_pods(self._pods.remove(key))
        deleted = SliceKey(key.namespace, key.name)
        self._note(self.takeovers.deleted(deleted, self._context.clock()))

    def _note_pods(self, services: Iterable[ObjectKey]) -> None:
        for key in services:
            if key == self._activators:
                self.takeovers.set_activators(usable(self._pods.of(key)))
                self.poke()
            for name in self._context.services.with_fronts(key):
                self.takeovers.touch(name, self._context.clock())
                self.poke()

    def _note(self, name: ServiceName | None) -> None:
        if name is not None:
            self._context.changed([name])
            self.poke()

    # -- decisions ---------------------------------------------------------------------------------

    def carry_out(self, name: ServiceName, decided: Decided, now: float) -> None:
        service, plan = decided.facts.service, decided.plan
        is_shared = service.asks.route is Route.SHARED
        if is_shared and not self.takeovers.knows(name):
            return
        if service.asks.route is Route.UNREADABLE:
            self.takeovers.keep(name)
        elif service.port is None or (is_shared and not self._is_needed(name, plan)):
            self.takeovers.remove(name, now)
        else:
            # Without a plan nothing wakes the workload, but clients get the reason.
            takes_over = plan.takes_over if plan is not None else not decided.facts.ready
            self.takeovers.put(service, now, takes_over=takes_over or is_shared)
        self.poke()

    def _is_needed(self, name: ServiceName, plan: Plan | None) -> bool:
        """Return whether the slice of a Service without the route must stay for now.

        Its clients come through the slice during a cold start, until pods are ready.
        """
        if plan is None or not self.takeovers.lists_activators(name):
            return False
        return plan.phase is WorkloadPhase.STARTING or (
            plan.phase is WorkloadPhase.ASLEEP and plan.active
        )

    def leave(self, name: ServiceName, now: float) -> None:
        self.takeovers.remove(name, now)
        self.poke()

    def start(self, now: float) -> None:
        self.takeovers.start()
        self.poke()

    def stop(self, now: float) -> None:
        """Write nothing more: the next leader decides about all Services."""
        self.takeovers.stop(now)
        self._cancel()

    # -- requests ----------------------------------------------------------------------------------

    def poke(self) -> None:
        """Send the requests that are due. Call it after each event that ``takeovers`` gets."""
        self._cancel()
        if not self._context.is_leader():
            return
        while self._writer.has_room:
            write = self.takeovers.due(self._context.clock())
            if write is not None:
                self._writer.put(write.key, write)
            else:
                if (at := self.takeovers.next()) < float("inf"):
                    wait = max(at - self._context.clock(), 0.0)
                    self._timer = asyncio.get_running_loop().call_later(wait, self.poke)
                return

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    async def _send(self, key: SliceKey, write: Write) -> None:
        response = ApiResponse(0, b"")
        try:
            response = await self._context.api.send(*write.request)
        finally:
            # Also when the task is cancelled: the slice must not count as being written.
            name = self.takeovers.done(write, response, self._context.clock())
        method = write.request.method
        if response.is_ok:
            logger.info("EndpointSlice %s/%s: %s", *key, method)
        else:
            is_conflict = response.meaning is Meaning.CONFLICT
            logger.log(
                logging.DEBUG if is_conflict else logging.WARNING,
                "EndpointSlice %s/%s: %s failed: %s",
                *(*key, method, response.message() or "no text"),
            )
        self._note(name)

    # -- what others need to know ------------------------------------------------------------------

    def slice_since(self, name: ServiceName, now: float) -> float | None:
        return self.takeovers.in_place_since(name, now)

    def findings(self, name: ServiceName) -> Iterable[Finding]:
        return self.takeovers.findings(name)
