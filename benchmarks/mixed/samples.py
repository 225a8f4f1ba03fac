"""Samples of a running activator, and the slope of a series."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import linear_regression
from typing import Final

from benchmarks.activator import Activator
from benchmarks.process import open_files, resident_bytes

#: Metrics that must not grow, and their names in the JSON file.
GAUGES: Final = {
    "activator_upstream_connections": "upstreamConnections",
    "activator_upstream_idle_connections": "idleConnections",
    'activator_traffic_files{use="clients"}': "clientConnections",
    "activator_traffic_files_waiting": "waitingForFiles",
}


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample.

    Attributes:
        at: seconds since the clients began.
        resident: bytes; files: open files.
        gauges: see `GAUGES`.
    """

    at: float
    resident: int
    files: int
    gauges: dict[str, float]


def look(found: Activator, at: float) -> Sample:
    """Return a sample of an activator."""
    files, resident = open_files(found.pid), resident_bytes(found.pid)
    page = found.admin_get("/metrics")[1].decode()
    gauges = {name: value(page, key) for key, name in GAUGES.items()}
    return Sample(at, resident, files, gauges)


def value(page: str, key: str) -> float:
    """Return a value of the metrics page; 0 if it is absent."""
    found = re.search(rf"^{re.escape(key)}(?:\{{\}})? (\S+)$", page, re.MULTILINE)
    return float(found[1]) if found else 0.0


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Return the growth per second by least squares; 0 for fewer than two points."""
    if len(points) < 2:
        return 0.0
    return linear_regression(*zip(*points, strict=True)).slope
