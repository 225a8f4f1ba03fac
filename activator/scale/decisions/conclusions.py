"""Concludes a decision about a Service: its reason, and whether it differs from the last one."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from activator.scale.decisions import reasons
from activator.scale.decisions.effects import Decided
from activator.scale.decisions.plan import Hold, Plan
from activator.scale.decisions.record import Record
from activator.scale.reports.load import Name

logger = logging.getLogger(__name__)


def conclude(record: Record, plan: Plan | None) -> Decided | None:
    """Record a decision about a Service.

    Arguments:
        plan: None if the Service cannot be scaled, or if its replicas are unknown.

    Returns:
        None if it does not differ from the last one, apart from the load.
    """
    facts, before = record.facts, record.decided
    is_known = before is not None and record.concluded is facts and record.failed is None
    if is_known and before is not None and _is_same(before.plan, plan):
        return None
    record.concluded = facts
    reason, detail = _reason(record, plan)
    if before is not None and (
        before[:4] == facts[:4]
        and _is_same(before.plan, plan)
        and (before.reason, before.detail) == (reason, detail)
        and before.findings == facts.findings
    ):
        return None
    record.decided = Decided(*facts[:4], plan, reason, detail, facts.findings)
    return record.decided


def log_reason(name: Name, before: Decided | None, decided: Decided) -> None:
    """Log a new reason why a Service is not scaled, and its end."""
    now = decided.reason, decided.detail
    if before is not None and (before.reason, before.detail) == now:
        return
    is_quiet = decided.reason in reasons.QUIET
    if is_quiet and (before is None or before.reason in reasons.QUIET):
        return
    if is_quiet:
        logger.info("Service %s/%s: scaled again", *name, extra=fields(name))
        return
    logger.warning(
        "Service %s/%s: %s: %s",
        *name,
        decided.reason,
        reasons.text(decided.reason, decided.detail),
        extra=fields(name, reason=decided.reason),
    )


def fields(name: Name, **more: object) -> Mapping[str, object]:
    """Return the fields of a log line about a Service."""
    return {"service_namespace": name.namespace, "service_name": name.name, **more}


def _reason(record: Record, plan: Plan | None) -> tuple[str, str]:
    """Return why a Service is not scaled as its load asks for, and the detail for people."""
    facts = record.facts
    is_content = plan is not None and plan.replicas is None and plan.hold is Hold.NONE
    # Without pods, the client of a failed cold start has left. The next one would fail like it.
    if is_content and facts.ready:
        record.failed = None  # nothing is wanted any more
    failed = record.failed
    if failed is not None and failed.problem is not None:
        return failed.problem.value, failed.detail
    if facts.reason:
        return facts.reason, facts.detail
    if plan is None:
        return reasons.REPLICAS_UNKNOWN, ""
    if plan.hold is Hold.TWO_OWNERS:
        return plan.hold.value, reasons.two_owners(record.other_owner)
    return plan.hold.value, ""


def _is_same(one: Plan | None, other: Plan | None) -> bool:
    """Return whether two plans are equal, apart from the time of the next one."""
    return one is other or (one is not None and other is not None and one[:-1] == other[:-1])
