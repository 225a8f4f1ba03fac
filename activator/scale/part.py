"""Defines a part of the scaler: the context that it gets, and its contributions.

A part acts on decisions, or knows other components. The parts do not know each other.
``parts`` has the table of all parts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, final

from activator.plain.service import PlainService
from activator.scale.cluster.api import Api
from activator.scale.cluster.watch import ObjectView
from activator.scale.decisions.plan import ACTIVATION_LEASE
from activator.scale.decisions.reasons import Finding
from activator.scale.decisions.record import Effect, Record
from activator.scale.reports.load import Loads, Name
from activator.scale.settings import ScaleSettings
from activator.scale.workloads.replicas import ScaleTarget
from activator.scale.workloads.services import EnabledServices


class PartContext(NamedTuple):
    """What a part may use.

    Attributes:
        api: sends requests to the API server.
        services: the Services that opt in, with their workloads and pods.
        loads: the reports of the activators.
        record: returns the record of a Service; None while this process does not lead.
        start: starts a coroutine as a task.
        clock: seconds, monotonic.
        is_leader: returns whether this process decides.
        changed: decides again about Services, since the part knows something new.
        missing_rule: returns the RBAC rule without which a kind is not read; empty for none.
    """

    settings: ScaleSettings
    api: Api
    services: EnabledServices
    loads: Loads
    record: Callable[[Name], Record | None]
    start: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]
    clock: Callable[[], float]
    is_leader: Callable[[], bool]
    changed: Callable[[Iterable[Name]], None]
    missing_rule: Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Part:
    """One part.

    Attributes:
        views: take the objects of further kinds, or of known ones, by kind.
        effect: carries out decisions.
        other_owner: returns which other component scales the workload of a Service, as in
            ``HPA shop/hello``; empty if there is none, or if the annotation ``owner`` names it.
        slice_since: returns since when the activators are endpoints of a Service; None if they are
            not.
        lease: returns the seconds for which the owner of a workload must read it as active.
        findings: returns what a user must know of a Service, for the API and Events.
        listeners: enters the listeners of the part; the context's value has their addresses by
            name. They are open while the process runs, whether it leads or not.
    """

    views: Mapping[str, ObjectView] = field(default_factory=dict)
    effect: Effect | None = None
    other_owner: Callable[[Name, PlainService, ScaleTarget], str] | None = None
    slice_since: Callable[[Name, float], float | None] | None = None
    lease: Callable[[PlainService, ScaleTarget], float] | None = None
    findings: Callable[[Name], Iterable[Finding]] | None = None
    listeners: Callable[[], AbstractAsyncContextManager[Mapping[str, str]]] | None = None


def views(services: EnabledServices, parts: Iterable[Part]) -> Mapping[str, Sequence[ObjectView]]:
    """Return the views of each kind; the views of the Services come first."""
    found: dict[str, list[ObjectView]] = {kind: [view] for kind, view in services.views().items()}
    for part in parts:
        for kind, view in part.views.items():
            found.setdefault(kind, []).append(view)
    return found


@final
class Parts:
    """All parts, as one guard of the engine (effects.Guard)."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts
        self._owners = [part.other_owner for part in parts if part.other_owner]
        self._slices = [part.slice_since for part in parts if part.slice_since]
        self._leases = [part.lease for part in parts if part.lease]
        self._findings = [part.findings for part in parts if part.findings]

    @property
    def effects(self) -> Sequence[Effect]:
        """The effects, in the order of the parts."""
        return [part.effect for part in self._parts if part.effect]

    def other_owner(self, name: Name, service: PlainService, target: ScaleTarget) -> str:
        """See effects.Guard: the first component that a part knows."""
        for find in self._owners:
            if other := find(name, service, target):
                return other
        return ""

    def slice_since(self, name: Name, now: float) -> float | None:
        """See effects.Guard."""
        for find in self._slices:
            if (since := find(name, now)) is not None:
                return since
        return None

    def lease(self, service: PlainService, target: ScaleTarget) -> float:
        """See effects.Guard: the longest time."""
        return max([ACTIVATION_LEASE, *(find(service, target) for find in self._leases)])

    def findings(self, name: Name) -> Sequence[Finding]:
        """Return what a user must know of a Service."""
        return [finding for find in self._findings for finding in find(name)]

    def __iter__(self) -> Iterator[Part]:
        return iter(self._parts)
