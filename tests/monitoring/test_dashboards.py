"""The dashboards as files: equal to the lists of panels, complete, without overlaps."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from manifests.monitoring.grafana.__main__ import ALL, FOLDER, text

#: Grafana's units that the dashboards use.
UNITS = {"short", "s", "bytes", "reqps", "ops", "percentunit"}


def panels(name: str) -> Iterator[Any]:
    return (p for p in json.loads((FOLDER / name).read_text())["panels"] if p["type"] != "row")


@pytest.mark.parametrize("name", ALL)
def test_the_file_is_what_the_panels_make(name: str) -> None:
    assert (FOLDER / name).read_text() == text(ALL[name]), "run `make dashboards`"


def test_no_file_is_left_over() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(ALL)


@pytest.mark.parametrize("name", ALL)
def test_each_panel_says_what_it_shows_and_in_what(name: str) -> None:
    for panel in panels(name):
        assert panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"] in UNITS
        assert panel["targets"]
        steps = [step["value"] for step in panel["fieldConfig"]["defaults"]["thresholds"]["steps"]]
        assert steps[0] is None
        assert steps[1:] == sorted(steps[1:])


@pytest.mark.parametrize("name", ALL)
def test_each_series_has_a_name_where_there_are_several(name: str) -> None:
    for panel in panels(name):
        legends = [target.get("legendFormat") for target in panel["targets"]]
        if panel["type"] == "timeseries":
            assert all(legends), panel["title"]
            assert len(set(legends)) == len(legends), panel["title"]


@pytest.mark.parametrize("name", ALL)
def test_no_panel_lies_on_another(name: str) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads((FOLDER / name).read_text())["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells


@pytest.mark.parametrize("name", ALL)
def test_choices_are_used_and_what_is_used_can_be_chosen(name: str) -> None:
    whole = json.loads((FOLDER / name).read_text())
    choices = {variable["name"] for variable in whole["templating"]["list"]} - {"datasource"}
    queries = " ".join(t["expr"] for panel in panels(name) for t in panel["targets"])
    used = {
        word for word in ("namespace", "revision", "instance", "service") if f"${word}" in queries
    }
    assert used == choices
