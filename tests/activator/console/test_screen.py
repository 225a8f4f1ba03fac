"""Pages on a terminal and elsewhere, once and repeatedly."""

from __future__ import annotations

import io
import json
from datetime import datetime

import pytest

from activator.console.client import NoResponse, NotKnown, UnexpectedResponse
from activator.console.screen import (
    Blocks,
    Fact,
    Shown,
    Table,
    Terminal,
    paragraph,
    plain,
    redrawing,
    screen,
    show,
    watch,
    without_ages,
)

TABLE = Table(("name", "in flight"), (("a", "1/2"), ("longer", "0/inf")), frozenset({"in flight"}))
FACTS = (Fact("Queue", ("3",)), Fact("What to do", ("one", "two")))


class Tty(io.StringIO):
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
    pipe, terminal = io.StringIO(), Tty()
    for out in (pipe, terminal):
        show(("title", FACTS, TABLE), out)
    assert pipe.getvalue() == plain(("title", FACTS, TABLE))
    for part in ("title", "What to do", "two", "in flight", "longer", "┃"):
        assert part in terminal.getvalue()


@pytest.mark.parametrize(("columns", "drawn"), [(20, False), (22, True)])
def test_a_table_that_does_not_fit_becomes_paragraphs(columns, drawn, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    terminal = Tty()
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
    terminal = Tty()
    show(("[red]a", (Fact("[b]", ("[/b]",)),), Table(("[i]x",), (("[red]b",),))), terminal)
    for name in ("[red]a", "[b]", "[/b]", "[red]b"):
        assert name in terminal.getvalue()


def test_a_page_is_drawn_in_place_of_the_last():
    terminal = Tty()
    with redrawing(terminal) as redraw:
        redraw(("first", TABLE), "")
        redraw(("second",), "nobody answers")
    said = terminal.getvalue()
    assert said.index("first") < said.index("nobody answers") < said.index("second")
    assert "\x1b[1A" in said  # moves the cursor up over the old page


class Script:
    """The result of each poll, one after the other; the watch ends after the last."""

    def __init__(self, *finds) -> None:
        self.finds = list(finds)

    def look(self) -> Shown:
        found = self.finds.pop(0)
        if isinstance(found, Exception):
            raise found
        second = found.pop("second", {})
        return Shown(json.dumps(found), (f"state {found['state']}",), json.dumps(second))

    def wait(self) -> bool:
        return not self.finds


def watched(*finds, as_json: bool = False, aside: io.StringIO | None = None) -> str:
    script, out = Script(*finds), io.StringIO()
    clock = lambda: datetime(2026, 1, 2, 3, 4, 5)  # noqa: E731 - one line is enough for it
    watch(script.look, Blocks(out, as_json, aside or io.StringIO(), clock), script.wait)
    return out.getvalue()


NOW = "--- 2026-01-02 03:04:05\n"


def test_a_block_is_written_whenever_anything_has_changed():
    said = watched({"state": 1}, {"state": 1}, {"state": 2}, {"state": 2}, {"state": 1})
    assert said == f"{NOW}state 1\n\n{NOW}state 2\n\n{NOW}state 1\n\n"


def test_time_that_passes_is_no_change():
    ages = {"oldestWaiterSeconds": 1.0, "pods": [{"lastProbeSecondsAgo": 2.0}]}
    later = {"oldestWaiterSeconds": 2.0, "pods": [{"lastProbeSecondsAgo": 3.0}]}
    assert watched({"state": 1} | ages, {"state": 1} | later).count("state 1") == 1
    assert without_ages(ages) == {"pods": [{}]}


def test_it_goes_on_through_a_restart_and_says_so_once():
    gone = NoResponse("no activator responds at http://x: refused.\nStart one with…")
    said = watched({"state": 1}, gone, gone, NotKnown("default/x is not known"), {"state": 1})
    assert said == (
        f"{NOW}state 1\n\n{NOW}no activator responds at http://x: refused.\n\n"
        f"{NOW}default/x is not known\n\n{NOW}state 1\n\n"
    )


@pytest.mark.parametrize("error", [NoResponse, NotKnown, UnexpectedResponse])
def test_a_first_look_that_fails_is_the_end(error):
    with pytest.raises(error):
        watched(error("no"))


def test_json_is_a_line_a_change_and_missed_changes_are_reported_aside_once():
    aside = io.StringIO()
    finds = {"state": 1}, NoResponse("no\nmore"), NoResponse("no"), {"state": 1}, {"state": 2}
    said = watched(*finds, as_json=True, aside=aside)
    assert said == '{"state":1}\n{"state":1}\n{"state":2}\n'
    assert aside.getvalue() == f"{NOW}no\n"


def test_a_second_response_is_a_change_on_a_page_and_none_in_json():
    finds = [{"state": 1, "second": {"error": error, "ageSeconds": 1}} for error in "aab"]
    assert watched(*map(dict, finds)).count("state 1") == 2
    assert watched(*map(dict, finds), as_json=True) == '{"state":1}\n'


def test_a_terminal_keeps_the_last_page_below_what_is_wrong():
    drawn: list[object] = []
    script = Script({"state": 1}, NoResponse("gone"), {"state": 2})
    watch(script.look, Terminal(lambda page, note: drawn.append((page, note))), script.wait)
    assert drawn == [(("state 1",), ""), (("state 1",), "gone"), (("state 2",), "")]


def test_a_terminal_is_drawn_on_unless_json_is_wanted(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    with screen(Tty(), as_json=False) as on:
        assert isinstance(on, Terminal)
    for out, as_json in ((Tty(), True), (io.StringIO(), False)):
        with screen(out, as_json) as on:
            assert isinstance(on, Blocks)
