"""Decides the replicas of one workload from its load: one call per tick, O(1).

Knative's counterpart: Scale in pkg/autoscaler/scaling/autoscaler.go. Differences: scale to zero
goes by the end of the last request, running requests keep the pods that they need, and
panic mode also keeps pods that are still starting. Until a pod is ready, the limit of one step is
much lower. The replicas of a cold start stay for a stable window after all were ready.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import ceil, floor, inf
from typing import Final, NamedTuple, final

#: Load of the panic window, in multiples of the targets of all ready pods, that starts panic mode
#: (Knative: panic-threshold-percentage, 200).
PANIC_THRESHOLD: Final = 2.0
#: One decision multiplies the ready pods by no more (Knative: max-scale-up-rate).
MAX_SCALE_UP_RATE: Final = 1000.0
#: Until a pod is ready, a load multiplies the replicas of a cold start by no more: one report must
#: not start a thousand pods.
MAX_FIRST_RATE: Final = 10.0
#: Seconds of the stable window (Knative: stable-window).
STABLE: Final = 60
#: One decision divides the ready pods by no more (Knative: max-scale-down-rate).
MAX_SCALE_DOWN_RATE: Final = 2.0
#: One object for all: thousands of workloads have this time.
_NEVER: Final = -inf


@dataclass(frozen=True, slots=True)
class ScaleRules:
    """What the annotations of one workload ask for.

    Attributes:
        target: concurrent requests per pod; above 0.
        target_rate: requests per second and pod; 0 to scale by concurrent requests alone.
        min_scale: replicas that the workload has even without a request.
        max_scale: replicas that it never exceeds; 0 for no limit.
        initial_scale: replicas that a cold start asks for, and that stay until all were ready.
        idle: seconds from the end of the last request to scale to zero.
        activation_scale: replicas that the workload has at least while it is awake.
    """

    target: float = 100.0
    min_scale: int = 0
    max_scale: int = 0
    initial_scale: int = 1
    idle: float = 300.0
    target_rate: float = 0.0
    activation_scale: int = 1

    def __post_init__(self) -> None:
        if self.target <= 0:
            raise ValueError(f"target must be above 0, it is {self.target:g}")
        if 0 < self.max_scale < self.min_scale:
            raise ValueError(f"max_scale {self.max_scale} is below min_scale {self.min_scale}")

    @property
    def first(self) -> int:
        """Replicas that a cold start asks for, without regard to ``max_scale``."""
        return max(self.initial_scale, self.activation_scale, 1)


class Mode(Enum):
    """How a workload is scaled; the value is what people read."""

    STABLE = "stable"
    PANIC = "panic"


class Why(Enum):
    """The rule that decided the number of replicas; the value is what people read."""

    LOAD = "load"
    PANIC_LOAD = "panic-load"
    RATE = "rate"
    PANIC_RATE = "panic-rate"
    PANIC_HOLD = "panic-hold"
    SCALE_UP_RATE = "max-scale-up-rate"
    SCALE_DOWN_RATE = "max-scale-down-rate"
    RUNNING = "running-requests"
    NOT_IDLE = "not-idle-long-enough"
    IDLE = "idle"
    COLD_START = "cold-start"
    INITIAL_SCALE = "initial-scale"
    ACTIVATION_SCALE = "activation-scale"
    WAKE_WITH = "wake-with"
    AWAKE_HOURS = "awake-hours"
    MIN_SCALE = "min-scale"
    MAX_SCALE = "max-scale"


#: One sentence per rule, for ``activator explain``, the API and the dashboard.
SENTENCES: Final = {
    Why.LOAD: "the mean load of the last 60 s needs as many pods",
    Why.PANIC_LOAD: "the mean load of the last 6 s needs as many pods",
    Why.RATE: "the requests per second of the last 60 s need as many pods",
    Why.PANIC_RATE: "the requests per second of the last 6 s need as many pods",
    Why.PANIC_HOLD: "a burst ended less than 60 s ago, and no pod is removed until then",
    Why.SCALE_UP_RATE: "one decision multiplies the ready pods by at most 1000; until a pod is "
    "ready, there are at most 10 times as many as initial-scale asks for",
    Why.SCALE_DOWN_RATE: "one decision removes at most half of the ready pods",
    Why.RUNNING: "the requests in flight and queued need as many pods",
    Why.NOT_IDLE: "idle-seconds have not passed since the last request, or since the scaler began "
    "to watch the workload",
    Why.IDLE: "no request for idle-seconds",
    Why.COLD_START: "a request waits while there is no pod",
    Why.INITIAL_SCALE: "initial-scale keeps as many pods until 60 s after all were ready",
    Why.ACTIVATION_SCALE: "activation-scale asks for as many pods while the workload is awake",
    Why.WAKE_WITH: "a Service that names this one in wake-with has a cold start",
    Why.AWAKE_HOURS: "the annotation awake has these hours",
    Why.MIN_SCALE: "min-scale asks for as many pods",
    Why.MAX_SCALE: "max-scale allows no more pods",
}


class Observation(NamedTuple):
    """What is known of a workload at one moment.

    Attributes:
        stable, panic: mean concurrent requests of the two windows (``STABLE`` seconds, and 6).
        current: requests in flight or queued now, over all activators.
        ready: pods that are ready.
        replicas: replicas that its ``scale`` subresource asks for.
        rate, panic_rate: mean requests per second of the two windows.
        awake: whether the rules have awake hours now.
        called: whether ``current`` is another Service's request, which will need this one.
    """

    stable: float
    panic: float
    current: float
    ready: int
    replicas: int
    rate: float = 0.0
    panic_rate: float = 0.0
    awake: bool = False
    called: bool = False


class ScaleDecision(NamedTuple):
    """How many replicas the workload is to have, and the rule that decided it."""

    replicas: int
    mode: Mode
    why: Why


@final
class Autoscaler:
    """The decisions for one workload.

    Arguments:
        now: seconds, monotonic.
        ready: pods that are ready now. With more than one, the autoscaler begins in panic mode:
            it has no history yet, and must not remove pods for lack of it.

    Attributes:
        mode: how the workload is scaled at present.
        last_busy: when a request was last in flight or queued; the start counts as well.
    """

    __slots__ = ("_held", "_held_until", "_panic_peak", "_panic_since", "last_busy", "mode")

    def __init__(self, now: float, ready: int = 0) -> None:
        self.last_busy = now
        self.mode = Mode.PANIC if ready > 1 else Mode.STABLE
        self._panic_since = now
        self._panic_peak = ready if ready > 1 else 0
        # The replicas of the last cold start, and until when none of them goes.
        self._held, self._held_until = 0, _NEVER

    def busy(self, now: float) -> None:
        """Record that a request was in flight or queued at ``now``."""
        self.last_busy = max(self.last_busy, now)

    def decide(self, rules: ScaleRules, seen: Observation, now: float) -> ScaleDecision:
        """Return the replicas that a workload is to have.

        Arguments:
            rules: what its annotations ask for; they may change between two calls.
            seen: what is known of it.
            now: seconds, as for the constructor; never less than in an earlier call.
        """
        if seen.current > 0:
            self.busy(now)
        replicas, why = self._by_load(rules, seen, now)
        if seen.current > 0:
            kept = min(ceil(seen.current / rules.target), seen.replicas)
            if kept > replicas:
                replicas, why = kept, Why.RUNNING
            if seen.replicas == 0:
                replicas, why = rules.first, Why.WAKE_WITH if seen.called else Why.COLD_START
        elif seen.replicas == 0 or now - self.last_busy >= rules.idle:
            self.mode, self._panic_peak = Mode.STABLE, 0
            replicas, why = 0, Why.IDLE
        elif replicas == 0:
            replicas, why = 1, Why.NOT_IDLE
        if 0 < replicas < (held := self._initial(rules, seen, now)):
            replicas, why = held, Why.INITIAL_SCALE
        if self.mode is Mode.PANIC:
            self._panic_peak = replicas
        if 0 < replicas < rules.activation_scale:
            replicas, why = rules.activation_scale, Why.ACTIVATION_SCALE
        if seen.awake and replicas < rules.activation_scale:
            replicas, why = rules.activation_scale, Why.AWAKE_HOURS
        if replicas < rules.min_scale:
            return ScaleDecision(rules.min_scale, self.mode, Why.MIN_SCALE)
        if 0 < rules.max_scale < replicas:
            return ScaleDecision(rules.max_scale, self.mode, Why.MAX_SCALE)
        return ScaleDecision(replicas, self.mode, why)

    def _initial(self, rules: ScaleRules, seen: Observation, now: float) -> int:
        """Return the replicas that stay because the last cold start asked for them."""
        if seen.replicas == 0:
            self._held, self._held_until = rules.first, inf
        elif self._held_until == inf and seen.ready >= min(self._held, rules.max_scale or inf):
            self._held_until = now + STABLE
        return min(self._held, seen.replicas) if now < self._held_until else 0

    def _by_load(self, rules: ScaleRules, seen: Observation, now: float) -> tuple[int, Why]:
        """Return the replicas for the load, within the rates, and never fewer while in panic."""
        ready = max(seen.ready, 1)
        wanted, why = _needed(rules, seen.stable, seen.rate, (Why.LOAD, Why.RATE))
        urgent, urgent_why = _needed(
            rules, seen.panic, seen.panic_rate, (Why.PANIC_LOAD, Why.PANIC_RATE)
        )
        self._change_mode(urgent / ready >= PANIC_THRESHOLD, seen.replicas, now)
        replicas = wanted
        if self.mode is Mode.PANIC and urgent > wanted:
            replicas, why = urgent, urgent_why
        most = (
            MAX_SCALE_UP_RATE * ready
            if seen.ready
            else MAX_FIRST_RATE * max(rules.initial_scale, 1)
        )
        if replicas > (most := max(ceil(most), seen.replicas)):
            replicas, why = most, Why.SCALE_UP_RATE
        elif replicas < (least := floor(ready / MAX_SCALE_DOWN_RATE)):
            replicas, why = least, Why.SCALE_DOWN_RATE
        if self.mode is Mode.PANIC and replicas < self._panic_peak:
            return self._panic_peak, Why.PANIC_HOLD
        return replicas, why

    def _change_mode(self, over_threshold: bool, replicas: int, now: float) -> None:
        """Enter panic mode, stay in it, or leave it ``STABLE`` seconds after the burst."""
        if over_threshold:
            if self.mode is Mode.STABLE:
                self.mode, self._panic_peak = Mode.PANIC, replicas
            self._panic_since = now
        elif self.mode is Mode.PANIC and now > self._panic_since + STABLE:
            self.mode, self._panic_peak = Mode.STABLE, 0


def _needed(rules: ScaleRules, load: float, rate: float, rule: tuple[Why, Why]) -> tuple[int, Why]:
    """Return the pods that concurrent requests and the rate need; the larger number counts.

    Arguments:
        rule: the words for the load and for the rate.
    """
    by_load = ceil(load / rules.target)
    by_rate = ceil(rate / rules.target_rate) if rules.target_rate else 0
    return (by_rate, rule[1]) if by_rate > by_load else (by_load, rule[0])
