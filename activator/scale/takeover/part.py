"""Writes the slices by which the activators take over Services, as decisions ask for."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from activator.objects.fields import ObjectKey
from activator.plain.annotation_values import Route
from activator.scale.decisions.effects import Decided
from activator.scale.decisions.plan import Phase, Plan
from activator.scale.part import Context, Part
from activator.scale.reports.load import Name
from activator.scale.takeover.activators import Activators
from activator.scale.takeover.pod_nodes import PodNodes
from activator.scale.takeover.ports import Ports
from activator.scale.takeover.slice_writer import SliceWriter
from activator.scale.takeover.takeovers import Takeovers


@final
class Slices:
    """Reads takeover slices, and the slices of the activators (objects.View).

    Arguments:
        takeovers, activators, pod_nodes: get each slice.
        clock: seconds, monotonic.
        changed: called with a Service whose takeover slice has changed.
        poke: called after each change.
    """

    def __init__(
        self,
        takeovers: Takeovers,
        activators: Activators,
        pod_nodes: PodNodes,
        clock: Callable[[], float],
        changed: Callable[[Name], object],
        poke: Callable[[], object],
    ) -> None:
        self._takeovers = takeovers
        self._activators = activators
        self._pod_nodes = pod_nodes
        self._clock = clock
        self._changed = changed
        self._poke = poke

    def put(self, key: ObjectKey, obj: object) -> None:
        """See objects.View."""
        self._pod_nodes.put(key, obj)
        if self._activators.observe(obj):
            self._takeovers.set_activators(self._activators.by_family)
            self._poke()
        self._note(self._takeovers.observe(obj, self._clock()))

    def remove(self, key: ObjectKey) -> None:
        """See objects.View."""
        self._pod_nodes.remove(key)
        obj = {"metadata": {"namespace": key.namespace, "name": key.name}}
        if self._activators.deleted(obj):
            self._takeovers.set_activators(self._activators.by_family)
            self._poke()
        self._note(self._takeovers.deleted(obj, self._clock()))

    def _note(self, name: Name | None) -> None:
        if name is not None:
            self._changed(name)
            self._poke()


@final
class TakingOver:
    """Carries out the route ``takeover`` of each decision (effects.Effect)."""

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
        if service.port is None or not (
            service.asks.route is Route.TAKEOVER or self._is_needed(name, plan)
        ):
            self.remove(name, now)
            return
        self._names.add(name)
        # Without a plan nothing wakes the workload, but clients get the reason.
        takes_over = plan.takes_over if plan is not None else not decided.ready
        takes_over = takes_over or service.asks.route is not Route.TAKEOVER
        self._takeovers.put(service, now, takes_over=takes_over)
        self._poke()

    def _is_needed(self, name: Name, plan: Plan | None) -> bool:
        """Return whether the slice of a Service without the route must stay for now.

        Its clients come through the slice during a cold start, until pods are ready.
        """
        if plan is None or not self._takeovers.lists_activators(name):
            return False
        return plan.phase is Phase.STARTING or (plan.phase is Phase.ASLEEP and plan.active)

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


def make(context: Context) -> Part:
    """Return the part that writes takeover slices."""
    settings = context.settings
    pod_nodes = PodNodes()
    takeovers = Takeovers(Ports(settings.takeover_ports), pod_nodes)
    activators = Activators(*settings.activators)

    def changed(name: Name) -> None:
        context.changed([name])

    writer = SliceWriter(
        context.api, takeovers, context.start, context.clock, context.is_leader, changed
    )
    return Part(
        views={
            "EndpointSlice": Slices(
                takeovers, activators, pod_nodes, context.clock, changed, writer.poke
            )
        },
        effect=TakingOver(takeovers, writer),
        slice_since=takeovers.in_place_since,
        findings=takeovers.findings,
    )
