from __future__ import annotations

import io

import pytest

from activator.lab.report import STYLES, Printer, ReportRow
from activator.lab.timeline import Who

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
