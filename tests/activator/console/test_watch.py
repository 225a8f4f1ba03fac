"""A page that the console prints again and again, also while the server fails."""

from __future__ import annotations

import io
import json
from datetime import datetime

import pytest

from activator.console.client import NoResponse, NotKnown
from activator.console.responses import UnexpectedResponse
from activator.console.watch import Blocks, Seen, Terminal, screen, watch, without_ages


class Script:
    """The result of each poll, one after the other; the watch ends after the last."""

    def __init__(self, *finds) -> None:
        self.finds = list(finds)

    def look(self) -> Seen:
        found = self.finds.pop(0)
        if isinstance(found, Exception):
            raise found
        second = found.pop("second", {})
        return Seen(json.dumps(found), (f"state {found['state']}",), json.dumps(second))

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


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_is_drawn_on_unless_json_is_wanted(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    with screen(Tty(), as_json=False) as on:
        assert isinstance(on, Terminal)
    for out, as_json in ((Tty(), True), (io.StringIO(), False)):
        with screen(out, as_json) as on:
            assert isinstance(on, Blocks)
