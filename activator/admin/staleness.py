"""Ages of the source and of the link to the autoscaler, in the words of the admin API.

Traffic continues without both, with the last known state; these ages make that visible. Pure:
reads, changes nothing. Must not know where objects come from.
"""

from __future__ import annotations

from typing import Final, Protocol

from activator.admin.views.activators import AutoscalerView
from activator.admin.views.source import ManifestsView, ObjectWarningView, WatchView
from activator.records.source_status import ObjectWarning, SourceStatus
from throttler.model import RevisionID

#: Maximum of warnings in the list of all. Each revision has its own, too.
MOST_WARNINGS: Final = 100


class Link(Protocol):
    """The link to the autoscaler."""

    connected: bool
    last_error: str

    def age(self) -> float | None:
        """Return the seconds since the last sign of life; None before it is dialled."""

    def last_sent_age(self) -> float | None:
        """Return the seconds since anything was sent; None if nothing was."""


def watches_view(source: SourceStatus | None) -> dict[str, WatchView]:
    """Return ``watches``, by kind; None is a source that has not been made yet."""
    if source is None:
        return {}
    return {
        kind: {
            "ageSeconds": _rounded(each.age),
            "error": each.error or None,
            "drifted": source.missed.found.get(kind, 0),
        }
        for kind, each in source.watched.items()
    }


def warnings_view(source: SourceStatus | None) -> list[ObjectWarningView]:
    """Return ``objectWarnings`` of the activator, at most ``MOST_WARNINGS``."""
    return [_warning(each) for each in source.warnings[:MOST_WARNINGS]] if source else []


def warnings_of(
    source: SourceStatus | None, revision: RevisionID, *, has_pods: bool, pods: str = ""
) -> list[ObjectWarningView]:
    """Return ``objectWarnings`` of a revision.

    Arguments:
        has_pods: whether an object lists a pod of it. If none does, an object of its namespace
            that names no revision may be meant for it.
        pods: the name of the Service whose EndpointSlices list its pods; empty for its own.
    """
    if source is None:
        return []
    names = (revision.name,) if has_pods else (revision.name, "")
    listing = ("EndpointSlice", pods or revision.name)
    return [
        _warning(each)
        for each in source.warnings
        if each.namespace == revision.namespace
        and (each.revision in names or (each.kind, each.revision) == listing)
        and each.revision_kind in (revision.kind, None)
    ]


def _warning(one: ObjectWarning) -> ObjectWarningView:
    return {
        "kind": one.kind,
        "namespace": one.namespace,
        "name": one.name,
        "reason": one.reason or None,
        "warning": one.text,
    }


def manifests_view(source: SourceStatus | None) -> ManifestsView | None:
    """Return ``manifests``; None if the source reads no files."""
    if source is None or source.files is None:
        return None
    return {
        "folder": source.files.path,
        "ageSeconds": round(source.files.age, 3),
        "lastChangeSecondsAgo": round(source.files.changed_age, 3),
    }


def autoscaler_view(link: Link | None) -> AutoscalerView | None:
    """Return ``autoscaler``. Call it in the event loop."""
    if link is None:
        return None
    return {
        "connected": link.connected,
        "ageSeconds": _rounded(link.age()),
        "lastSentSecondsAgo": _rounded(link.last_sent_age()),
        "lastError": link.last_error or None,
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
