"""The dashboards as files: equal to the lists of panels, complete, without overlaps."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from activator.scale.families import FAMILIES as SCALE_FAMILIES
from activator.telemetry.families import FAMILIES, Family
from manifests.monitoring.grafana.__main__ import ALL, FOLDER, text
from tests.manifests.kustomize import ROOT
from tests.monitoring.grafana_schema import problems
from tests.monitoring.prometheus import rules

#: The metrics without a panel, and the reason.
WITHOUT_PANEL = {
    "activator_gc_pause_seconds": "a cause of the lag of the loop, which has a panel",
    "activator_requests_outside_zone_total": "only in clusters with zones, docs/how-to/balance.md",
    "activator_manifests_age_seconds": "only `activator local` reads a folder, not a cluster's",
    **dict.fromkeys(
        (
            "interceptor_cold_start_rejections_total",
            "interceptor_pending_request_count",
            "interceptor_request_concurrency",
            "interceptor_request_count_total",
            "interceptor_request_duration_seconds",
        ),
        "for the dashboards of the KEDA HTTP add-on; other families have the same numbers",
    ),
    "target_info": "identifies the activator for OpenTelemetry; no number",
}


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


@pytest.mark.parametrize("name", ALL)
def test_grafana_s_schema_has_each_field_and_value(name: str) -> None:
    assert problems(json.loads((FOLDER / name).read_text())) == []


@pytest.mark.parametrize(
    ("place", "value", "problem"),
    [
        (("refresh",), 5, ".refresh: 5 is no str"),
        (("graphTooltip",), 3, ".graphTooltip: 3 is no DashboardCursorSync"),
        (("panels", 1, "type"), "graph", ".panels[1].type: 'graph' is unknown"),
        (("panels", 1, "gridPos", "w"), "4", ".panels[1].gridPos.w: '4' is no int"),
        (
            ("panels", 1, "options", "colourMode"),
            "none",
            ".panels[1].options.colourMode: Options has no such field",
        ),
        (
            ("panels", 1, "targets", 0),
            {"expr": "up"},
            ".panels[1].targets[0]: Dataquery needs refId",
        ),
        (
            ("panels", 1, "fieldConfig", "defaults", "unit"),
            "seconds",
            ".panels[1]: 'seconds' is no unit of Grafana",
        ),
    ],
    ids=lambda value: value[-1] if isinstance(value, tuple) else "",
)
def test_the_schema_finds_faults(place: tuple[Any, ...], value: object, problem: str) -> None:
    whole = json.loads((FOLDER / "overview.json").read_text())
    inside = whole
    for step in place[:-1]:
        inside = inside[step]
    inside[place[-1]] = value
    assert problems(whole) == [problem]


def queries() -> str:
    """Return the queries of all panels, with the expressions of the recorded series in them."""
    text = "\n".join(
        target["expr"] for name in ALL for one in panels(name) for target in one["targets"]
    )
    return "\n".join([text, *(one["expr"] for one in rules("record") if one["record"] in text)])


def is_in(family: Family, text: str) -> bool:
    return re.search(rf"\b{family.name}(_bucket|_sum|_count)?\b", text) is not None


def test_each_metric_is_on_a_panel_or_has_a_reason() -> None:
    text = queries()
    missing = {
        one.name
        for one in (*FAMILIES, *SCALE_FAMILIES)
        if not is_in(one, text) and not one.meaning.startswith("Deprecated alias of")
    }
    assert missing == set(WITHOUT_PANEL)


def test_each_alert_has_a_panel_that_shows_its_metric_and_names_its_runbook() -> None:
    families = (*FAMILIES, *SCALE_FAMILIES)
    recorded = {one["record"]: one["expr"] for one in rules("record")}
    for alert in rules("alert"):
        page = alert["annotations"]["runbook"]
        assert (ROOT / page).is_file()
        shown = [one for name in ALL for one in panels(name) if page in one["description"]]
        assert shown, alert["alert"]
        inside = " ".join([alert["expr"], *(e for r, e in recorded.items() if r in alert["expr"])])
        used = [one for one in families if is_in(one, inside)]
        for panel in shown:
            text = " ".join(target["expr"] for target in panel["targets"])
            text += " ".join(expr for record, expr in recorded.items() if record in text)
            assert any(is_in(one, text) for one in used), (alert["alert"], panel["title"])


def test_each_named_page_exists() -> None:
    for name in ALL:
        text = (FOLDER / name).read_text()
        assert all((ROOT / page).is_file() for page in re.findall(r"docs/[\w/-]+\.md", text))
