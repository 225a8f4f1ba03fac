"""What the lab prints, as rows: a scenario's heading, its timeline, the result of all.

Pure. Colours are left to :mod:`.printing`; each row has the word that they go by.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from activator.lab.scenario import Scenario
from activator.lab.timeline import Entry, Outcome, Who

_INDENT = "  "


class Row(NamedTuple):
    """One line in columns.

    Attributes:
        style: a word of `Who`, or one of title, text, passed, failed.
        columns: from the left; only a line of a timeline has more than one.
    """

    style: str
    columns: tuple[str, ...]

    @property
    def plain(self) -> str:
        """As a line without colours."""
        return _INDENT.join(self.columns).rstrip()


def text(line: str = "", style: str = "text") -> Row:
    """A line that is no part of a timeline."""
    return Row(style, (line,))


def listing(scenarios: Iterable[Scenario]) -> list[Row]:
    """Number, name and title of each."""
    return [Row("text", (f"{s.number:>2}", f"{s.name:<18}", s.title)) for s in scenarios]


def heading(scenario: Scenario, number: int, count: int) -> list[Row]:
    """What is played, what Knative does then, and what must happen.

    Arguments:
        number, count: which of how many it is in this run.
    """
    return [
        text(f"{scenario.number} {scenario.name}: {scenario.title} ({number} of {count})", "title"),
        text(f"{_INDENT}Knative: {scenario.knative}"),
        text(f"{_INDENT}here:    {scenario.ours}"),
        text(),
    ]


def entry(found: Entry) -> Row:
    """One line of a timeline: seconds since the begin, who, what."""
    style, who = found.who.value, found.who.value
    if found.who is Who.CHECK:
        style = who = "passed" if found.passed else "failed"
    return Row(style, (f"{found.at:9.3f}", f"{who:<10}", found.what))


def timeline(outcome: Outcome) -> list[Row]:
    """All lines of a timeline, and what ended it too soon."""
    rows = [entry(found) for found in outcome.entries]
    if outcome.error:
        rows.append(Row("failed", (" " * 9, f"{'failed':<10}", outcome.error)))
    return rows


def result(outcome: Outcome) -> list[Row]:
    """Whether a scenario passed."""
    word = "passed" if outcome.passed else "failed"
    return [text(), text(f"{_INDENT}{word} in {outcome.seconds:.1f} s", word), text()]


def summary(outcomes: Sequence[Outcome]) -> list[Row]:
    """How many passed, and which did not."""
    failed = [outcome for outcome in outcomes if not outcome.passed]
    seconds = sum(outcome.seconds for outcome in outcomes)
    line = f"{len(outcomes) - len(failed)} of {len(outcomes)} passed in {seconds:.0f} s"
    if not failed:
        return [text(line, "passed")]
    names = ", ".join(f"{outcome.number} {outcome.name}" for outcome in failed)
    return [text(f"{line}; failed: {names}", "failed")]
