"""The results as a file, and as tables in Markdown."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from benchmarks.simulation.experiments import EXPERIMENTS, P99, Experiment
from benchmarks.simulation.measures import Result
from benchmarks.simulation.scenario import RuleName

RESULTS: Final = Path(__file__).with_name("results.json")
#: The names of the rules in headings.
NAMES: Final[Mapping[RuleName, str]] = {
    RuleName.PRODUCT: "activator",
    RuleName.STRICT: "no borrowing",
    RuleName.KNATIVE: "Knative",
    RuleName.RANDOM: "random",
}

#: By experiment, row and rule.
Results = dict[str, dict[str, dict[RuleName, Result]]]


def write(results: Results, path: Path = RESULTS) -> None:
    """Write all results, each figure with four digits, so that the file is easy to compare."""
    rows = {
        experiment.name: {
            label: {
                rule.value: {name: float(f"{value:.4g}") for name, value in asdict(one).items()}
                for rule, one in by_rule.items()
            }
            for label, by_rule in results[experiment.name].items()
        }
        for experiment in EXPERIMENTS
    }
    path.write_text(json.dumps(rows, indent=1) + "\n")


def read(path: Path = RESULTS) -> Results:
    """Return the results of a file."""
    found = json.loads(path.read_text())
    return {
        experiment: {
            label: {RuleName(rule): Result(**values) for rule, values in by_rule.items()}
            for label, by_rule in by_label.items()
        }
        for experiment, by_label in found.items()
    }


def table(experiment: Experiment, results: Results) -> str:
    """Return one experiment as a table in Markdown.

    Rows without results are left out. Without any row the text is empty.
    """
    many = len(experiment.rules) > 1
    names = " / ".join(NAMES[rule] for rule in experiment.rules)
    headings = [experiment.heading, *(column.heading for column in experiment.columns)]
    lines = [f"Each cell: {names}.", ""] if many else []
    lines += [_row(headings), _row(["---"] * len(headings))]
    rows = []
    for label, scenario in experiment.rows:
        by_rule = results.get(experiment.name, {}).get(label, {})
        if any(rule not in by_rule for rule in experiment.rules):
            continue
        cells = [
            " / ".join(column.value(by_rule[rule], scenario) for rule in experiment.rules)
            for column in experiment.columns
        ]
        rows.append(_row([label, *cells]))
    return "\n".join([*lines, *rows]) if rows else ""


def waits(experiment: Experiment, results: Results, *, share: bool = False) -> str:
    """Return the p99 waits of one experiment, with a column for each rule except Knative's.

    Knative's rule differs from this project without borrowing only while pods come and go.

    Arguments:
        share: whether a column has the slots of each activator's share.
    """
    rules = [rule for rule in experiment.rules if rule is not RuleName.KNATIVE]
    names = [NAMES[rule] for rule in rules]
    headings = [experiment.heading, *(["slots of each"] if share else []), *names]
    lines = [_row(headings), _row(["---"] * len(headings))]
    for label, scenario in experiment.rows:
        by_rule = results[experiment.name][label]
        size = f"{scenario.pods * scenario.limit / scenario.activators:.0f}"
        cells = [P99.value(by_rule[rule], scenario) for rule in rules]
        lines.append(_row([label, *([size] if share else []), *cells]))
    return "\n".join(lines)


def tables(results: Results, experiments: Sequence[Experiment] = EXPERIMENTS) -> dict[str, str]:
    """Return the tables of all experiments with results, by name."""
    found = {experiment.name: table(experiment, results) for experiment in experiments}
    return {name: text for name, text in found.items() if text}


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
