from __future__ import annotations

from activator.lab import report
from activator.lab.scenarios import SCENARIOS
from activator.lab.timeline import ScenarioOutcome, TimelineEntry, Who


def outcome(passed: bool = True, error: str = "", number: int = 1) -> ScenarioOutcome:
    entries = [
        TimelineEntry(0.5, Who.KUBERNETES, "starts app-1"),
        TimelineEntry(61.25, Who.CHECK, "it is 200", passed),
    ]
    return ScenarioOutcome(number, "name", "Title", "k.", "o.", entries, passed, error, 2.34)


def plain(rows: list[report.ReportRow]) -> list[str]:
    return [row.plain for row in rows]


def test_timeline_is_in_columns_and_checks_stand_out():
    assert plain(report.timeline(outcome())) == [
        "    0.500  kubernetes  starts app-1",
        "   61.250  passed      it is 200",
    ]
    rows = report.timeline(outcome(False, "nothing came"))
    assert [row.style for row in rows] == ["kubernetes", "failed", "failed"]
    assert plain(rows)[-1] == "           failed      nothing came"


def test_heading_says_what_is_expected():
    lines = plain(report.heading(SCENARIOS[0], 2, 12))
    assert lines[0].startswith("1 exec-readiness: ")
    assert lines[0].endswith("(2 of 12)")
    assert SCENARIOS[0].knative in lines[1]
    assert SCENARIOS[0].here in lines[2]


def test_result_and_summary_say_who_failed():
    assert "  failed in 2.3 s" in plain(report.result(outcome(False)))
    (line,) = plain(report.summary([outcome(), outcome(False, number=7)]))
    assert line == "1 of 2 passed in 5 s; failed: 7 name"
    (row,) = report.summary([outcome()])
    assert (row.style, row.plain) == ("passed", "1 of 1 passed in 2 s")


def test_listing_names_each():
    lines = plain(report.listing(SCENARIOS))
    assert len(lines) == len(SCENARIOS)
    assert lines[0].split()[:2] == ["1", "exec-readiness"]
    assert len({line.index(each.title) for line, each in zip(lines, SCENARIOS, strict=True)}) == 1
