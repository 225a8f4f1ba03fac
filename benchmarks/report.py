"""The rows of the table, printed as text and written as JSON."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median, quantiles
from typing import Any

HEADINGS = ("what", "measured", "beside it", "ratio", "goal", "")


@dataclass(slots=True)
class Row:
    """One figure.

    Attributes:
        measured: the activator's figure with its unit, for reading.
        beside: the yardstick's figure of the same run, for reading.
        ratio: measured divided by beside; None without a yardstick.
        goal: the goal, for reading; empty for none.
        met: whether the goal is met; None without a goal or a measurement.
        details: all measured values, for the JSON file.
    """

    what: str
    measured: str
    beside: str = ""
    ratio: float | None = None
    goal: str = ""
    met: bool | None = None
    details: dict[str, Any] = field(default_factory=dict)


def skipped(what: str, reason: str) -> Row:
    """Return the row of a benchmark that could not run here."""
    return Row(what, f"skipped: {reason}")


def middle(values: Sequence[float]) -> float:
    """Return the median."""
    return median(values)


def percentile(values: Sequence[float], percent: int) -> float:
    """Return the value that so many percent of the values do not exceed, interpolated."""
    if len(values) < 2:
        return values[0]
    return quantiles(values, n=100, method="inclusive")[percent - 1]


def table(rows: Sequence[Row]) -> str:
    """Return the rows as aligned text."""
    lines = [HEADINGS, *(_cells(row) for row in rows)]
    # The reason of a skipped row may be long; it must not widen its column.
    widths = [max(len(c[i]) for c in lines if not c[1].startswith("skipped")) for i in range(6)]
    widths[0] = max(len(cells[0]) for cells in lines)
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
        for cells in lines
    )


def _cells(row: Row) -> tuple[str, ...]:
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
    verdict = {True: "met", False: "MISSED", None: ""}[row.met]
    return row.what, row.measured, row.beside, ratio, row.goal, verdict


def write_json(rows: Sequence[Row], folder: Path) -> Path:
    """Write the rows and a description of the machine into a new file; return its path."""
    now = datetime.now(UTC)
    machine = {
        "python": platform.python_version(),
        "system": platform.platform(),
        "cpus": os.cpu_count(),
        "loadAverage": os.getloadavg(),
    }
    found = {"at": now.isoformat(), "machine": machine, "rows": [asdict(row) for row in rows]}
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{now:%Y%m%dT%H%M%SZ}.json"
    target.write_text(json.dumps(found, indent=2) + "\n")
    return target
