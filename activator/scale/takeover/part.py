"""Writes the slices by which the activators take over Services, as decisions ask for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final, final

from activator.objects.fields import ObjectKey
from activator.plain.annotation_values import Route
from activator.scale.cluster.api import Api, ApiResponse, ApiUnreachable
from activator.scale.decisions.plan import Plan, WorkloadPhase
from activator.scale.decisions.record import Decided
from activator.scale.part import Part, PartContext
from activator.scale.reports.load import Name
from activator.scale.takeover.pods import Pods, usable
from activator.scale.takeover.ports import Ports
from activator.scale.takeover.slices import Write
from activator.scale.takeover.takeovers import Takeovers

logger = logging.getLogger(__name__)

#: Requests at a time: a change of the activators changes the slices of all sleeping Services.
MOST_REQUESTS: Final = 16


class SliceWriter:
    """Carries out the writes of ``Takeovers``.

    Arguments:
        api: sends the requests.
        takeovers: decides them.
        start: starts a coroutine as a task.
        clock: seconds, monotonic.
        is_leader: returns whether this process decides; others write nothing.
        changed: called with a Service after each response for one of its slices.
    """

    def __init__(
        self,
        api: Api,
        takeovers: Takeovers,
        start: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
        clock: Callable[[], float],
        is_leader: Callable[[], bool],
        changed: Callable[[Name], None],
    ) -> None:
        self._api = api
        self._takeovers = takeovers
        self._start = start
        self._clock = clock
        self._is_leader = is_leader
        self._changed = changed
        self._in_flight = 0
        self._timer: asyncio.TimerHandle | None = None

    def poke(self) -> None:
        """Send the requests that are due. Call it after each event that ``Takeovers`` gets."""
        self._cancel_timer()
        if not self._is_leader():
            return
        while self._in_flight < MOST_REQUESTS:
            write = self._takeovers.due(self._clock())
            if write is None:
                self._set_timer()
                return
            self._in_flight += 1
            self._start(self._carry_out(write))

    def close(self) -> None:
        """Send no further request by itself."""
        self._cancel_timer()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self) -> None:
        at = self._takeovers.next()
        if at < float("inf"):
            wait = max(at - self._clock(), 0.0)
            self._timer = asyncio.get_running_loop().call_later(wait, self.poke)

    async def _carry_out(self, write: Write) -> None:
        response, message = ApiResponse(0, b""), ""
        try:
            response = await self._api.send(*write.request)
            message = "" if response.is_ok else response.message()
        except ApiUnreachable as error:
            message = str(error)
        finally:
            # Also when the task is cancelled: the slice must not count as being written.
            self._in_flight -= 1
            name = self._takeovers.done(
                write, response.status, response.decoded(), message, self._clock()
            )
        self._note(write, response, message)
        self._changed(name)
        self.poke()

    def _note(self, write: Write, response: ApiResponse, message: str) -> None:
        method, key = write.request.method, write.key
        if response.is_ok:
            logger.info("EndpointSlice %s/%s: %s", key.namespace, key.name, method)
        else:
            level = logging.DEBUG if response.status == 409 else logging.WARNING
            logger.log(
                level, "EndpointSlice %s/%s: %s failed: %s", *key, method, message or "no text"
            )


@final
class Slices:
    """Reads the slices of all Services, and so the addresses of the activators.

    Arguments:
        takeovers, pods: get each slice.
        activators: the Service whose endpoints are the activators.
        with_fronts: returns a Service and its fronts, as far as they opt in.
        clock: seconds, monotonic.
        changed: called with a Service whose takeover slice has changed.
        poke: called after each change.
    """

    def __init__(
        self,
        takeovers: Takeovers,
        pods: Pods,
        activators: ObjectKey,
        with_fronts: Callable[[Name], Iterable[Name]],
        clock: Callable[[], float],
        changed: Callable[[Name], object],
        poke: Callable[[], object],
    ) -> None:
        self._takeovers = takeovers
        self._activators = activators
        self._pods = pods
        self._with_fronts = with_fronts
        self._clock = clock
        self._changed = changed
        self._poke = poke

    def put(self, key: ObjectKey, obj: object) -> None:
        """See objects.ObjectView."""
        self._note_pods(self._pods.put(key, obj))
        self._note(self._takeovers.observe(obj, self._clock()))

    def remove(self, key: ObjectKey) -> None:
        """See objects.ObjectView."""
        self._note_pods(self._pods.remove(key))
        obj = {"metadata": {"namespace": key.namespace, "name": key.name}}
        self._note(self._takeovers.deleted(obj, self._clock()))

    def _note_pods(self, services: Iterable[ObjectKey]) -> None:
        for key in services:
            if key == self._activators:
                self._takeovers.set_activators(usable(self._pods.of(key)))
                self._poke()
            for name in self._with_fronts(Name(key.namespace, key.name)):
                self._takeovers.touch(name, self._clock())
                self._poke()

    def _note(self, name: Name | None) -> None:
        if name is not None:
            self._changed(name)
            self._poke()


@final
class TakingOver:
    """Carries out the routes ``takeover`` and ``front`` of each decision (effects.Effect)."""

    def __init__(self, takeovers: Takeovers, writer: SliceWriter) -> None:
        self._takeovers = takeovers
        self._writer = writer
        self._names: set[Name] = set()
        self._leads = False

    def put(self, name: Name, decided: Decided, now: float) -> None:
        """See effects.Effect."""
        service, plan = decided.service, decided.plan
        if service.asks.route is Route.UNREADABLE:
            self._takeovers.keep(name)
            return
        is_shared = service.asks.route is Route.SHARED
        if service.port is None or (is_shared and not self._is_needed(name, plan)):
            self.remove(name, now)
            return
        self._names.add(name)
        # Without a plan nothing wakes the workload, but clients get the reason.
        takes_over = plan.takes_over if plan is not None else not decided.ready
        self._takeovers.put(service, now, takes_over=takes_over or is_shared)
        self._poke()

    def _is_needed(self, name: Name, plan: Plan | None) -> bool:
        """Return whether the slice of a Service without the route must stay for now.

        Its clients come through the slice during a cold start, until pods are ready.
        """
        if plan is None or not self._takeovers.lists_activators(name):
            return False
        return plan.phase is WorkloadPhase.STARTING or (
            plan.phase is WorkloadPhase.ASLEEP and plan.active
        )

    def remove(self, name: Name, now: float) -> None:
        """See effects.Effect."""
        self._names.discard(name)
        self._takeovers.remove(name, now)
        self._poke()

    def start(self, now: float) -> None:
        """See effects.Effect."""
        self._leads = True
        self._takeovers.start()
        self._poke()

    def stop(self, now: float) -> None:
        """See effects.Effect: the next leader decides about all Services."""
        self._leads = False
        self._takeovers.stop(now)
        self._names.clear()

    def _poke(self) -> None:
        if self._leads:
            self._writer.poke()


def make(context: PartContext) -> Part:
    """Return the part that writes takeover slices."""
    settings = context.settings
    pods = Pods()
    takeovers = Takeovers(Ports(settings.takeover_ports), pods)
    activators = ObjectKey("Service", *settings.activators)

    def changed(name: Name) -> None:
        context.changed([name])

    writer = SliceWriter(
        context.api, takeovers, context.start, context.clock, context.is_leader, changed
    )
    return Part(
        views={
            "EndpointSlice": Slices(
                *(takeovers, pods, activators, context.services.with_fronts),
                *(context.clock, changed, writer.poke),
            )
        },
        effect=TakingOver(takeovers, writer),
        slice_since=takeovers.in_place_since,
        findings=takeovers.findings,
    )
