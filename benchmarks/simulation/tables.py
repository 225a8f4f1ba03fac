"""The results as a file, and as tables in Markdown."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from benchmarks.simulation.experiments import EXPERIMENTS, Experiment
from benchmarks.simulation.measures import Result
from benchmarks.simulation.scenario import RuleName

RESULTS: Final = Path(__file__).with_name("results.json")
#: The names of the rules in headings.
NAMES: Final[Mapping[RuleName, str]] = {
    RuleName.PRODUCT: "activator",
    RuleName.STRICT: "without borrowing",
    RuleName.KNATIVE: "Knative",
    RuleName.RANDOM: "random",
}

#: By experiment, row and rule.
Results = dict[str, dict[str, dict[RuleName, Result]]]


def write(results: Results, seeds: Sequence[int], path: Path = RESULTS) -> None:
    """Write all results, each figure with four digits, so that the file is easy to compare."""
    rows = {
        experiment: {
            label: {
                rule.value: {name: float(f"{value:.4g}") for name, value in asdict(one).items()}
                for rule, one in by_rule.items()
            }
            for label, by_rule in by_label.items()
        }
        for experiment, by_label in results.items()
    }
    path.write_text(json.dumps({"seeds": list(seeds), "experiments": rows}, indent=1) + "\n")


def read(path: Path = RESULTS) -> tuple[Results, list[int]]:
    """Return the results of a file, and their seeds."""
    found = json.loads(path.read_text())
    results: Results = {
        experiment: {
            label: {RuleName(rule): Result(**values) for rule, values in by_rule.items()}
            for label, by_rule in by_label.items()
        }
        for experiment, by_label in found["experiments"].items()
    }
    return results, found["seeds"]


def table(experiment: Experiment, results: Results) -> str:
    """Return one experiment as a table in Markdown; rows without results are left out."""
    many = len(experiment.rules) > 1
    names = " / ".join(NAMES[rule] for rule in experiment.rules)
    headings = [experiment.heading, *(column.heading for column in experiment.columns)]
    lines = [f"Each cell: {names}.", ""] if many else []
    lines += [_row(headings), _row(["---"] * len(headings))]
    for label, scenario in experiment.rows:
        by_rule = results.get(experiment.name, {}).get(label, {})
        if any(rule not in by_rule for rule in experiment.rules):
            continue
        cells = [
            " / ".join(column.value(by_rule[rule], scenario) for rule in experiment.rules)
            for column in experiment.columns
        ]
        lines.append(_row([label, *cells]))
    return "\n".join(lines)


def tables(results: Results, experiments: Sequence[Experiment] = EXPERIMENTS) -> dict[str, str]:
    """Return the tables of all experiments, by name."""
    return {experiment.name: table(experiment, results) for experiment in experiments}


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
