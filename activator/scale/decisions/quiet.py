"""Decides until when a Service needs no decision: thousands sleep, and nothing changes."""

from __future__ import annotations

from typing import Final

from activator.kpa.decision import Why
from activator.scale.decisions.plan import NEVER, Hold, Plan, Seen
from activator.scale.decisions.record import Record

#: The rules by which an idle workload keeps its replicas.
_IDLE_RULES: Final = frozenset({None, Why.IDLE, Why.NOT_IDLE, Why.MIN_SCALE})


def quiet_until(record: Record, plan: Plan, seen: Seen) -> float:
    """Return when a plan may change without a report or another event; -inf for each tick.

    Arguments:
        record: the Service.
        plan: its last plan.
        seen: what the plan is about.
    """
    is_idle = not seen.current and not seen.stable
    if not is_idle or plan.replicas is not None or plan.hold is not Hold.NONE:
        return NEVER
    if plan.why not in _IDLE_RULES:
        return NEVER
    times = [plan.next, record.renew_at]
    if seen.replicas and plan.why is not None:
        times.append(record.planner.idle_at(record.facts.service.asks))
    if record.needs_look:
        times.append(record.look_at)
    return min(times)
