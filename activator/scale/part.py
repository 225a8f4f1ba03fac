"""Defines a part of the scaler: the context that it gets, and its contributions.

A part acts on decisions, or knows other components. The parts do not know each other.
``scaler.PARTS`` has all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import NamedTuple

from activator.discovery.api_server import ApiServer
from activator.scale.cluster.api import Start
from activator.scale.cluster.watch import KindView
from activator.scale.decisions.record import Decided, Facts, Record
from activator.scale.reasons import Finding
from activator.scale.reports.load import Loads, ServiceName
from activator.scale.settings import ScaleSettings
from activator.scale.workloads.replicas import TargetRef
from activator.scale.workloads.services import EnabledServices


class PartContext(NamedTuple):
    """What a part may use.

    Attributes:
        api: sends requests to the API server.
        services: the Services that opt in, with their workloads and pods.
        loads: the reports of the activators.
        record: returns the record of a Service; None while this process does not lead.
        sharing: returns the records of the Services of a workload, also none.
        start: starts a coroutine as a task.
        clock: seconds, monotonic.
        is_leader: returns whether this process decides.
        changed: decides again about Services, since the part knows something new.
        missing_rule: returns the RBAC rule without which a kind is not read; empty for none.
    """

    settings: ScaleSettings
    api: ApiServer
    services: EnabledServices
    loads: Loads
    record: Callable[[ServiceName], Record | None]
    sharing: Callable[[TargetRef], Iterable[Record]]
    start: Start
    clock: Callable[[], float]
    is_leader: Callable[[], bool]
    changed: Callable[[Iterable[ServiceName]], None]
    missing_rule: Callable[[str], str]


class Part:
    """One part, which contributes nothing; a subclass has what it knows and does.

    Attributes:
        views: take the objects of further kinds, or of known ones, by kind.
    """

    views: Mapping[str, KindView] = {}

    # -- effects of decisions; a call must not block -----------------------------------------------

    def carry_out(self, name: ServiceName, decided: Decided, now: float) -> None:
        """Carry out a decision. The engine calls it when anything but the load differs.

        Arguments:
            now: seconds, monotonic, on the loop's clock.
        """

    def leave(self, name: ServiceName, now: float) -> None:
        """Record that a Service is deleted, or no longer opts in."""

    def start(self, now: float) -> None:
        """Begin to write: this process leads, and has decided about all Services."""

    def stop(self, now: float) -> None:
        """Write nothing more: this process no longer leads."""

    # -- what other components do -----------------------------------------------------------------

    def complete(self, name: ServiceName, facts: Facts) -> Facts:
        """Return the facts about a Service, completed by this part."""
        found = tuple(self.findings(name))
        return facts._replace(findings=facts.findings + found) if found else facts

    def slice_since(self, name: ServiceName, now: float) -> float | None:
        """Return since when the activators are endpoints of a Service; None if they are not."""
        return None

    def findings(self, name: ServiceName) -> Iterable[Finding]:
        """Return what a user must know of a Service, for the API and Events."""
        return ()

    # -- listeners ---------------------------------------------------------------------------------

    def listeners(self) -> AbstractAsyncContextManager[Mapping[str, str]]:
        """Open the listeners; the context's value has their addresses by name.

        They are open while the process runs, whether it leads or not.
        """
        return nullcontext({})


def views(
    services: Mapping[str, KindView], parts: Iterable[Part]
) -> Mapping[str, Sequence[KindView]]:
    """Return the views of each kind; the views of the Services come first."""
    found: dict[str, list[KindView]] = {kind: [view] for kind, view in services.items()}
    for part in parts:
        for kind, view in part.views.items():
            found.setdefault(kind, []).append(view)
    return found
