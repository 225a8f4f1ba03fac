"""The scaler page: its files and its reasons."""

from __future__ import annotations

import json
import posixpath
import re
from pathlib import Path

import pytest

from activator.admin import assets
from activator.admin.http_application import DASHBOARD_HEADERS
from activator.scale import reasons
from activator.scale.admin import application
from activator.scale.reasons import ScaleReason
from tests.activator.scale.world import cluster, leader
from tests.guards import expect_none

FOLDER = Path(__file__).parents[4] / "activator" / "admin" / "dashboard"
INDEX = application.files()[application.INDEX].plain.decode()
SCRIPTS = {path.name: path.read_text() for path in sorted((FOLDER / "scaler").glob("*.js"))}


def _imported() -> set[str]:
    """Return the paths of all modules that the page's own modules import."""
    names = re.findall(r'^import .* from "([^"]+)"', "\n".join(SCRIPTS.values()), re.MULTILINE)
    return {posixpath.normpath(f"scaler/{name}") for name in names}


def test_the_page_loads_exactly_its_files_at_once() -> None:
    loaded = {*re.findall(r'"dashboard/([^"]+)"', INDEX)}
    assert loaded == {*application.files()} - {application.INDEX}
    assert _imported() <= loaded


def test_shared_files_are_those_of_the_dashboard() -> None:
    dashboard = assets.dashboard()
    for path in application.SHARED:
        assert application.files()[path] == dashboard[path]
    expect_none(f"the activator serves {path}" for path in dashboard if path.startswith("scaler/"))


def test_nothing_is_loaded_from_elsewhere_and_no_string_becomes_markup() -> None:
    for name, text in {**SCRIPTS, "index.html": INDEX}.items():
        assert re.findall(r"https?:|innerHTML|outerHTML|insertAdjacentHTML|eval\(", text) == [], (
            name
        )
    assert re.findall(r"<script(?![^>]* src=)|<style|\sstyle=|\son\w+=", INDEX) == []


@pytest.mark.untraced
async def test_a_browser_gets_the_page_with_its_policy(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube, leader(kube) as running:
        answer = await running.get("/", accept="text/html")
        assert "<title>activator scale</title>" in answer.text
        script = await running.get(f"/dashboard/{application.REASONS}")
        assert script.headers["content-type"] == assets.TYPES[".js"]
        for name, value in DASHBOARD_HEADERS.items():
            assert answer.headers[name] == script.headers[name] == value
        same = await running.get("/", accept="text/html", if_none_match=answer.headers["etag"])
        assert same.status_code == 304
        assert (await running.get("/dashboard/main.js")).status_code == 404


def test_a_command_names_only_what_the_page_knows() -> None:
    names = re.findall(r"\{(\w*)\}", "".join("".join(reason.commands) for reason in ScaleReason))
    assert {*names} == {"namespace", "name", "system"}


def test_the_script_has_the_remedies_and_which_reasons_are_normal() -> None:
    text = application.script().removeprefix("export const REASONS = ").rstrip(";\n")
    rows = json.loads(text)
    assert rows["two-owners"]["meaning"] == ScaleReason.TWO_OWNERS.sentence
    assert rows["two-owners"]["commands"][0] == "kubectl -n {namespace} get hpa,scaledobject"
    assert {word for word, row in rows.items() if row["quiet"]} == reasons.QUIET - {""}
