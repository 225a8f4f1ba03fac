"""The dashboard's files by themselves: whole, of one word with the rest, and harmless.

What they do is tested in a browser.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from activator.admin import assets
from activator.console.explain import _READINESS as READINESS
from activator.console.staleness import OLD, not_ready
from activator.console.status import _OUT as OUT
from activator.records.cold_starts import Phase
from activator.records.events import EventKind

FOLDER = Path(__file__).parents[3] / "activator" / "admin" / "dashboard"
PAGE = (FOLDER / "index.html").read_text()
STYLE = (FOLDER / "style.css").read_text()
SCRIPTS = {path.name: path.read_text() for path in sorted(FOLDER.glob("*.js"))}


def test_a_pod_that_is_out_is_a_reason_by_the_words_of_the_command_line():
    told = ", ".join(f'"{rule}": "{reason}"' for rule, reason in OUT.items())
    assert f"const OUT = {{ {told} }};" in SCRIPTS["model.js"]


@pytest.mark.parametrize(("rule", "words"), READINESS.items())
def test_when_a_pod_is_ready_is_said_as_on_the_command_line(rule, words):
    """What comes after the colon is the rule itself, put in."""
    assert json.dumps(words.removesuffix(f": {rule}")) in SCRIPTS["words.js"]


@pytest.mark.parametrize(
    "why", ["connection has not yet been established", "received SIGTERM from kubelet"]
)
def test_why_it_is_not_ready_is_said_as_on_the_command_line(why):
    said = not_ready(why).removeprefix("not ready: ")
    assert f'"{why}": "{said}"' in SCRIPTS["words.js"]


def test_a_watch_is_old_when_it_is_on_the_command_line():
    assert f"const OLD = {OLD:.0f};" in SCRIPTS["header.js"]


@pytest.mark.parametrize("kind", EventKind)
def test_every_event_is_listened_to_and_has_its_words(kind):
    assert f'"{kind.value}"' in SCRIPTS["stream.js"]
    assert f'"{kind.value}": (told)' in SCRIPTS["words.js"]


@pytest.mark.parametrize("phase", Phase)
def test_every_phase_of_a_cold_start_has_its_words_and_its_colour(phase):
    assert re.search(rf'^  "?{phase.value}"?: "', SCRIPTS["cold_starts.js"], re.MULTILINE)
    assert re.search(rf"\.{phase.value} {{ background: var\(--{phase.value}\)", STYLE)


def test_what_the_page_and_its_modules_load_is_there():
    named = {*re.findall(r'"dashboard/([^"]+)"', "\n".join((PAGE, *SCRIPTS.values())))}
    named |= {*re.findall(r'from "\./([^"]+)"', "\n".join(SCRIPTS.values()))}
    served = assets.dashboard()
    assert named - {*served} == set()
    unused = {name for name in served if name.endswith(".js") and "/" not in name} - named
    assert unused == set()


def test_nothing_is_loaded_from_elsewhere():
    """The policy would stop it in a browser; what is not there need not be stopped."""
    for name, text in {**SCRIPTS, "index.html": PAGE, "style.css": STYLE}.items():
        urls = {*re.findall(r"(?:https?:)?//[\w.-]+\.\w+", text.replace("// ", ""))}
        assert urls <= {"http://www.w3.org"}, name  # SVG's namespace, which nobody asks


@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.parametrize(
    "way", ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "DOMParser", "eval("]
)
def test_no_string_can_become_markup(name, way):
    assert way not in re.sub(r"/\*\*.*?\*/", "", SCRIPTS[name], flags=re.DOTALL)


def test_the_page_has_neither_scripts_nor_styles_in_itself():
    assert re.findall(r"<script(?![^>]* src=)", PAGE) == []
    assert re.findall(r"<style|\sstyle=|\son\w+=", PAGE) == []


def test_what_others_have_written_comes_with_its_licence():
    vendored = {path.name for path in (FOLDER / "vendor").iterdir()}
    assert "MIT" in (FOLDER / "vendor" / "uPlot-LICENSE").read_text()
    told = (FOLDER / "vendor" / "README.md").read_text()
    assert all(name in told for name in vendored - {"README.md"})


def test_the_page_asks_for_all_modules_at_once():
    """Those that are found only in another one come a round trip later."""
    asked = {*re.findall(r'(?:modulepreload" href|module" src)="dashboard/([^"]+)"', PAGE)}
    assert asked == {*SCRIPTS, assets.REASONS} - {"theme.js"}
