"""Makes the responses of the scaler's API: the replicas of each Service, and the reasons."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from activator.kpa.decision import SENTENCES as RULES
from activator.plain.service import word_of
from activator.scale import reasons
from activator.scale.admin.selection import Selection
from activator.scale.decisions.record import Record
from activator.scale.reasons import Finding, ScaleReason
from activator.scale.reports.load import Loads, Name


class View(msgspec.Struct, rename="camel", omit_defaults=False):
    """A part of a response; names are in camel case."""


class ReplicasView(View):
    """Replicas: what the workload asks for, what the scaler wants, and the ready pods."""

    present: int | None
    wanted: int | None
    ready: int


class LoadView(View):
    """Requests in flight or queued: now, the means of 60 s and 6 s, and by activator."""

    current: float
    stable: float
    panic: float
    by_activator: dict[str, float]


class ChangeView(View):
    """The last change of replicas by this process."""

    at: str
    before: int
    after: int
    why: str
    sentence: str


class FindingView(View):
    """One thing that a user must know of a Service."""

    reason: str
    note: str


class ServiceView(View):
    """One Service that opts in."""

    namespace: str
    name: str
    kind: str
    target: str | None
    owner: str
    route: str
    phase: str | None
    replicas: ReplicasView
    active: bool
    takes_over: bool
    why: str | None
    sentence: str | None
    reason: str | None
    detail: str | None
    cause: str | None
    load: LoadView
    last_change: ChangeView | None
    findings: list[FindingView]


class LeaderView(View):
    """The leader, as this process observes it."""

    pod: str
    leads: bool
    holder: str
    error: str


class SummaryView(View):
    """Sums over all Services: how many, by phase, with a problem; requests in flight or queued."""

    services: int
    phases: Mapping[str, int]
    problems: int
    load: float


class ServicesView(View):
    """The response to ``GET /api/v1/services``; ``matching`` ignores offset and limit."""

    leader: LeaderView
    services: list[ServiceView]
    matching: int
    summary: SummaryView


def service(
    name: Name, record: Record, loads: Loads, findings: Iterable[Finding], now: float
) -> ServiceView:
    """Return one Service.

    Arguments:
        findings: of the parts; the warnings of the Service itself are added.
        now: seconds, on the clock of the loads.
    """
    decided, facts = record.decided, record.facts
    asks, plan = facts.service.asks, decided.plan if decided else None
    why = plan.why if plan else None
    reason = decided.reason if decided else ScaleReason.REPLICAS_UNKNOWN
    detail = reasons.text(reason, decided.detail if decided else "") if reason else None
    wanted = facts.replicas if plan is None or plan.replicas is None else plan.replicas
    target, findings = facts.target, list(findings)
    words = (reason, *(each.reason.value for each in findings))
    return ServiceView(
        namespace=name.namespace,
        name=name.name,
        kind="service",
        target=f"{target.resource.kind}/{target.name}" if target else None,
        owner=asks.owner.value,
        route=asks.route.value,
        phase=plan.phase.value if plan else None,
        replicas=ReplicasView(facts.replicas, wanted, facts.ready),
        active=plan is not None and plan.active,
        takes_over=plan is not None and plan.takes_over,
        why=why.value if why else None,
        sentence=RULES[why] if why else None,
        reason=reason or None,
        detail=detail,
        cause=next((word for word in words if word in reasons.CAUSES), None),
        load=_load(name, loads, now),
        last_change=_change(record),
        findings=[
            *(
                FindingView(word_of(each, ScaleReason.SERVICE_WARNING), each)
                for each in facts.service.warnings
            ),
            *(FindingView(each.reason.value, each.note) for each in findings),
        ],
    )


def _load(name: Name, loads: Loads, now: float) -> LoadView:
    known = loads.of(name)
    if known is None:
        return LoadView(0.0, 0.0, 0.0, {})
    stable, panic = known.window.averages(int(now))
    return LoadView(loads.current(name, now), stable, panic, dict(loads.by_activator(name)))


def _change(record: Record) -> ChangeView | None:
    change = record.change
    if change is None:
        return None
    known = {why.value: sentence for why, sentence in RULES.items()}
    return ChangeView(
        change.at.isoformat(timespec="milliseconds"),
        change.before,
        change.after,
        change.why,
        known.get(change.why, change.why),
    )


def services(
    leader: LeaderView,
    selection: Selection,
    loads: Loads,
    findings: Callable[[Name], Iterable[Finding]],
    now: float,
) -> ServicesView:
    """Return the selected Services, and sums over all.

    Arguments:
        findings: returns the findings of the parts.
        now: seconds, on the clock of the loads.
    """
    known = selection.summary
    return ServicesView(
        leader,
        [service(name, found, loads, findings(name), now) for name, found in selection.services],
        selection.matching,
        SummaryView(selection.known, known.phases, known.problems, round(known.load, 3)),
    )


def encode(view: View) -> bytes:
    """Return a response as JSON."""
    return msgspec.json.encode(view)
