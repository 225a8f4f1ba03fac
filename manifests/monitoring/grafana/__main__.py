"""Write the dashboards to manifests/monitoring/dashboards: ``make dashboards``."""

from __future__ import annotations

import json
from pathlib import Path

from manifests.monitoring.grafana.activator import ACTIVATOR
from manifests.monitoring.grafana.grafana import Dashboard, as_json
from manifests.monitoring.grafana.overview import OVERVIEW
from manifests.monitoring.grafana.revision import REVISION
from manifests.monitoring.grafana.scaler import SCALER

FOLDER = Path(__file__).resolve().parents[1] / "dashboards"
#: By the name of the file.
ALL = {
    "overview.json": OVERVIEW,
    "revision.json": REVISION,
    "activator.json": ACTIVATOR,
    "scaler.json": SCALER,
}


def text(dashboard: Dashboard) -> str:
    """Return the file's text."""
    return json.dumps(as_json(dashboard), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for name, dashboard in ALL.items():
        (FOLDER / name).write_text(text(dashboard))
