"""Defines the effects of a decision, except for replicas: slices, Events, KEDA's state.

An effect is one row of the table that ``app`` composes. The engine calls each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from activator.plain.service import PlainService
from activator.scale.decisions.findings import Finding
from activator.scale.decisions.plan import Plan
from activator.scale.reports.load import Name
from activator.scale.workloads.actuator import Target


class Decided(NamedTuple):
    """What was decided about one Service.

    Attributes:
        service: as its annotations have it.
        target: its workload; None if it has none.
        replicas: how many the workload asks for; None if that is unknown.
        ready: pods that Kubernetes lists as ready.
        plan: what to do; None if the Service cannot be scaled.
        reason: why the Service is not scaled as its load asks for; empty if it is.
        detail: the reason for people.
        findings: more that a user must know.
    """

    service: PlainService
    target: Target | None
    replicas: int | None
    ready: int
    plan: Plan | None
    reason: str = ""
    detail: str = ""
    findings: tuple[Finding, ...] = ()


class Change(NamedTuple):
    """A change of replicas by this process.

    Attributes:
        at: time of day.
        why: the rule, as ``kpa.decision.Why`` has it.
    """

    at: datetime
    before: int
    after: int
    why: str


class Effect(Protocol):
    """Carries out one part of a decision. A call must not block."""

    def put(self, name: Name, decided: Decided, now: float) -> None:
        """Carry out a decision. The engine calls it when anything but the load differs.

        Arguments:
            now: seconds, monotonic, on the loop's clock.
        """

    def remove(self, name: Name, now: float) -> None:
        """Record that a Service is deleted, or no longer opts in."""

    def start(self, now: float) -> None:
        """Begin to write: this process leads, and has decided about all Services."""

    def stop(self, now: float) -> None:
        """Write nothing more: this process no longer leads."""


class Guard(Protocol):
    """Knows what other components do with workloads."""

    def slice_since(self, name: Name, now: float) -> float | None:
        """Return since when the activators are endpoints of a Service; None if they are not."""

    def lease(self, service: PlainService, target: Target) -> float:
        """Return the seconds for which the owner of a workload must read it as active."""

    def findings(self, name: Name) -> Sequence[Finding]:
        """Return what a user must know of a Service."""

    def other_owner(self, name: Name, service: PlainService, target: Target) -> str:
        """Return which other component scales a workload, as in ``HPA shop/hello``.

        Returns:
            Empty if there is none, or if the Service's annotation names it as the owner.
        """
