"""Defines what a workload asks of the autoscaler, and the constants of Knative's rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: Load of the panic window, in multiples of the targets of all ready pods, that starts panic mode
#: (Knative: panic-threshold-percentage, 200).
PANIC_THRESHOLD: Final = 2.0
#: One decision multiplies the ready pods by no more (Knative: max-scale-up-rate).
MAX_SCALE_UP_RATE: Final = 1000.0
#: Until a pod is ready, a load multiplies the replicas of a cold start by no more: one report must
#: not start a thousand pods.
MAX_FIRST_RATE: Final = 10.0
#: One decision divides the ready pods by no more (Knative: max-scale-down-rate).
MAX_SCALE_DOWN_RATE: Final = 2.0


@dataclass(frozen=True, slots=True)
class Rules:
    """What the annotations of one workload ask for.

    Attributes:
        target: concurrent requests per pod; above 0.
        min_scale: replicas that the workload has even without a request.
        max_scale: replicas that it never exceeds; 0 for no limit.
        initial_scale: replicas that a cold start asks for, and that stay until all were ready.
        idle: seconds from the end of the last request to scale to zero.
    """

    target: float = 100.0
    min_scale: int = 0
    max_scale: int = 0
    initial_scale: int = 1
    idle: float = 300.0

    def __post_init__(self) -> None:
        if self.target <= 0:
            raise ValueError(f"target must be above 0, it is {self.target:g}")
        if 0 < self.max_scale < self.min_scale:
            raise ValueError(f"max_scale {self.max_scale} is below min_scale {self.min_scale}")
