"""How many replicas a workload gets: Knative's documented rules as a table, then random walks."""

from __future__ import annotations

import random
from math import ceil
from typing import Any

import pytest

from activator.kpa.decision import (
    MAX_SCALE_DOWN_RATE,
    SENTENCES,
    STABLE,
    Autoscaler,
    Mode,
    Observation,
    ScaleDecision,
    ScaleRules,
    Why,
)
from activator.scale.reports.load import LoadWindow

TEN = ScaleRules(target=10)


def seen(
    stable: float = 0,
    panic: float | None = None,
    *,
    current: float | None = None,
    ready: int = 1,
    replicas: int | None = None,
) -> Observation:
    """Return an observation of a workload that runs as many pods as are ready."""
    return Observation(
        stable,
        stable if panic is None else panic,
        stable if current is None else current,
        ready,
        ready if replicas is None else replicas,
    )


@pytest.mark.parametrize(
    ("rules", "observed", "replicas", "why"),
    [
        pytest.param(TEN, seen(50, 10), 5, Why.LOAD, id="the stable load over the target"),
        pytest.param(TEN, seen(51, 10), 6, Why.LOAD, id="rounded up"),
        pytest.param(TEN, seen(0.001), 1, Why.LOAD, id="any load needs a pod"),
        pytest.param(TEN, seen(10, 60), 6, Why.PANIC_LOAD, id="a burst"),
        pytest.param(TEN, seen(20, 30, ready=2), 2, Why.LOAD, id="no burst below 200 %"),
        pytest.param(TEN, seen(60, 20, ready=1), 6, Why.LOAD, id="in panic the larger one"),
        pytest.param(TEN, seen(10, ready=10), 5, Why.SCALE_DOWN_RATE, id="half at a time"),
        pytest.param(TEN, seen(10, ready=3), 1, Why.LOAD, id="3 may become 1"),
        pytest.param(ScaleRules(1), seen(5000), 1000, Why.SCALE_UP_RATE, id="1000 times as many"),
        pytest.param(
            *(ScaleRules(1), seen(5000, ready=0, replicas=1), 10, Why.SCALE_UP_RATE),
            id="10 times initial-scale until a pod is ready",
        ),
        pytest.param(
            *(ScaleRules(1, initial_scale=30), seen(5000, ready=0, replicas=30), 300),
            *(Why.SCALE_UP_RATE,),
            id="10 times a larger initial-scale",
        ),
        pytest.param(
            *(ScaleRules(1), seen(5000, ready=0, replicas=40), 40, Why.SCALE_UP_RATE),
            id="pods that are not ready stay",
        ),
        pytest.param(TEN, seen(10, current=75, ready=8), 8, Why.RUNNING, id="running requests"),
        pytest.param(TEN, seen(0, ready=1), 1, Why.NOT_IDLE, id="not idle yet"),
        pytest.param(TEN, seen(1, ready=0), 1, Why.COLD_START, id="cold start"),
        pytest.param(
            ScaleRules(10, initial_scale=3), seen(1, ready=0), 3, Why.COLD_START, id="by 3"
        ),
        pytest.param(TEN, seen(90, ready=0), 1, Why.COLD_START, id="the load counts after it"),
        pytest.param(
            ScaleRules(10, initial_scale=0), seen(1, ready=0), 1, Why.COLD_START, id="by 1"
        ),
        pytest.param(
            ScaleRules(10, min_scale=2), seen(10, ready=2), 2, Why.MIN_SCALE, id="at least 2"
        ),
        pytest.param(ScaleRules(10, min_scale=2), seen(0, ready=0), 2, Why.MIN_SCALE, id="unasked"),
        pytest.param(
            ScaleRules(10, max_scale=4), seen(90, ready=4), 4, Why.MAX_SCALE, id="at most 4"
        ),
        pytest.param(TEN, seen(0, ready=0), 0, Why.IDLE, id="asleep"),
        pytest.param(
            TEN, seen(30, current=0, ready=0), 0, Why.IDLE, id="no request waits: stays asleep"
        ),
        pytest.param(
            TEN, seen(10, ready=0, replicas=1), 1, Why.LOAD, id="its pod is about to come"
        ),
    ],
)
def test_the_rules(rules: ScaleRules, observed: Observation, replicas: int, why: Why) -> None:
    decision = Autoscaler(0).decide(rules, observed, 1)
    assert (decision.replicas, decision.why) == (replicas, why)


@pytest.mark.parametrize(
    ("rates", "load", "replicas", "why"),
    [
        pytest.param((100, 100), 10, 4, Why.RATE, id="the rate needs more pods"),
        pytest.param((101, 10), 10, 5, Why.RATE, id="rounded up"),
        pytest.param((100, 100), 50, 5, Why.LOAD, id="the load needs more pods"),
        pytest.param((50, 50), 20, 2, Why.LOAD, id="both need as many"),
        pytest.param((10, 160), 10, 7, Why.PANIC_RATE, id="a burst of short requests"),
        pytest.param((10, 160), (10, 90), 9, Why.PANIC_LOAD, id="a burst of both"),
    ],
)
def test_a_target_rate_counts_beside_the_target(
    rates: tuple[float, float], load: Any, replicas: int, why: Why
) -> None:
    rules = ScaleRules(target=10, target_rate=25)
    stable, panic = load if isinstance(load, tuple) else (load, load)
    observed = seen(stable, panic, current=1)._replace(rate=rates[0], panic_rate=rates[1])
    decision = Autoscaler(0).decide(rules, observed, 1)
    assert (decision.replicas, decision.why) == (replicas, why)
    without = Autoscaler(0).decide(ScaleRules(target=10), observed, 1)
    assert without.why in (Why.LOAD, Why.PANIC_LOAD)


def test_every_rule_has_a_sentence() -> None:
    assert list(SENTENCES) == list(Why)


@pytest.mark.parametrize(
    "wrong", [{"target": 0.0}, {"target": -1.0}, {"min_scale": 3, "max_scale": 2}]
)
def test_rules_that_contradict_themselves_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"target must be|is below min_scale"):
        ScaleRules(**wrong)  # type: ignore[arg-type]  # a table of whole and other numbers


def test_no_pod_goes_for_a_minute_after_a_burst() -> None:
    scaler = Autoscaler(0)
    assert scaler.decide(TEN, seen(10, 60), 100) == ScaleDecision(6, Mode.PANIC, Why.PANIC_LOAD)
    after = seen(10, 5, ready=6)
    assert scaler.decide(TEN, after, 100 + STABLE) == ScaleDecision(6, Mode.PANIC, Why.PANIC_HOLD)
    assert scaler.decide(TEN, after, 101 + STABLE) == ScaleDecision(
        3, Mode.STABLE, Why.SCALE_DOWN_RATE
    )


def test_the_initial_scale_stays_for_a_stable_window_after_all_pods_were_ready() -> None:
    scaler, rules = Autoscaler(0), ScaleRules(10, initial_scale=3)
    assert scaler.decide(rules, seen(1, ready=0), 10).replicas == 3
    for now, ready in ((10.1, 0), (20, 1), (90, 2), (100, 3), (101, 2), (99 + STABLE, 3)):
        decision = scaler.decide(rules, seen(1, ready=ready, replicas=3), now)
        assert decision == ScaleDecision(3, Mode.STABLE, Why.INITIAL_SCALE), now
    assert scaler.decide(rules, seen(40, ready=3), 99.5 + STABLE).replicas == 4
    assert scaler.decide(rules, seen(1, ready=3), 100 + STABLE) == ScaleDecision(
        1, Mode.STABLE, Why.LOAD
    )


def test_the_initial_scale_never_adds_pods_and_ends_with_idleness_or_max_scale() -> None:
    scaler, rules = Autoscaler(0), ScaleRules(10, initial_scale=3, max_scale=2, idle=20)
    assert scaler.decide(rules, seen(1, ready=0), 10).replicas == 2
    assert scaler.decide(rules, seen(1, ready=1, replicas=1), 11).replicas == 1
    assert scaler.decide(rules, seen(1, ready=2), 12).why is Why.INITIAL_SCALE
    assert scaler.decide(rules, seen(1, ready=2), 12 + STABLE).replicas == 1
    scaler.decide(rules, seen(1, ready=0), 100)
    assert scaler.decide(rules, seen(0, ready=1, replicas=2), 120).replicas == 0


def test_a_burst_that_lasts_extends_the_minute() -> None:
    scaler = Autoscaler(0)
    scaler.decide(TEN, seen(10, 60), 100)
    scaler.decide(TEN, seen(10, 160, ready=6), 150)
    held = scaler.decide(TEN, seen(10, 5, ready=16), 150 + STABLE)
    assert held == ScaleDecision(16, Mode.PANIC, Why.PANIC_HOLD)


def test_a_start_without_history_removes_no_pod_for_a_minute() -> None:
    scaler = Autoscaler(0, ready=8)
    assert scaler.decide(TEN, seen(1, ready=8), STABLE).replicas == 8
    assert scaler.decide(TEN, seen(1, ready=8), STABLE + 1).replicas == 4


@pytest.mark.parametrize("idle", [5.0, 60.0, 300.0])
def test_scale_to_zero_counts_from_the_last_request_whatever_the_windows_say(idle: float) -> None:
    scaler, rules = Autoscaler(0), ScaleRules(10, idle=idle)
    scaler.decide(rules, seen(80, 80, ready=8), 100)
    assert scaler.decide(rules, seen(60, current=0, ready=8), 100 + idle - 1).replicas > 0
    assert scaler.decide(rules, seen(60, current=0, ready=8), 100 + idle) == ScaleDecision(
        0, Mode.STABLE, Why.IDLE
    )


def test_a_start_counts_as_a_request_for_scale_to_zero() -> None:
    scaler = Autoscaler(1000)
    assert scaler.decide(TEN, seen(ready=1), 1299).why is Why.NOT_IDLE
    assert scaler.decide(TEN, seen(ready=1), 1300).replicas == 0


def test_changed_rules_count_at_once() -> None:
    scaler = Autoscaler(0)
    assert scaler.decide(TEN, seen(50, ready=5), 1).replicas == 5
    assert scaler.decide(ScaleRules(5), seen(50, ready=5), 2).replicas == 10


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.untraced  # long when traced
def test_any_walk_keeps_the_promises(seed: int) -> None:
    """Random load, rules and pods that come late: each decision keeps the rules."""
    chance = random.Random(seed)
    rules = ScaleRules(
        chance.choice((1.0, 7.5, 100.0)),
        min_scale := chance.choice((0, 0, 2)),
        chance.choice((0, 0, min_scale + 3)),
        chance.choice((0, 1, 4)),
        chance.choice((3.0, 30.0, 300.0)),
    )
    window, scaler, ready, replicas, load, busy = LoadWindow(), Autoscaler(0), 0, 0, 0.0, 0
    for now in range(1, 3000):
        if chance.random() < 0.02:
            load = chance.choice((0, 0, 0.2, 3, 40, 900))
        busy = now if load else busy
        window.record(now, load)
        observed = Observation(*window.averages(now), load, ready, replicas)
        decision = scaler.decide(rules, observed, now)
        wanted = decision.replicas
        assert wanted >= rules.min_scale
        assert not rules.max_scale or wanted <= rules.max_scale
        if load:
            enough = min(ceil(load / rules.target), replicas)
            assert wanted >= max(1, min(enough, rules.max_scale or enough))
        else:
            assert wanted > 0 or replicas == 0 or now - busy >= rules.idle
            assert wanted == rules.min_scale or now - busy < rules.idle
        if wanted < replicas and now - busy < rules.idle and decision.why is not Why.MAX_SCALE:
            assert decision.mode is Mode.STABLE
            assert wanted >= min(ready, replicas) // MAX_SCALE_DOWN_RATE
        replicas = wanted
        ready += (replicas > ready) * chance.choice((0, 1, 2))
        ready = min(ready, replicas)


@pytest.mark.parametrize("load", [1.0, 9.0, 10.0, 11.0, 250.0])
def test_a_constant_load_settles_at_what_it_needs(load: float) -> None:
    window, scaler, replicas = LoadWindow(), Autoscaler(0), 0
    for now in range(1, 200):
        window.record(now, load)
        observed = Observation(*window.averages(now), load, replicas, replicas)
        replicas = scaler.decide(TEN, observed, now).replicas
    assert replicas == ceil(load / 10)
