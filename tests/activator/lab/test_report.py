"""The output of the command."""

from __future__ import annotations

import io
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from activator.lab import command
from activator.lab.application import ALL_SWITCHES
from activator.lab.command import STYLES, SWITCHES, Printer, ReportRow, guide
from activator.lab.pod import PodOptions
from activator.lab.scenario import ScenarioOutcome
from activator.lab.scenarios import SCENARIOS
from activator.lab.timeline import TimelineEntry, Who


def outcome(passed: bool = True, error: str = "", number: int = 1) -> ScenarioOutcome:
    entries = [
        TimelineEntry(0.5, Who.KUBERNETES, "starts app-1"),
        TimelineEntry(61.25, Who.CHECK, "it is 200", passed),
    ]
    scenario = replace(SCENARIOS[0], number=number, name="name")
    return ScenarioOutcome(scenario, entries, passed, error, 2.34)


def plain(rows: list[command.ReportRow]) -> list[str]:
    return [row.plain for row in rows]


def test_timeline_is_in_columns_and_checks_stand_out():
    assert plain(command.timeline(outcome())) == [
        "    0.500  kubernetes  starts app-1",
        "   61.250  passed      it is 200",
    ]
    rows = command.timeline(outcome(False, "nothing came"))
    assert [row.style for row in rows] == ["kubernetes", "failed", "failed"]
    assert plain(rows)[-1] == "           failed      nothing came"


def test_heading_says_what_is_expected():
    lines = plain(command.heading(SCENARIOS[0], 2, 12))
    assert lines[0].startswith("1 exec-readiness: ")
    assert lines[0].endswith("(2 of 12)")
    assert SCENARIOS[0].knative in lines[1]
    assert SCENARIOS[0].here in lines[2]


def test_result_and_summary_say_who_failed():
    assert "  failed in 2.3 s" in plain(command.result(outcome(False)))
    (line,) = plain(command.summary([outcome(), outcome(False, number=7)], 2))
    assert line == "1 of 2 passed in 5 s; failed: 7 name"
    (row,) = command.summary([outcome()], 1)
    assert (row.style, row.plain) == ("passed", "1 of 1 passed in 2 s")


def test_listing_names_each():
    lines = plain(command.listing(SCENARIOS))
    assert len(lines) == len(SCENARIOS)
    assert lines[0].split()[:2] == ["1", "exec-readiness"]
    assert len({line.index(each.title) for line, each in zip(lines, SCENARIOS, strict=True)}) == 1


ROWS = [
    ReportRow("title", ("A title",)),
    ReportRow("failed", ("    0.500", "failed    ", "[red]odd\x1b[2J words[/red]")),
]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("NO_COLOR", raising=False)


def test_each_row_may_be_coloured():
    assert {who.value for who in Who} - {"check"} <= set(STYLES)


def test_pipe_gets_lines_without_colours():
    out = io.StringIO()
    Printer(out).rows(ROWS)
    assert out.getvalue().splitlines()[0] == "A title"
    assert "\x1b[31m" not in out.getvalue()


def test_terminal_gets_colours_and_nothing_that_steers_it():
    out = Terminal()
    Printer(out).rows(ROWS)
    told = out.getvalue()
    assert "\x1b[1mA title\x1b[0m" in told
    assert "[red]odd?[2J words[/red]" in told


def test_terminal_without_colours_is_heeded(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    out = Terminal()
    Printer(out).rows(ROWS[1:])
    assert "\x1b[1;31m" not in out.getvalue()


def test_what_is_under_way_is_shown_on_a_terminal_alone():
    pipe, terminal = io.StringIO(), Terminal()
    for out in (pipe, terminal):
        with Printer(out).under_way("it runs"):
            pass
    assert pipe.getvalue() == ""
    assert "it runs" in terminal.getvalue()


def test_guide_names_all_that_can_be_asked():
    pods = [PodOptions("app-1", "127.0.0.11", 8012, 8022)]
    text = "\n".join(
        row.plain
        for row in guide("127.0.0.1:1", "127.0.0.1:2", "/m", ["app", "other"], pods, {"Ready"})
    )
    for name in ("app", "other"):
        assert f"curl -H 'Host: {name}.default.svc.cluster.local' http://127.0.0.1:1/" in text
    commands = [line.split()[0] for line in text.splitlines() if "--admin-url" in line]
    installed = Path(sys.executable).with_name("activator")
    assert {Path(shutil.which(each) or "").resolve() for each in commands} == {installed.resolve()}
    assert "app-1" in text
    assert "http://127.0.0.11:8022/" in text
    assert "/m" in text


def test_switches_that_do_nothing_say_so():
    rows = guide("", "", "", [], [], {"Ready", "Running"})
    idle = [row.plain.split()[0] for row in rows if "no effect in this scenario" in row.plain]
    assert idle == ["/toggleLive", "/toggleExec", "/toggleSidecarReady", "/toggleSidecarLive"]


def test_each_switch_that_is_named_exists():
    assert {f"/toggle{name}" for name, _ in SWITCHES} == set(ALL_SWITCHES)
