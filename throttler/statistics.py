"""A snapshot of a revision's state, for people and metrics. Changes nothing."""

from __future__ import annotations

from dataclasses import dataclass

from throttler.backends import Backends, by_endpoint
from throttler.capacity import ActivatorShare, CapacityTerms
from throttler.forecast import Forecast
from throttler.pod import PodTracker
from throttler.queue import Breaker
from throttler.slots import Slots


@dataclass(frozen=True, slots=True)
class Statistics:
    """A revision's state; see RevisionThrottler.

    Attributes:
        queued_bytes: buffered bytes of queued requests.
        oldest_arrival: arrival of the first queued request, seconds on the caller's clock; or None.
        pods: all known pods, and pods whose address moved to another revision.
        service: the ClusterIP while no pod is reachable; see its ``in_use``.
        start, turnover: seconds, see throttler.forecast; None if unknown.
    """

    waiting: int
    queued_bytes: int
    oldest_arrival: float | None
    in_flight: int
    capacity: int
    capacity_terms: CapacityTerms
    queue_depth: int
    healthy: int
    in_reach: int
    share: ActivatorShare
    pods: tuple[PodTracker, ...]
    service: PodTracker | None = None
    start: float | None = None
    turnover: float | None = None


def take_snapshot(
    breaker: Breaker,
    slots: Slots,
    backends: Backends,
    forecast: Forecast,
    share: ActivatorShare,
    terms: CapacityTerms,
) -> Statistics:
    """Return a snapshot; O(pods), not for the path of requests."""
    oldest = breaker.oldest()
    return Statistics(
        waiting=breaker.waiting,
        queued_bytes=breaker.own.bytes,
        oldest_arrival=oldest.arrived if oldest else None,
        in_flight=slots.in_flight,
        capacity=terms.capacity,
        capacity_terms=terms,
        queue_depth=breaker.own.max_depth,
        healthy=backends.healthy(),
        in_reach=0 if terms.by_service else terms.in_reach,
        share=share,
        pods=tuple(sorted(backends.known_pods(), key=by_endpoint)),
        service=backends.service.tracker,
        start=forecast.starts.median,
        turnover=forecast.turnovers.median,
    )
