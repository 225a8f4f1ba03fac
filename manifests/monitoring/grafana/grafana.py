"""Convert panels and dashboards to Grafana's JSON.

Source: https://grafana.com/docs/grafana/latest/dashboards/build-dashboards/view-dashboard-json-model/
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

#: Grafana 10's schema, which later versions also read.
SCHEMA = 39
#: Columns of Grafana's grid.
COLUMNS = 24
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
#: The tag by which the dashboards link to each other.
TAG = "activator"

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Query:
    """One query; ``legend`` names its series by their labels: ``{{label}}``."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel.

    Attributes:
        description: the meaning, and signs of a fault.
        unit: Grafana's name of the unit: short, s, bytes, reqps, percentunit …
        kind: timeseries, stat, table or heatmap.
        warn, alarm: values from which the panel is yellow and red; None for never.
        stack: whether the series add up to something.
        signed: whether values below 0 have a meaning.
        alerts: the alerts on the panel's metrics; the description names their runbooks.
    """

    title: str
    description: str
    queries: tuple[Query, ...]
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 8
    height: int = 8
    warn: float | None = None
    alarm: float | None = None
    stack: bool = False
    signed: bool = False
    alerts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """Panels under a heading."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True)
class Variable:
    """A choice at the top of a dashboard; ``query`` returns the possible values."""

    name: str
    label: str
    query: str
    multiple: bool = True


@dataclass(frozen=True, slots=True)
class Dashboard:
    """One dashboard; ``uid`` is its address in Grafana."""

    uid: str
    title: str
    description: str
    variables: tuple[Variable, ...]
    rows: tuple[Row, ...]


def as_json(dashboard: Dashboard) -> Json:
    """Return the JSON object that Grafana imports."""
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "description": dashboard.description,
        "tags": [TAG],
        "schemaVersion": SCHEMA,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "links": [
            {
                "title": "Activator",
                "type": "dashboards",
                "tags": [TAG],
                "icon": "external link",
                "tooltip": "",
                "targetBlank": False,
                "asDropdown": False,
                "keepTime": True,
                "includeVars": True,
            }
        ],
        "templating": {"list": [_source(), *map(_variable, dashboard.variables)]},
        "panels": [*_panels(dashboard.rows)],
    }


def _source() -> Json:
    return {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
    }


def _variable(variable: Variable) -> Json:
    found: Json = {
        "name": variable.name,
        "label": variable.label,
        "type": "query",
        "datasource": SOURCE,
        "definition": variable.query,
        "query": {"query": variable.query, "refId": "variable"},
        "refresh": 2,  # with the time range: revisions come and go
        "sort": 1,
        "multi": variable.multiple,
        "includeAll": variable.multiple,
    }
    if variable.multiple:
        found |= {"allValue": ".*", "current": {"text": ["All"], "value": ["$__all"]}}
    return found


def _panels(rows: Sequence[Row]) -> Iterator[Json]:
    """Yield the panels with their positions, from left to right."""
    number = y = 0
    for row in rows:
        number += 1
        at = {"x": 0, "y": y, "w": COLUMNS, "h": 1}
        yield {"id": number, "type": "row", "title": row.title, "gridPos": at, "panels": []}
        y += 1
        x = height = 0
        for panel in row.panels:
            if x + panel.width > COLUMNS:
                x, y, height = 0, y + height, 0
            number += 1
            at = {"x": x, "y": y, "w": panel.width, "h": panel.height}
            yield {"id": number, "gridPos": at, **_panel(panel)}
            x, height = x + panel.width, max(height, panel.height)
        y += height


def _panel(panel: Panel) -> Json:
    found: Json = {
        "type": panel.kind,
        "title": panel.title,
        "description": _description(panel),
        "datasource": SOURCE,
        "targets": [
            _target(panel, ref, query)
            for ref, query in zip("ABCDEFGH", panel.queries, strict=False)
        ],
        "fieldConfig": {"defaults": _field(panel), "overrides": []},
        "options": _OPTIONS[panel.kind],
    }
    if panel.kind == "table":
        found["transformations"] = [
            {"id": "merge", "options": {}},
            {"id": "organize", "options": _columns(panel)},
        ]
    return found


def _description(panel: Panel) -> str:
    if not panel.alerts:
        return panel.description
    pages = ", ".join(f"docs/runbooks/{alert}.md" for alert in panel.alerts)
    return f"{panel.description} Runbook{'s' if len(panel.alerts) > 1 else ''}: {pages}."


def _target(panel: Panel, ref: str, query: Query) -> Json:
    found: Json = {"refId": ref, "datasource": SOURCE, "expr": query.expr}
    if panel.kind == "table":
        return found | {"instant": True, "format": "table"}
    if panel.kind == "heatmap":
        return found | {"legendFormat": "{{le}}", "format": "heatmap"}
    if panel.kind == "stat":
        return found | {"legendFormat": query.legend, "instant": True}
    return found | {"legendFormat": query.legend}


def _field(panel: Panel) -> Json:
    steps: list[Json] = [{"color": "green", "value": None}]
    for color, value in (("yellow", panel.warn), ("red", panel.alarm)):
        if value is not None:
            steps.append({"color": color, "value": value})
    found: Json = {"unit": panel.unit, "thresholds": {"mode": "absolute", "steps": steps}}
    if panel.kind == "timeseries":
        lines = {"mode": "line" if len(steps) > 1 else "off"}
        stacking = {"mode": "normal" if panel.stack else "none"}
        fill = 30 if panel.stack else 8
        found["custom"] = {"fillOpacity": fill, "stacking": stacking, "thresholdsStyle": lines}
        if not panel.signed:
            found["min"] = 0
    return found


def _columns(panel: Panel) -> Json:
    """Name the columns of values by their queries' legends; without a legend, leave them out."""
    names = {
        f"Value #{ref}": query.legend for ref, query in zip("ABCDEFGH", panel.queries, strict=False)
    }
    if len(panel.queries) == 1:  # Grafana numbers the values of several queries only
        names["Value"] = panel.queries[0].legend
    hidden = {"Time": True} | {name: True for name, legend in names.items() if not legend}
    return {"excludeByName": hidden, "renameByName": {k: v for k, v in names.items() if v}}


_OPTIONS: dict[str, Json] = {
    "timeseries": {
        "legend": {"displayMode": "table", "placement": "bottom", "calcs": ["lastNotNull", "max"]},
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
    "stat": {
        "colorMode": "background",
        "graphMode": "none",
        "reduceOptions": {"calcs": ["lastNotNull"]},
    },
    "table": {"showHeader": True},
    "heatmap": {
        "calculate": False,
        "color": {"scheme": "Oranges", "mode": "scheme", "fill": "dark-orange"},
        "yAxis": {"unit": "s"},
    },
}
