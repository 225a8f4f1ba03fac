"""Calculates how many activators a load needs, from figures that other pages measure.

The CPU of a request is read from the benchmarks' page, so the result follows a new run there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import ceil
from pathlib import Path
from typing import Final, NamedTuple

from activator.probing.prober import MAX_RATE
from throttler.health import DELAY_HEALTHY

_BENCHMARKS: Final = Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md"
#: The row of a request behind an ingress: a header field differs each time.
_ROW: Final = r"^\| GET, each with its own x-request-id \| ([\d.]+) µs CPU/request"
#: Part of a core that one process should use at most (docs/how-to/size.md).
USE: Final = 0.7
#: Load of all slots that leaves room for random arrivals; the simulation's tables show why.
LOAD: Final = 0.7
#: Pods that each share should have at least; the same.
LEAST_SHARE: Final = 25
#: Seconds of CPU for one probe, MiB for a process with 1,000 revisions, a pod, a client and a
#: queued request (docs/how-to/size.md).
PROBE_CPU: Final = 0.000_07
_PROCESS, _POD, _CLIENT, _QUEUED = 75.0, 0.004, 0.002, 0.003
#: Idle connections that an activator keeps by default (MAX_IDLE_PROXY_CONNS).
IDLE: Final = 1000
#: Queued requests of one service (ACTIVATOR_QUEUE_DEPTH).
QUEUE: Final = 10_000


class Demand(NamedTuple):
    """A service: requests a second, pods, slots of each pod, and seconds of a request."""

    rate: int
    pods: int
    limit: int
    service: float


#: The example of the page.
EXAMPLE: Final = Demand(20_000, 3_000, 1, 0.1)
_RATES: Final = (1_000, 5_000, 10_000, 20_000, 50_000, 100_000)


def cpu() -> float:
    """Return the CPU of one request, seconds, as the benchmarks' page has it."""
    found = re.search(_ROW, _BENCHMARKS.read_text(), re.MULTILINE)
    assert found is not None
    return float(found[1]) / 1e6


def activators(rate: int) -> int:
    """Return how many activators a rate needs for its CPU; at least one, without a spare."""
    return ceil(rate * cpu() / USE)


def example(demand: Demand = EXAMPLE) -> str:
    """Return the calculation for one service as a table in Markdown."""
    rate, pods, limit, service = demand
    flight, needed = rate * service, activators(rate)
    count, each = needed + 1, USE / cpu()
    idle = max(ceil(pods / needed), IDLE)
    traffic = 2 * flight / needed + idle
    memory = _PROCESS + pods * _POD + flight / needed * _CLIENT + QUEUE * _QUEUED
    probes = pods / DELAY_HEALTHY
    rows = [
        ("requests in flight", f"{rate:,} × {service:g} s", f"{flight:,.0f}"),
        (
            f"load of the pods, at most {LOAD:.0%}",
            f"{flight:,.0f} ÷ ({pods:,} × {limit})",
            f"{flight / pods / limit:.0%}",
        ),
        (
            "requests a second of one activator",
            f"{USE:g} core ÷ {cpu() * 1e6:.1f} µs",
            f"{each:,.0f}",
        ),
        ("activators for their CPU", f"{rate:,} ÷ {each:,.0f}, rounded up", f"{needed}"),
        ("one may be lost, or replaced", f"{needed} + 1", f"**{count} activators**"),
        (
            "CPU of each; while one is lost",
            f"{rate:,} × {cpu() * 1e6:.1f} µs ÷ {count}; ÷ {needed}",
            f"{rate * cpu() / count:.0%}; {rate * cpu() / needed:.0%} of a core",
        ),
        (
            f"pods in each share, at least {LEAST_SHARE}; while one is lost",
            f"{pods:,} ÷ {count}; ÷ {needed}",
            f"{pods / count:,.0f}; {pods / needed:,.0f}",
        ),
        (
            "requests in flight at each; while one is lost",
            f"{flight:,.0f} ÷ {count}; ÷ {needed}",
            f"{flight / count:,.0f}; {flight / needed:,.0f}",
        ),
        (
            "`MAX_IDLE_PROXY_CONNS` (default 1,000), while one is lost",
            "pods of the share",
            f"{idle:,}",
        ),
        (
            "connections to pods at each, while one is lost",
            f"{flight / needed:,.0f} in flight + {idle:,} idle",
            f"up to {flight / needed + idle:,.0f}",
        ),
        (
            "open files of each, while one is lost",
            f"(2 × {flight / needed:,.0f} + {idle:,} + 64) × 16 ÷ 13",
            f"{(traffic + 64) * 16 / 13:,.0f}",
        ),
        (
            "memory of each, with a full queue of small requests",
            f"{_PROCESS:.0f} + {pods:,} × {_POD} + {flight / needed:,.0f} × {_CLIENT} + "
            f"{QUEUE:,} × {_QUEUED} MiB",
            f"{memory:.0f} MiB",
        ),
        (
            "probes from each activator, at most",
            f"{pods:,} ÷ {DELAY_HEALTHY:.0f} s",
            f"{probes:.0f} a second, {probes * PROBE_CPU:.1%} of a core",
        ),
        (
            "probes to each pod, at most",
            f"{count} ÷ {DELAY_HEALTHY:.0f} s",
            f"{count / DELAY_HEALTHY:.1f} a second",
        ),
        (
            "a new activator has probed all pods after",
            f"{pods:,} ÷ {MAX_RATE:,.0f} a second",
            f"{pods / MAX_RATE:.0f} s",
        ),
    ]
    return _table(("what", "calculation", "result"), rows)


def by_rate() -> str:
    """Return the number of activators for several rates as a table in Markdown."""
    rows = [
        (
            f"{rate:,}",
            f"{activators(rate) + 1}",
            f"{rate * cpu() / (activators(rate) + 1):.0%} of a core",
            f"{(activators(rate) + 1) * LEAST_SHARE:,}",
        )
        for rate in _RATES
    ]
    headings = ("requests a second", "activators, with a spare", "CPU of each", "pods at least")
    return _table(headings, rows)


def _table(headings: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [headings, ("---",) * len(headings), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines).replace("%", " %")
