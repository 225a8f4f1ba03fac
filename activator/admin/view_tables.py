"""Make the tables of docs/reference.md about the responses of the admin API.

``python -m activator.admin.view_tables`` prints them, from the types of views.py and the rules of
the throttler.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final, get_args, get_type_hints

from activator.admin import views
from throttler.pod_rule import VERDICTS
from throttler.reason import Reason

_REASONS: Final = frozenset(reason.value for reason in Reason)

#: The tables in the order of docs/reference.md: heading of the first column, and the type.
TABLES: Final = (
    ("field of a revision", views.RevisionView),
    ("field of `capacityBreakdown`", views.CapacityBreakdown),
    ("field of `lastFailure`", views.FailureView),
    ("field of `forecast`", views.ForecastView),
    ("field of `probe`", views.ProbeView),
    ("field of `route`", views.RouteView),
    ("field of a pod", views.PodView),
    ("field of `activator`", views.ActivatorView),
    ("field of one of `objectWarnings`", views.ObjectWarningView),
    ("field of one of `watches`", views.WatchView),
    ("field of `manifests`", views.ManifestsView),
    ("field of `autoscaler`", views.AutoscalerView),
    ("field of a cold start", views.ColdStartView),
    ("phase: until", views.PhasesView),
    ("field of the history", views.HistoryView),
    ("field of a revision's history", views.RevisionPastView),
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
        _, meta = get_args(hint)  # the type, and the result of views.says
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
