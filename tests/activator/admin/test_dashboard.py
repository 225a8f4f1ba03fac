"""The dashboard's files by themselves: complete, consistent and safe.

tests/browser runs them in a browser.
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
from activator.records.cold_starts import ColdStartPhase
from activator.records.narration import EventKind
from tests.guards import expect_none

FOLDER = Path(__file__).parents[3] / "activator" / "admin" / "dashboard"
PAGE = assets.dashboard()[assets.INDEX].plain.decode()
STYLE = (FOLDER / "style.css").read_text()
SCRIPTS = {path.name: path.read_text() for path in sorted(FOLDER.glob("*.js"))}


def test_a_pod_that_is_out_is_a_reason_by_the_words_of_the_command_line():
    told = ", ".join(f'"{rule}": "{reason}"' for rule, reason in OUT.items())
    assert f"const OUT = {{ {told} }};" in SCRIPTS["model.js"]


def test_when_a_pod_is_ready_is_said_as_on_the_command_line():
    """The script itself adds the rule after the colon."""
    words = [json.dumps(words.removesuffix(f": {rule}")) for rule, words in READINESS.items()]
    expect_none(f"words.js lacks {word}" for word in words if word not in SCRIPTS["words.js"])


@pytest.mark.parametrize(
    "why", ["connection has not yet been established", "received SIGTERM from kubelet"]
)
def test_why_it_is_not_ready_is_said_as_on_the_command_line(why):
    said = not_ready(why).removeprefix("not ready: ")
    assert f'"{why}": "{said}"' in SCRIPTS["words.js"]


def test_a_watch_is_old_when_it_is_on_the_command_line():
    assert f"const OLD = {OLD:.0f};" in SCRIPTS["header.js"]


def test_every_event_is_listened_to_and_has_its_words():
    kinds = [kind.value for kind in EventKind]
    assert [kind for kind in kinds if f'"{kind}"' not in SCRIPTS["stream.js"]] == []
    assert [kind for kind in kinds if f'"{kind}": (event)' not in SCRIPTS["words.js"]] == []


def test_every_phase_of_a_cold_start_has_its_words_and_its_colour():
    phases = [phase.value for phase in ColdStartPhase]
    script = SCRIPTS["cold_starts.js"]
    worded = {name for name in phases if re.search(rf'^  "?{name}"?: "', script, re.MULTILINE)}
    assert worded == set(phases)
    coloured = {name for name in phases if f".{name} {{ background: var(--{name})" in STYLE}
    assert coloured == set(phases)


def test_what_the_page_and_its_modules_load_is_there():
    named = {*re.findall(r'"dashboard/([^"]+)"', "\n".join((PAGE, *SCRIPTS.values())))}
    named |= {*re.findall(r'from "\./([^"]+)"', "\n".join(SCRIPTS.values()))}
    served = assets.dashboard()
    assert named - {*served} == set()
    unused = {name for name in served if name.endswith(".js") and "/" not in name} - named
    assert unused == set()


def test_nothing_is_loaded_from_elsewhere():
    """A browser's policy would block such files; the dashboard must not need them."""
    for name, text in {**SCRIPTS, "index.html": PAGE, "style.css": STYLE}.items():
        urls = {*re.findall(r"(?:https?:)?//[\w.-]+\.\w+", text.replace("// ", ""))}
        assert urls <= {"http://www.w3.org"}, name  # SVG's namespace: only a name


def test_no_string_can_become_markup():
    ways = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|eval\("
    expect_none(
        f"activator/admin/dashboard/{name}:{number}: {found[0]} makes markup or code of a string"
        for name, script in SCRIPTS.items()
        for number, line in enumerate(_without_comments(script).splitlines(), 1)
        for found in re.finditer(ways, line)
    )


def _without_comments(script: str) -> str:
    """Return a script with its block comments emptied, which keeps the lines' numbers."""

    def lines(comment: re.Match[str]) -> str:
        return "\n" * comment[0].count("\n")

    return re.sub(r"/\*\*.*?\*/", lines, script, flags=re.DOTALL)


def test_the_page_has_neither_scripts_nor_styles_in_itself():
    assert re.findall(r"<script(?![^>]* src=)", PAGE) == []
    assert re.findall(r"<style|\sstyle=|\son\w+=", PAGE) == []


def test_what_others_have_written_comes_with_its_licence():
    vendored = {path.name for path in (FOLDER / "vendor").iterdir()}
    assert "MIT" in (FOLDER / "vendor" / "uPlot-LICENSE").read_text()
    told = (FOLDER / "vendor" / "README.md").read_text()
    assert all(name in told for name in vendored - {"README.md"})


def test_the_page_asks_for_all_modules_at_once():
    """The browser finds other modules only in a loaded one, a round trip later."""
    asked = {*re.findall(r'(?:modulepreload" href|module" src)="dashboard/([^"]+)"', PAGE)}
    assert asked == {*SCRIPTS, assets.REASONS} - {"theme.js"}
