"""The tables of the API in docs/reference.md; ``python -m tests.activator.admin.reference``.

They follow from the types of ``views``, as the OpenAPI document does.
"""

from __future__ import annotations

from typing import Any, Final

from activator.admin.openapi import fields_of
from activator.admin.views import activators, details, revisions
from throttler.model import ReadinessRule
from throttler.pod_rule import VERDICTS, PodDecision
from throttler.reason import Reason

_REASONS: Final = frozenset(reason.value for reason in Reason)

#: The tables in the order of docs/reference.md: heading of the first column, and the type.
TABLES: Final = (
    ("field of a revision", revisions.RevisionView),
    ("field of `capacityBreakdown`", revisions.CapacityBreakdown),
    ("field of `lastFailure`", revisions.FailureView),
    ("field of `forecast`", revisions.ForecastView),
    ("field of `sticky`", revisions.StickyView),
    ("field of `probe`", details.ProbeView),
    ("field of `route`", revisions.RouteView),
    ("field of `interceptor`", details.InterceptorView),
    ("field of `queueOrder`", details.QueueOrderView),
    ("field of one of `largestFlows`", details.FlowView),
    ("field of `wakeRules`", details.WakeRulesView),
    ("field of `authorization`", details.AuthorizationView),
    ("field of one of `keptAwakeBy`", details.AgentView),
    ("field of `whileWaiting`", details.WhileWaitingView),
    ("field of `queuedByMode`", details.ModesView),
    ("field of a pod", details.PodView),
    ("field of `activator`", activators.ActivatorView),
    ("field of one of `objectWarnings`", activators.ObjectWarningView),
    ("field of one of `watches`", activators.WatchView),
    ("field of `manifests`", activators.ManifestsView),
    ("field of `autoscaler`", activators.AutoscalerView),
    ("field of a cold start", details.ColdStartView),
    ("phase: until", details.PhasesView),
    ("field of the history", revisions.HistoryView),
    ("field of a revision's history", revisions.RevisionPastView),
)


def table(heading: str, view: Any) -> str:
    """Return the table of a view's fields in Markdown."""
    rows = (f"| `{name}` | {_set(words)}{meaning} |" for name, meaning, words in fields_of(view))
    return "\n".join((f"| {heading} | meaning |", "|---|---|", *rows))


def rules() -> str:
    """Return the table of rules in Markdown; where readiness counts, without its twin for it."""
    by_readiness = {rule.value for rule in ReadinessRule}
    rows = (
        f"| `{one.rule.value}` | {one.sentence} |"
        for one in VERDICTS
        if one.decision is PodDecision.WAIT or one.rule.value not in by_readiness
    )
    return "\n".join(("| `decidedBy` | `explanation` |", "|---|---|", *rows))


def _set(words: list[str | None]) -> str:
    """Return the words of a closed set; reasons are a link, since their table has a page."""
    words = [word for word in words if word is not None]
    if words and _REASONS.issuperset(words):
        return "[a reason](reasons/README.md): "
    return ", ".join(f"`{word}`" for word in words) + ": " if words else ""


if __name__ == "__main__":
    print(*(table(heading, view) for heading, view in TABLES), rules(), sep="\n\n")
