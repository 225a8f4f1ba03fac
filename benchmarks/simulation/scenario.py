"""Defines one scenario: the number of activators and pods, the load, and the faults."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class RuleName(StrEnum):
    """The rules that are compared."""

    PRODUCT = "activator"
    STRICT = "without-borrow"
    KNATIVE = "knative"
    RANDOM = "random"


@dataclass(frozen=True, slots=True)
class Scaling:
    """A scaler that follows the load.

    Attributes:
        target: concurrent requests per pod.
        start: seconds from a new replica until its pod serves.
        late: a report comes up to so many seconds late, by a random delay; lost: part that does not
            come at all.
    """

    target: float
    start: float = 3.0
    late: float = 0.0
    lost: float = 0.0


@dataclass(frozen=True, slots=True)
class Scenario:
    """One world.

    Attributes:
        name: unique.
        activators, pods: how many there are at the start.
        limit: containerConcurrency; 0 for no limit.
        use: mean load divided by the limit of all pods together. With ``limit`` 0, mean requests in
            flight per pod.
        service: mean service time, seconds; service_law: see load.service_times.
        arrival_law: see load.Rate; steps: the same.
        seconds: of arrivals; warm_up: requests that arrive before do not count.
        skew: part of all requests that the ingress sends to the first activator; 0: an equal part.
        late: each list of endpoints reaches an activator up to so many seconds late.
        replaced: pods that are replaced by others during the run, one by one.
        killed: pods that die during the run, with a replacement each.
        rolled: activators that are replaced during the run, one by one.
        cold: whether the pods start only when the first request has arrived.
        scaling: None for a fixed number of pods.
    """

    name: str
    activators: int
    pods: int
    limit: int
    use: float
    service: float = 0.1
    service_law: str = "exponential"
    arrival_law: str = "poisson"
    steps: tuple[tuple[float, float], ...] = ()
    seconds: float = 20.0
    warm_up: float = 2.0
    skew: float = 0.0
    late: float = 0.0
    replaced: int = 0
    killed: int = 0
    rolled: int = 0
    cold: bool = False
    scaling: Scaling | None = None

    @property
    def rate(self) -> float:
        """Mean arrivals a second."""
        return self.use * self.pods * max(self.limit, 1) / self.service
