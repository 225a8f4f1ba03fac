"""How old is what is known, and what is told, in the words of the admin API.

Traffic goes on without cluster and autoscaler, by what was known last; these ages are how anybody
can tell. Pure: reads, changes nothing. Must not know where objects come from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from activator.admin.views import AutoscalerView, ManifestsView, WatchView


class Watch(Protocol):
    """What follows a cluster."""

    @property
    def counters(self) -> Mapping[str, object]:
        """What is counted, by kind; here only the kinds are of interest."""

    @property
    def errors(self) -> Mapping[str, str]:
        """Why watches fail at present, by kind."""

    def ages(self, now: float) -> Mapping[str, float]:
        """Return the seconds since each kind's last sign of life."""


class Drift(Protocol):
    """What self-checks found."""

    @property
    def found(self) -> Mapping[str, int]:
        """Objects of which a change was lost, by kind."""


class Folder(Protocol):
    """The folder of manifests."""

    @property
    def path(self) -> str:
        """Where it is."""

    def looked_ago(self) -> float:
        """Return the seconds since it was last looked at."""

    def changed_ago(self) -> float:
        """Return the seconds since it last said anything new."""


class Link(Protocol):
    """The link to the autoscaler."""

    connected: bool
    last_error: str

    def age(self) -> float | None:
        """Return the seconds since the last sign of life; None before it is dialled."""

    def last_sent_age(self) -> float | None:
        """Return the seconds since anything was sent; None if nothing was."""


def watches_view(watch: Watch | None, drift: Drift | None, now: float) -> dict[str, WatchView]:
    """Return ``watches``, by kind.

    Arguments:
        now: seconds, on the loop's clock.
    """
    if watch is None:
        return {}
    ages, errors = watch.ages(now), watch.errors
    return {
        kind: {
            "ageSeconds": _rounded(ages.get(kind)),
            "error": errors.get(kind),
            "drifted": drift.found.get(kind, 0) if drift else 0,
        }
        for kind in watch.counters
    }


def manifests_view(folder: Folder | None) -> ManifestsView | None:
    """Return ``manifests``."""
    if folder is None:
        return None
    return {
        "folder": folder.path,
        "ageSeconds": round(folder.looked_ago(), 3),
        "lastChangeSecondsAgo": round(folder.changed_ago(), 3),
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
