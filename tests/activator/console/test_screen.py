"""Pages on a terminal and in a pipe."""

from __future__ import annotations

import io

import pytest

from activator.console.screen import Fact, Table, paragraph, plain, redrawing, show

TABLE = Table(("name", "in flight"), (("a", "1/2"), ("longer", "0/inf")), frozenset({"in flight"}))
FACTS = (Fact("Queue", ("3",)), Fact("What to do", ("one", "two")))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "xterm")


def test_plain_columns_are_aligned_and_have_no_blanks_in_headings():
    assert plain(("title", FACTS, TABLE)).splitlines() == [
        "title",
        "",
        "Queue       3",
        "What to do  one",
        "            two",
        "",
        "NAME    IN-FLIGHT",
        "a       1/2",
        "longer  0/inf",
    ]


def test_a_pipe_gets_the_plain_one_and_a_terminal_a_drawn_one():
    pipe, terminal = io.StringIO(), Terminal()
    for out in (pipe, terminal):
        show(("title", FACTS, TABLE), out)
    assert pipe.getvalue() == plain(("title", FACTS, TABLE))
    for part in ("title", "What to do", "two", "in flight", "longer", "┃"):
        assert part in terminal.getvalue()


@pytest.mark.parametrize(("columns", "drawn"), [(20, False), (22, True)])
def test_a_table_that_does_not_fit_becomes_paragraphs(columns, drawn, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    terminal = Terminal()
    show((TABLE,), terminal)
    said = terminal.getvalue()
    assert ("┃" in said) == drawn
    assert "longer" in said
    assert drawn or "  in flight 0/inf" in said


def test_a_paragraph_breaks_between_words_and_keeps_a_name_with_its_value():
    columns = ("address", "state", "last probe", "empty", "error")
    row = ("10.0.0.1:8012", "healthy", "0.1s", "-", "connection refused by-somebody")
    assert paragraph(columns, row, 26) == [
        "10.0.0.1:8012",
        "  state healthy,",
        "  last probe 0.1s,",
        "  error connection refused",
        "  by-somebody",
    ]


def test_a_name_in_brackets_is_no_colour():
    terminal = Terminal()
    show(("[red]a", (Fact("[b]", ("[/b]",)),), Table(("[i]x",), (("[red]b",),))), terminal)
    for name in ("[red]a", "[b]", "[/b]", "[red]b"):
        assert name in terminal.getvalue()


def test_a_page_is_drawn_in_place_of_the_last():
    terminal = Terminal()
    with redrawing(terminal) as redraw:
        redraw(("first", TABLE), "")
        redraw(("second",), "nobody answers")
    said = terminal.getvalue()
    assert said.index("first") < said.index("nobody answers") < said.index("second")
    assert "\x1b[1A" in said  # moves the cursor up over the old page
