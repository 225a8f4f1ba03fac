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
from throttler.pod import DELAY_HEALTHY

_BENCHMARKS: Final = Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md"
#: The row of a request behind an ingress: a header field differs each time.
_ROW: Final = r"^\| GET, each with its own x-request-id \| ([\d.]+) µs CPU/request"
#: Part of a core that one process should use at most (docs/how-to/size.md).
USE: Final = 0.7
#: Load of all slots that leaves room for random arrivals; the simulation's tables show why.
LOAD: Final = 0.7
#: Slots that each share should have at least; the same.
LEAST_SLOTS: Final = 25
#: Seconds of CPU for one probe, MiB for a process with 1,000 revisions, a pod, a client and a
#: queued request (docs/how-to/size.md).
PROBE_CPU: Final = 0.000_07
_PROCESS, _POD, _CLIENT, _QUEUED = 75.0, 0.004, 0.002, 0.003
#: Queued requests of one service (ACTIVATOR_QUEUE_DEPTH).
QUEUE: Final = 10_000
#: Knative's defaults in config-autoscaler: target-burst-capacity and activator-capacity.
BURST, CAPACITY = 211, 100


class Demand(NamedTuple):
    """A service: requests a second, pods, slots of each pod, and seconds of a request."""

    rate: int
    pods: int
    limit: int
    service: float

    @property
    def slots(self) -> int:
        """Slots of all pods."""
        return self.pods * self.limit

    @property
    def in_flight(self) -> float:
        """Mean number of requests in flight."""
        return self.rate * self.service


#: The example of the page.
EXAMPLE: Final = Demand(20_000, 3_000, 1, 0.1)
#: A service of short requests, which needs more activators than Knative's rule gives it.
SHORT: Final = Demand(60_000, 200, 1, 0.002)
_RATES: Final = (1_000, 5_000, 10_000, 20_000, 50_000, 100_000)
_RATES_SERVICE: Final = 0.1


def cpu() -> float:
    """Return the CPU of one request, seconds, as the benchmarks' page has it."""
    found = re.search(_ROW, _BENCHMARKS.read_text(), re.MULTILINE)
    assert found is not None
    return float(found[1]) / 1e6


def activators(rate: int) -> int:
    """Return how many activators a rate needs for its CPU; at least one, without a spare."""
    return ceil(rate * cpu() / USE)


def figures() -> list[str]:
    """Return the figures that the text of the page must have."""
    rate, needed = EXAMPLE.rate, activators(EXAMPLE.rate)
    return [
        f"With {_micros()} a request",
        f"one activator serves {USE / cpu():,.0f} requests a second",
        f"shorter than {LEAST_SLOTS * cpu() * 1e3:.1f} ms",
        f"So {needed + 1} activators suffice",
        f"**Set `MAX_IDLE_PROXY_CONNS` to {EXAMPLE.pods // needed:,}**",
        f"uses {rate * cpu() / needed:.0%} of a core".replace("%", " %"),
        f"more than {USE / cpu() / rate:.0%} of all requests".replace("%", " %"),
        f"`target-burst-capacity` ({BURST} by default)",
        f"`activator-capacity` ({CAPACITY} by default)",
    ]


def example(demand: Demand = EXAMPLE) -> str:
    """Return the calculation for one service as a table in Markdown."""
    needed = activators(demand.rate)
    rows = [*_number(demand, needed), *_connections(demand, needed), *_probes(demand, needed)]
    return _table(("what", "calculation", "result"), rows)


def _number(demand: Demand, needed: int) -> list[tuple[str, ...]]:
    rate, pods, limit, service = demand
    flight, slots, count = demand.in_flight, demand.slots, needed + 1
    return [
        ("requests in flight", f"{rate:,} × {service:g} s", f"{flight:,.0f}"),
        (
            f"load, at most {LOAD:.0%}",
            f"{flight:,.0f} ÷ ({pods:,} pods × {limit} slot)",
            f"{flight / slots:.0%}",
        ),
        (
            "activators for their CPU",
            f"{rate:,} × {_micros()} ÷ {USE:g} = {rate * cpu() / USE:.2f}, rounded up",
            f"{needed}",
        ),
        ("one may be lost, or replaced", f"{needed} + 1", f"**{count} activators**"),
        (
            "CPU of each; while one is lost",
            f"{rate:,} × {_micros()} ÷ {count}; ÷ {needed}",
            f"{rate * cpu() / count:.0%}; {rate * cpu() / needed:.0%} of a core",
        ),
        (
            f"slots of each, at least {LEAST_SLOTS}; while one is lost",
            f"{slots:,} ÷ {count}; ÷ {needed}",
            f"{slots / count:,.0f}; {slots / needed:,.0f}",
        ),
        (
            "requests in flight at each; while one is lost",
            f"{flight:,.0f} ÷ {count}; ÷ {needed}",
            f"{flight / count:,.0f}; {flight / needed:,.0f}",
        ),
    ]


def _connections(demand: Demand, needed: int) -> list[tuple[str, ...]]:
    pods, flight = demand.pods, demand.in_flight / needed
    idle = ceil(pods / needed)
    files = (2 * flight + idle + 64) * 16 / 13
    memory = _PROCESS + pods * _POD + flight * _CLIENT + QUEUE * _QUEUED
    return [
        (
            "idle connections of each, while one is lost",
            "one to each pod of the share",
            f"{idle:,}",
        ),
        (
            "connections to pods at each, while one is lost",
            f"{flight:,.0f} in flight + {idle:,} idle",
            f"up to {flight + idle:,.0f}",
        ),
        (
            "[open files](size.md#open-files) of each, while one is lost",
            f"(2 × {flight:,.0f} in flight + {idle:,} idle + 64 reserved) × 16 ÷ 13",
            f"{files:,.0f}",
        ),
        (
            "[memory](size.md#memory) of each, while one is lost and its queue is full",
            f"{_PROCESS:.0f} + {pods:,} pods × {_POD} + {flight:,.0f} clients × {_CLIENT} + "
            f"{QUEUE:,} queued × {_QUEUED} MiB",
            f"{memory:.0f} MiB",
        ),
    ]


def _probes(demand: Demand, needed: int) -> list[tuple[str, ...]]:
    pods, count, pause = demand.pods, needed + 1, f"{DELAY_HEALTHY:.0f} s"
    each = pods / DELAY_HEALTHY
    return [
        (
            "probes from each activator, at most",
            f"{pods:,} ÷ {pause}",
            f"{each:.0f} a second, {each * PROBE_CPU:.1%} of a core",
        ),
        (
            "probes to each pod, at most",
            f"{count} ÷ {pause}",
            f"{count / DELAY_HEALTHY:.1f} a second",
        ),
        (
            "a new activator has probed all pods after",
            f"{pods:,} ÷ {MAX_RATE:,.0f} a second",
            f"{pods / MAX_RATE:.0f} s",
        ),
    ]


def by_rate() -> str:
    """Return the number of activators for several rates as a table in Markdown."""
    rows = [
        (
            f"{rate:,}",
            f"{activators(rate) + 1}",
            f"{rate * cpu() / (activators(rate) + 1):.0%} of a core",
            f"{(activators(rate) + 1) * LEAST_SLOTS:,}",
            f"{ceil(rate * _RATES_SERVICE / LOAD):,}",
        )
        for rate in _RATES
    ]
    headings = (
        "requests a second",
        "activators, with a spare",
        "CPU of each",
        f"slots for the shares, {LEAST_SLOTS} each",
        f"slots for a load of {LOAD:.0%}, with requests of {_RATES_SERVICE:g} s",
    )
    return _table(headings, rows)


def knative() -> str:
    """Return how many activators Knative gives two services, as a table in Markdown."""
    headings = (
        "service",
        "activators, with a spare",
        "excess burst capacity",
        f"Knative's number, with a burst of {BURST}",
        "… with −1",
        "`activator-capacity`",
    )
    return _table(headings, [_knative(EXAMPLE), _knative(SHORT)])


def _knative(demand: Demand) -> tuple[str, ...]:
    rate, pods, _, service = demand
    slots, flight, count = demand.slots, demand.in_flight, activators(rate) + 1
    excess = slots - BURST - flight
    return (
        f"{pods:,} pods with one slot, {rate:,} requests a second of {service * 1e3:g} ms",
        f"{count}",
        f"{slots:,} − {BURST} − {flight:,.0f} = {excess:,.0f}".replace("-", "−")
        + (": out of the path" if excess >= 0 else ": in the path"),
        f"{max(2, ceil((slots + BURST) / CAPACITY))}",
        f"{max(2, ceil(slots / CAPACITY))}",
        f"{'raise' if slots // count > CAPACITY else 'lower'} to {slots // count:,}",
    )


def _micros() -> str:
    return f"{cpu() * 1e6:.1f} µs"


def _table(headings: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [headings, ("---",) * len(headings), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines).replace("%", " %")
