"""Writes the tables and plots of two pages from the results file.

``docs/how-to/scale.md`` is for users; ``docs/simulation.md`` has the tables of all experiments.

``python -m benchmarks.simulation.page`` writes them without a new run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from benchmarks.simulation import sizing
from benchmarks.simulation.experiments import EXPERIMENTS, Experiment
from benchmarks.simulation.measures import Result
from benchmarks.simulation.scenario import RuleName, Scenario
from benchmarks.simulation.svg import Axis, Series, axis_of, chart
from benchmarks.simulation.tables import NAMES, Results, read, tables, waits

DOCS: Final = Path(__file__).resolve().parents[2] / "docs"
PAGES: Final = (DOCS / "how-to" / "scale.md", DOCS / "simulation.md")
#: Waits below this are drawn at this; service times.
_LEAST: Final = 0.01

_BLOCK: Final = re.compile(r"(<!-- simulation: ([\w-]+) -->\n).*?(<!-- /simulation -->)", re.DOTALL)


def with_tables(text: str, results: Results) -> str:
    """Return a page with the present tables between its marks."""
    by_name = {experiment.name: experiment for experiment in EXPERIMENTS}
    found = tables(results) | {
        "example": sizing.example(),
        "rates": sizing.by_rate(),
        "knative": sizing.knative(),
        "share-waits": waits(by_name["share-1"], results, share=True),
        "skew-waits": waits(by_name["skew"], results),
    }
    return _BLOCK.sub(lambda block: f"{block[1]}\n{found[block[2]]}\n\n{block[3]}", text)


def charts(results: Results) -> dict[Path, str]:
    """Return the plots by path."""
    by_name = {experiment.name: experiment for experiment in EXPERIMENTS}
    p99 = "p99 wait, in service times (log)"
    plots = {
        "simulation-share": _plot(
            *(by_name["share-1"], results, "100 pods with one slot, 70 % load: activators matter"),
            Axis("pods per activator (log)", (1.0, 3.0, 10.0, 30.0, 100.0), is_log=True),
            p99,
            lambda scenario: scenario.pods / scenario.activators,
        ),
        "simulation-load": _plot(
            *(by_name["use"], results, "10 activators, 100 pods with one slot: load matters"),
            Axis("load of all pods, percent", (30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0)),
            p99,
            lambda scenario: scenario.use * 100,
        ),
        "simulation-skew": _plot(
            *(by_name["skew"], results, "10 activators, 100 pods, 50 % load: uneven routes matter"),
            Axis("percent of all requests at one activator", (0.0, 20.0, 40.0, 60.0, 80.0)),
            p99,
            lambda scenario: scenario.skew * 100,
        ),
        "simulation-late": _plot(
            *(by_name["late"], results, "Pods come, go and die: late lists matter"),
            Axis("lists of pods late by up to so many seconds", (0.0, 5.0, 10.0, 15.0, 30.0)),
            "failed requests, percent (log)",
            lambda scenario: scenario.late,
            lambda one, _: one.failed * 100,
        ),
    }
    return {DOCS / "images" / f"{name}.svg": text for name, text in plots.items()}


def _plot(
    experiment: Experiment,
    results: Results,
    title: str,
    x: Axis,
    y_label: str,
    x_of: Callable[[Scenario], float],
    y_of: Callable[[Result, Scenario], float] = lambda one, sc: one.wait_p99 / sc.service,
) -> str:
    lines = [
        Series(NAMES[rule], sorted(_points(experiment, results, rule, x_of, y_of)))
        for rule in experiment.rules
    ]
    values = [value for line in lines for _, value in line.points]
    return chart(title, x, axis_of(y_label, values, _LEAST), lines)


def _points(
    experiment: Experiment,
    results: Results,
    rule: RuleName,
    x_of: Callable[[Scenario], float],
    y_of: Callable[[Result, Scenario], float],
) -> Iterator[tuple[float, float]]:
    for label, scenario in experiment.rows:
        yield x_of(scenario), y_of(results[experiment.name][label][rule], scenario)


def expected() -> dict[Path, str]:
    """Return the pages and the plots, as the results file asks for."""
    results = read()
    pages = {path: with_tables(path.read_text(), results) for path in PAGES}
    return {**pages, **charts(results)}


def write() -> None:
    """Write the tables of the pages, and the plots."""
    for path, text in expected().items():
        path.write_text(text)


if __name__ == "__main__":
    write()
