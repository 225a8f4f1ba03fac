"""Makes the response about the scaler itself: leader, activators, watches and unusable objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from activator.objects.fields import ObjectKey
from activator.scale.admin.views import LeaderView, View
from activator.scale.reports.load import Activator

#: Unusable objects in a response, at most.
MOST_OBJECTS: Final = 100


class ActivatorView(View):
    """One activator that reports, or that was just lost; times are in seconds before now."""

    name: str
    address: str
    connected: bool
    connected_seconds: float | None
    last_report_seconds: float | None
    lost_seconds: float | None


class WatchView(View):
    """The watch of one kind of objects."""

    age_seconds: float
    error: str


class ObjectView(View):
    """An object that the scaler cannot use."""

    kind: str
    namespace: str
    name: str
    problem: str


class ScalerView(View):
    """The response to ``GET /api/v1/scaler``."""

    leader: LeaderView
    namespace: str
    version: str
    uptime_seconds: float
    not_ready_reason: str | None
    activators: list[ActivatorView]
    watches: dict[str, WatchView]
    objects: list[ObjectView]
    objects_total: int
    dashboard: str | None


def activators(known: Iterable[Activator], now: float) -> list[ActivatorView]:
    """Return the activators.

    Arguments:
        now: seconds, on the clock of the activators' times.
    """

    def ago(at: float | None) -> float | None:
        return None if at is None else round(max(0.0, now - at), 1)

    return [
        ActivatorView(
            *(one.name, one.address, one.lost is None),
            *(ago(one.connected), ago(one.reported), ago(one.lost)),
        )
        for one in known
    ]


def watches(ages: Mapping[str, float], errors: Mapping[str, str]) -> dict[str, WatchView]:
    """Return the watches by kind.

    Arguments:
        ages: seconds since the last sign of life.
        errors: why a watch fails; working ones are absent.
    """
    return {
        kind: WatchView(round(ages.get(kind, 0.0), 1), errors.get(kind, ""))
        for kind in sorted(ages.keys() | errors.keys())
    }


def objects(rejected: Mapping[ObjectKey, str]) -> list[ObjectView]:
    """Return the first unusable objects, sorted by kind and name."""
    first = sorted(rejected.items())[:MOST_OBJECTS]
    return [ObjectView(key.kind, key.namespace, key.name, why) for key, why in first]
