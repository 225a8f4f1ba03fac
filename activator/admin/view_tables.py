"""Make the tables of docs/reference.md about the responses of the admin API.

``python -m activator.admin.view_tables`` prints them, from the types of ``views`` and the rules of
the throttler.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final, get_args, get_type_hints

from activator.admin.views.activators import ActivatorView, AutoscalerView
from activator.admin.views.cold_starts import ColdStartView, PhasesView
from activator.admin.views.history import HistoryView, RevisionPastView
from activator.admin.views.pods import PodView, ProbeView
from activator.admin.views.queue_order import ClassesView, FlowView, QueueOrderView
from activator.admin.views.revisions import (
    CapacityBreakdown,
    FailureView,
    ForecastView,
    RevisionView,
    RouteView,
    StickyView,
)
from activator.admin.views.source import ManifestsView, ObjectWarningView, WatchView
from activator.admin.views.waking import AgentView, AuthorizationView, WakeRulesView
from activator.admin.views.while_waiting import ModesView, WhileWaitingView
from throttler.pod_rule import VERDICTS
from throttler.reason import Reason

_REASONS: Final = frozenset(reason.value for reason in Reason)

#: The tables in the order of docs/reference.md: heading of the first column, and the type.
TABLES: Final = (
    ("field of a revision", RevisionView),
    ("field of `capacityBreakdown`", CapacityBreakdown),
    ("field of `lastFailure`", FailureView),
    ("field of `forecast`", ForecastView),
    ("field of `sticky`", StickyView),
    ("field of `probe`", ProbeView),
    ("field of `route`", RouteView),
    ("field of `queueOrder`", QueueOrderView),
    ("field of `queuedByClass`", ClassesView),
    ("field of one of `largestFlows`", FlowView),
    ("field of `wakeRules`", WakeRulesView),
    ("field of `authorization`", AuthorizationView),
    ("field of one of `keptAwakeBy`", AgentView),
    ("field of `whileWaiting`", WhileWaitingView),
    ("field of `queuedByMode`", ModesView),
    ("field of a pod", PodView),
    ("field of `activator`", ActivatorView),
    ("field of one of `objectWarnings`", ObjectWarningView),
    ("field of one of `watches`", WatchView),
    ("field of `manifests`", ManifestsView),
    ("field of `autoscaler`", AutoscalerView),
    ("field of a cold start", ColdStartView),
    ("phase: until", PhasesView),
    ("field of the history", HistoryView),
    ("field of a revision's history", RevisionPastView),
)


def table(heading: str, view: Any) -> str:
    """Return the table of a view's fields in Markdown."""
    rows = (f"| `{name}` | {meaning} |" for name, meaning in _fields(view))
    return "\n".join((f"| {heading} | meaning |", "|---|---|", *rows))


def rules() -> str:
    """Return the table of rules in Markdown."""
    rows = (f"| `{one.rule.value}` | {one.sentence} |" for one in VERDICTS)
    return "\n".join(("| `decidedBy` | `explanation` |", "|---|---|", *rows))


def _fields(view: Any) -> Iterator[tuple[str, str]]:
    for name, hint in get_type_hints(view, include_extras=True).items():
        _, meta = get_args(hint)  # the type, and the result of says
        closed = (meta.extra_json_schema or {}).get("enum", ())
        yield name, "".join((*_words(closed), meta.description or ""))


def _words(closed: Collection[str | None]) -> Iterator[str]:
    """Yield the words of a closed set; reasons are a link, since their table has a page."""
    words = [word for word in closed if word is not None]
    if words and _REASONS.issuperset(words):
        yield "[a reason](reasons/README.md): "
    elif words:
        yield ", ".join(f"`{word}`" for word in words) + ": "


if __name__ == "__main__":
    print(*(table(heading, view) for heading, view in TABLES), rules(), sep="\n\n")
