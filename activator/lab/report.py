"""The output of ``activator lab`` as rows: heading, timeline, result, summary.

:mod:`.printing` chooses the colours, by the style of each row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from activator.lab.scenario import Scenario
from activator.lab.timeline import ScenarioOutcome, TimelineEntry, Who

_INDENT = "  "


class ReportRow(NamedTuple):
    """One line in columns.

    Attributes:
        style: a value of `Who`, or one of title, text, passed, failed.
        columns: from the left; only a line of a timeline has more than one column.
    """

    style: str
    columns: tuple[str, ...]

    @property
    def plain(self) -> str:
        """The row as a line without colours."""
        return _INDENT.join(self.columns).rstrip()


def text(line: str = "", style: str = "text") -> ReportRow:
    """Return a row of one column, for a line outside the timeline."""
    return ReportRow(style, (line,))


def listing(scenarios: Iterable[Scenario]) -> list[ReportRow]:
    """Return a row for each scenario: number, name and title."""
    listed = tuple(scenarios)
    width = max(len(each.name) for each in listed)
    return [ReportRow("text", (f"{s.number:>2}", f"{s.name:<{width}}", s.title)) for s in listed]


def heading(scenario: Scenario, number: int, count: int) -> list[ReportRow]:
    """Return rows with the title, the behaviour of others and the required behaviour.

    Arguments:
        number, count: the scenario's position in this run, and how many there are.
    """
    other, behaviour = "Knative", scenario.knative
    if scenario.kubernetes:
        other, behaviour = "Kubernetes alone", scenario.kubernetes
    return [
        text(f"{scenario.number} {scenario.name}: {scenario.title} ({number} of {count})", "title"),
        text(f"{_INDENT}{other}: {behaviour}"),
        text(f"{_INDENT}{'here:':<{len(other) + 1}} {scenario.here}"),
        text(),
    ]


def entry(found: TimelineEntry) -> ReportRow:
    """Return one line of a timeline: seconds since the start, actor, event."""
    style, who = found.who.value, found.who.value
    if found.who is Who.CHECK:
        style = who = "passed" if found.passed else "failed"
    return ReportRow(style, (f"{found.at:9.3f}", f"{who:<10}", found.what))


def timeline(outcome: ScenarioOutcome) -> list[ReportRow]:
    """Return all lines of a timeline, and the error that ended it early."""
    rows = [entry(found) for found in outcome.entries]
    if outcome.error:
        rows.append(ReportRow("failed", (" " * 9, f"{'failed':<10}", outcome.error)))
    return rows


def result(outcome: ScenarioOutcome) -> list[ReportRow]:
    """Return rows that say whether a scenario passed."""
    word = "passed" if outcome.passed else "failed"
    return [text(), text(f"{_INDENT}{word} in {outcome.seconds:.1f} s", word), text()]


def summary(outcomes: Sequence[ScenarioOutcome]) -> list[ReportRow]:
    """Return a row with the number of passed scenarios and the names of failed ones."""
    failed = [outcome for outcome in outcomes if not outcome.passed]
    seconds = sum(outcome.seconds for outcome in outcomes)
    line = f"{len(outcomes) - len(failed)} of {len(outcomes)} passed in {seconds:.0f} s"
    if not failed:
        return [text(line, "passed")]
    names = ", ".join(f"{outcome.number} {outcome.name}" for outcome in failed)
    return [text(f"{line}; failed: {names}", "failed")]
