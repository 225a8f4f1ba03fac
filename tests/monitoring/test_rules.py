"""The rules: promtool has nothing against them, each alert fires when it should, and has a page."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import yaml

from tests.manifests.kustomize import ROOT
from tests.monitoring.prometheus import promtool, rules, write_rules
from tests.rows import in_one_test

ALERTS = Path(__file__).with_name("alerts.yaml")
RUNBOOKS = ROOT / "docs" / "runbooks"
ALERT_NAMES = [rule["alert"] for rule in rules("alert")]


def test_promtool_takes_the_rules(tmp_path: Path) -> None:
    said = promtool("check", "rules", write_rules(tmp_path))
    assert f"{len(rules('alert')) + len(rules('record'))} rules found" in said


def test_each_alert_fires_when_it_should(tmp_path: Path) -> None:
    write_rules(tmp_path)
    shutil.copy(ALERTS, tmp_path)
    assert "SUCCESS" in promtool("test", "rules", tmp_path / ALERTS.name)


def test_each_alert_is_shown_to_fire_and_not_to_fire() -> None:
    shown = [
        case
        for test in yaml.load(ALERTS.read_text(), yaml.CSafeLoader)["tests"]
        for case in test["alert_rule_test"]
    ]
    for fires in (True, False):
        assert {case["alertname"] for case in shown if bool(case["exp_alerts"]) == fires} == set(
            ALERT_NAMES
        )


@in_one_test("rule", rules("alert"))
def test_each_alert_has_a_page_that_it_names(rule: dict[str, dict[str, str]]) -> None:
    page = ROOT / rule["annotations"]["runbook"]
    assert page.parent == RUNBOOKS
    text = page.read_text()
    assert text.startswith(f"# {rule['alert']}\n")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["How to see it", "What to do"]
    assert rule["labels"]["severity"] in {"warning", "critical"}


def test_the_index_has_each_alert_with_its_severity() -> None:
    rows = re.findall(
        r"^\| \[(\w+)\]\((\w+)\.md\) \| (\w+) \|",
        (RUNBOOKS / "README.md").read_text(),
        re.MULTILINE,
    )
    assert rows == [(r["alert"], r["alert"], r["labels"]["severity"]) for r in rules("alert")]
    assert {page.stem for page in RUNBOOKS.glob("*.md")} == {*ALERT_NAMES, "README"}
