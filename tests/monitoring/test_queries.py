"""Every query of panels, rules, alerts and pages, run by a Prometheus that scrapes an activator.

``-s`` prints the table: panel, query, series returned.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from math import isnan
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from rich.console import Console
from rich.table import Table

from activator.scale.families import FAMILIES as SCALE_FAMILIES
from activator.telemetry.families import FAMILIES
from manifests.monitoring.grafana.__main__ import ALL, FOLDER
from tests.manifests.kustomize import ROOT
from tests.monitoring.prometheus import Prometheus, promtool, rules
from tests.monitoring.scaling import scaling
from tests.monitoring.traffic import traffic

pytestmark = pytest.mark.e2e

#: Values of Grafana's variables: everything is selected, as in a newly opened dashboard.
CHOICES = {
    "$__rate_interval": "5s",
    **dict.fromkeys(("$namespace", "$revision", "$instance", "$service"), ".*"),
}
#: The metrics of both programs.
NAMES = {family.name for family in (*FAMILIES, *SCALE_FAMILIES)}

_OPENSHIFT = (
    'k8s_namespace_name="default",kn_configuration_name=~".*",kn_revision_name=~"(full|sleeper)"'
)
#: The panels on the activator of OpenShift Serverless' dashboard, with its variables put in.
#: knative-operator/deploy/resources/dashboards/serving, scaling-debugging.
OPENSHIFT = {
    "Request Concurrency": f"sum(kn_revision_request_concurrency{{{_OPENSHIFT}}})",
    "Request Count by Response Code": "round(sum(increase("
    f"http_server_request_duration_seconds_count{{{_OPENSHIFT}}}[1m])) "
    "by (http_response_status_code))",
    **{
        f"Response Time p{q}": f"histogram_quantile({q / 100}, sum(rate("
        f"http_server_request_duration_seconds_bucket{{{_OPENSHIFT}}}[1m])) by (revision_name, le))"
        for q in (50, 90, 95, 99)
    },
}


#: A query in a code block of its own.
_FENCED = r"```\n(sum\([^`]+)\n```"


class Asked(NamedTuple):
    """One query, and the names of its series in the legend."""

    where: str
    expr: str
    legend: str = ""
    instant: bool = False


def panels() -> Iterator[Asked]:
    for name in ALL:
        for panel in json.loads((FOLDER / name).read_text())["panels"]:
            for target in panel.get("targets", ()):
                where = f"{name.removesuffix('.json')}: {panel['title']}"
                legend, instant = target.get("legendFormat", ""), target.get("instant", False)
                yield Asked(where, target["expr"], legend, instant)


def pages() -> Iterator[Asked]:
    """Return the queries in pages for operators, except bare names of metrics."""
    names = NAMES | {rule["record"] for rule in rules("record")}
    for page in sorted((ROOT / "docs").rglob("*.md")):
        text = page.read_text()
        for query in {*re.findall(r"`([^`\n…]+[)}])`", text), *re.findall(_FENCED, text)}:
            if any(name in query for name in names):
                # At this moment, no request may wait for this reason.
                expr = re.sub(r'reason="[\w-]+"', 'reason=~".+"', query)
                yield Asked(str(page.relative_to(ROOT)), expr, instant=True)


def everything() -> list[Asked]:
    return [
        *pages(),
        *panels(),
        *(Asked(f"record {rule['record']}", rule["expr"]) for rule in rules("record")),
        *(Asked(f"OpenShift: {title}", expr) for title, expr in OPENSHIFT.items()),
    ]


def chosen(text: str) -> str:
    for variable, value in CHOICES.items():
        text = text.replace(variable, value)
    assert "$" not in text
    return text


async def series_of(
    prometheus: Prometheus, asked: Asked, since: float, end: float
) -> list[dict[str, Any]]:
    """Return the series that have a number, within the test or at its end."""
    expr = chosen(asked.expr)
    if asked.instant:
        found = await prometheus.query(expr, end)
        return [one for one in found if not isnan(float(one["value"][1]))]
    data = await prometheus.ask("query_range", query=expr, start=f"{since}", end=f"{end}", step="1")
    assert data["resultType"] == "matrix"
    return [
        one for one in data["result"] if not all(isnan(float(value)) for _, value in one["values"])
    ]


async def test_every_query_returns_series_of_the_shape_that_its_panel_shows(tmp_path: Path) -> None:
    table = Table("panel", "query", "series", title="Queries")
    empty, unnamed = [], []
    async with (
        traffic(tmp_path) as playing,
        scaling(tmp_path) as scaled,
        Prometheus(
            tmp_path,
            "{}:{}".format(*await playing.activator.address("admin")),
            scaled.metrics,
        ) as asking,
    ):
        await asking.scraped()
        since = await asking.now()
        await scaled.run()
        end = await playing.run(asking.scraped)
        for asked in everything():
            found = await series_of(asking, asked, since, end)
            table.add_row(asked.where, asked.expr, str(len(found)))
            if not found:
                empty.append(asked)
            labels = re.findall(r"\{\{(\w+)\}\}", asked.legend)
            if any(not set(labels) <= set(one["metric"]) for one in found):
                unnamed.append(asked)
        await _alerts_read_what_there_is(asking, end)
        await _choices_are_offered(asking)
        for target in (await playing.activator.address("admin"), scaled.metrics.split(":")):
            await _metrics_pass_the_lint(*target)
    Console(width=200).print(table)
    assert empty == []
    assert unnamed == []


async def _alerts_read_what_there_is(asking: Prometheus, end: float) -> None:
    """Each metric and label in an alert's expression exists."""
    known = NAMES | {rule["record"] for rule in rules("record")}
    for rule in rules("alert"):
        await asking.query(rule["expr"])
        for name, matchers in re.findall(r"([a-z][\w:]*)(\{[^}]*\})?", rule["expr"]):
            if name in known:
                assert await asking.query(name + matchers, end), rule["alert"]
    states = {rule["name"]: rule["health"] for rule in await asking.rules()}
    assert set(states.values()) == {"ok"}, states


async def _choices_are_offered(asking: Prometheus) -> None:
    for name in ALL:
        for variable in json.loads((FOLDER / name).read_text())["templating"]["list"]:
            if variable["type"] == "query":
                offer = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["definition"])
                assert offer, variable
                offered = await asking.ask(
                    f"label/{offer[2]}/values", **{"match[]": chosen(offer[1])}
                )
                assert offered, variable


async def _metrics_pass_the_lint(host: str, port: str | int) -> None:
    async with httpx.AsyncClient(trust_env=False) as client:
        text = (await client.get(f"http://{host}:{port}/metrics")).text
    assert promtool("check", "metrics", given=text) == ""
