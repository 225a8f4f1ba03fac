"""The files of the scaler's page: complete, consistent, safe, and shared with the dashboard."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

import pytest

from activator.admin import assets
from activator.admin.http_application import DASHBOARD_HEADERS
from activator.scale.admin import page
from tests.activator.scale.world import cluster, leader
from tests.guards import expect_none

FOLDER = Path(__file__).parents[4] / "activator" / "admin" / "dashboard"
INDEX = page.files()[page.INDEX].plain.decode()
SCRIPTS = {path.name: path.read_text() for path in sorted((FOLDER / "scaler").glob("*.js"))}


def _imported() -> set[str]:
    """Return the paths of all modules that the page's own modules import."""
    names = re.findall(r'^import .* from "([^"]+)"', "\n".join(SCRIPTS.values()), re.MULTILINE)
    return {posixpath.normpath(f"scaler/{name}") for name in names}


def test_the_page_loads_exactly_its_files_at_once() -> None:
    loaded = {*re.findall(r'"dashboard/([^"]+)"', INDEX)}
    assert loaded == {*page.files()} - {page.INDEX}
    assert _imported() <= loaded


def test_shared_files_are_those_of_the_dashboard() -> None:
    dashboard = assets.dashboard()
    for path in page.SHARED:
        assert page.files()[path] == dashboard[path]
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
        script = await running.get(f"/dashboard/{page.REASONS}")
        assert script.headers["content-type"] == assets.TYPES[".js"]
        for name, value in DASHBOARD_HEADERS.items():
            assert answer.headers[name] == script.headers[name] == value
        same = await running.get("/", accept="text/html", if_none_match=answer.headers["etag"])
        assert same.status_code == 304
        assert (await running.get("/dashboard/main.js")).status_code == 404
