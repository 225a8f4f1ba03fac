"""All experiments: each is a table of scenarios, with the figures that it shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from benchmarks.simulation.measures import Result
from benchmarks.simulation.scenario import RuleName, Scaling, Scenario

_P, _S, _K, _R = RuleName
COMPARED: Final = (_P, _K, _R)
ALL: Final = (_P, _S, _K, _R)


@dataclass(frozen=True, slots=True)
class Column:
    """One figure of a table.

    Attributes:
        heading: with its unit.
        value: returns the figure as text.
    """

    heading: str
    value: Callable[[Result, Scenario], str]


@dataclass(frozen=True, slots=True)
class Experiment:
    """One table.

    Attributes:
        name: unique; also the name of its table on the page.
        heading: of the first column.
        rows: the first cell of each row, and its scenario.
        columns: the figures; rules: of each figure, in one cell.
        runs: of each row, with the seeds 1, 2, 3 and so on. Thousands of pods need one run, since
            runs of them differ little.
    """

    name: str
    heading: str
    rows: Sequence[tuple[str, Scenario]]
    columns: Sequence[Column]
    rules: Sequence[RuleName] = COMPARED
    runs: int = 3


def _times(value: float) -> str:
    """Return a wait in service times or seconds, with two digits: runs differ in the third."""
    return f"{value:.2f}" if value < 0.995 else f"{value:.1f}" if value < 9.95 else f"{value:.0f}"


def _percent(part: float) -> str:
    if 0 < part < 0.0005:
        return "<0.1 %"
    digits = 1 if 0 < part < 0.0995 else 0
    return f"{part:.{digits}%}".replace("%", " %")


P50: Final = Column("median wait", lambda one, sc: _times(one.wait_p50 / sc.service))
P99: Final = Column("p99 wait", lambda one, sc: _times(one.wait_p99 / sc.service))
MEAN: Final = Column("mean wait", lambda one, sc: _times(one.wait_mean / sc.service))
BESIDE: Final = Column("waited beside a free slot", lambda one, _: _percent(one.waited_beside_idle))
OVER: Final = Column("pods with a queue", lambda one, _: _percent(one.over_limit))
FAILED: Final = Column("failed", lambda one, _: _percent(one.failed))
IMBALANCE: Final = Column("busiest pod / mean", lambda one, _: f"{one.imbalance:.1f}")
MEDIAN_SECONDS: Final = Column("median wait, s", lambda one, _: _times(one.wait_p50))
SECONDS: Final = Column("p99 wait, s", lambda one, _: _times(one.wait_p99))
ERROR: Final = Column("error of the replicas", lambda one, _: _percent(one.desired_error))
TOO_MANY: Final = Column("too many", lambda one, _: _percent(one.desired_over))
TOO_FEW: Final = Column("too few", lambda one, _: _percent(one.desired_under))

#: The defaults of most rows: a load of 70 % for 60 s.
_BASE: Final = Scenario("base", 10, 100, 1, 0.7, seconds=45.0, warm_up=3.0)
_TEN: Final = replace(_BASE, limit=10, service=1.0, seconds=50.0, warm_up=8.0)
_CHANGES: Final = replace(_TEN, use=0.6, replaced=30, killed=5, rolled=2, seconds=60.0)
_STEPS: Final = ((60.0, 1.5), (150.0, 1.0))
_TRIPLE: Final = ((60.0, 3.0), (150.0, 1.0))
_SCALED: Final = Scenario(
    "scaled",
    activators=5,
    pods=20,
    limit=10,
    use=0.7,
    service=1.0,
    steps=_STEPS,
    seconds=240.0,
    warm_up=30.0,
    scaling=Scaling(target=7.0),
)
_QUESTION: Final = Scenario("question", 5, 3000, 1, 2 / 3, seconds=3.5, warm_up=1.5)


def _shares(base: Scenario) -> list[tuple[str, Scenario]]:
    return [(str(n), replace(base, activators=n)) for n in (1, 3, 10, 30, 100)]


def _slots() -> list[tuple[str, Scenario]]:
    """Return shares of about 25 slots for 10 activators."""
    shares = ((25, 1), (13, 2), (8, 3), (5, 5), (4, 6), (3, 8), (3, 10), (2, 13), (1, 25))
    return [
        (f"{pods} × {limit}", replace(_BASE, pods=10 * pods, limit=limit)) for pods, limit in shares
    ]


def _sizes() -> list[tuple[str, Scenario]]:
    pairs = ((2, 20), (20, 200), (200, 2000), (2, 50), (20, 500), (200, 5000))
    lasts = {20: 300.0, 50: 300.0, 200: 30.0, 500: 20.0, 2000: 6.0, 5000: 4.0}
    return [
        (
            f"{activators} × {pods:,}",
            replace(_BASE, activators=activators, pods=pods, seconds=lasts[pods], warm_up=2.0),
        )
        for activators, pods in pairs
    ]


def _laws() -> list[tuple[str, Scenario]]:
    base = replace(_BASE, use=0.5, seconds=60.0)
    return [
        ("Poisson, exponential", base),
        ("Poisson, fixed", replace(base, service_law="fixed")),
        ("Poisson, lognormal", replace(base, service_law="lognormal")),
        ("Poisson, Pareto", replace(base, service_law="pareto")),
        ("bursts, exponential", replace(base, arrival_law="bursty", use=0.4)),
        ("Pareto gaps, exponential", replace(base, arrival_law="pareto")),
        ("bursts, Pareto", replace(base, arrival_law="bursty", service_law="pareto", use=0.4)),
    ]


def _few() -> list[tuple[str, Scenario]]:
    return [
        (
            f"{activators} × {pods}, {limit} slot{'s' if limit > 1 else ''}",
            replace(
                _BASE if limit == 1 else _TEN,
                activators=activators,
                pods=pods,
                use=0.5,
                seconds=600.0,
            ),
        )
        for limit in (1, 10)
        for activators, pods in ((3, 1), (3, 2), (10, 3), (30, 10))
    ]


def _reports() -> list[tuple[str, Scenario]]:
    rows = []
    for label, late, lost in (
        ("at once", 0.0, 0.0),
        ("up to 1 s late", 1.0, 0.0),
        ("up to 5 s late", 5.0, 0.0),
        ("up to 15 s late", 15.0, 0.0),
        ("30 % lost", 0.0, 0.3),
        ("60 % lost", 0.0, 0.6),
        ("up to 5 s late, 30 % lost", 5.0, 0.3),
    ):
        scaling = Scaling(target=7.0, late=late, lost=lost)
        rows.append((label, replace(_SCALED, scaling=scaling)))
    rows.append(("at once; three times the load", replace(_SCALED, steps=_TRIPLE)))
    return rows


def _named(experiment: Experiment) -> Experiment:
    """Return an experiment whose scenarios have unique names, which seed their numbers."""
    rows = [
        (label, replace(scenario, name=f"{experiment.name}: {label}"))
        for label, scenario in experiment.rows
    ]
    return replace(experiment, rows=rows)


EXPERIMENTS: Final = tuple(
    map(
        _named,
        (
            Experiment(
                "share-1",
                "activators",
                _shares(_BASE),
                (MEAN, P99, BESIDE, OVER, FAILED, IMBALANCE),
                rules=ALL,
            ),
            Experiment("share-10", "activators", _shares(_TEN), (MEAN, P99, BESIDE, OVER, FAILED)),
            Experiment(
                "slots", "share: pods × slots", _slots(), (MEAN, P99, OVER, FAILED), rules=ALL
            ),
            Experiment(
                *("sizes", "activators × pods", _sizes(), (MEAN, P99, OVER, FAILED)), runs=1
            ),
            Experiment(
                "use",
                "load",
                [
                    (f"{use:.0%}".replace("%", " %"), replace(_BASE, use=use))
                    for use in (0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
                ],
                (MEAN, P99, OVER, FAILED),
                rules=ALL,
            ),
            Experiment("laws", "arrivals, service times", _laws(), (MEAN, P99, BESIDE, FAILED)),
            Experiment(
                "skew",
                "part of the first activator",
                [
                    (f"{skew:.0%}".replace("%", " %"), replace(_BASE, use=0.5, skew=skew))
                    for skew in (0.1, 0.2, 0.3, 0.5, 0.8)
                ],
                (MEAN, P99, OVER, FAILED),
                rules=ALL,
            ),
            Experiment("few", "activators × pods", _few(), (MEAN, P99, OVER, FAILED)),
            Experiment(
                "late",
                "lists late by up to",
                [
                    (f"{late:.0f} s", replace(_CHANGES, late=late))
                    for late in (0.0, 1.0, 5.0, 15.0, 30.0)
                ],
                (MEAN, P99, OVER, FAILED),
            ),
            Experiment(
                "cold",
                "activators × pods",
                [
                    (
                        f"{activators} × {pods}",
                        Scenario(
                            *("cold", activators, pods, 10, 0.5),
                            service=0.1,
                            seconds=6.0,
                            warm_up=0.0,
                            cold=True,
                        ),
                    )
                    for activators, pods in ((1, 1), (3, 20), (10, 200))
                ],
                (MEDIAN_SECONDS, SECONDS, OVER, FAILED),
            ),
            Experiment(
                "no-limit",
                "activators",
                _shares(replace(_BASE, limit=0, use=5.0, service=0.5, seconds=35.0)),
                (IMBALANCE,),
            ),
            Experiment(
                "reports",
                "reports",
                _reports(),
                (ERROR, TOO_MANY, TOO_FEW, P99),
                rules=(_P, _K),
                runs=9,
            ),
            Experiment(
                "question-1",
                "activators",
                [(str(n), replace(_QUESTION, activators=n)) for n in (2, 3, 6, 30, 100)],
                (MEAN, P99, OVER, FAILED),
                runs=1,
            ),
            Experiment(
                "question-10",
                "activators",
                [
                    (
                        str(n),
                        replace(
                            _QUESTION,
                            activators=n,
                            limit=10,
                            service=1.0,
                            seconds=8.0,
                            warm_up=4.0,
                        ),
                    )
                    for n in (3, 100)
                ],
                (MEAN, P99, OVER, FAILED),
                runs=1,
            ),
        ),
    )
)


def quick(experiment: Experiment) -> Experiment:
    """Return a smaller experiment, for a first look: at most 100 pods, and shorter runs."""
    rows = [
        (label, replace(scenario, seconds=_shorter(scenario)))
        for label, scenario in experiment.rows
        if scenario.pods <= 100
    ]
    return replace(experiment, rows=rows)


def _shorter(scenario: Scenario) -> float:
    if scenario.scaling is not None or scenario.cold:
        return scenario.seconds
    return scenario.warm_up + (scenario.seconds - scenario.warm_up) / 10
