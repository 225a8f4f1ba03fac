"""Adaptive concurrency in a simulation: a pod that collapses, and one that does not.

``python -m benchmarks.adaptive`` prints these rows alone. Virtual time, so the machine's speed has
no effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

from benchmarks.report import Row, table
from tests.throttler.simulated_pods import Run, Speed, collapsing, steady
from throttler.model import AdaptiveMode, Policies

OFF, OBSERVE, ON = AdaptiveMode
BASE = 0.05
BEYOND = 200
#: Requests in flight of a small pod.
KNEE = 4
#: Pairs of seconds and requests a second.
BURST = [(2.0, 3000.0), (1.0, 6000.0), (7.0, 3000.0)]
STEADY = [(10.0, 6000.0)]
GOAL_SERVED = 0.98


def measure() -> Iterator[Row]:
    """Yield a row for a pod that collapses under a burst, and one for a pod that does not."""
    off, observe, on = (_run(mode, collapsing(BASE, BEYOND), BURST) for mode in (OFF, OBSERVE, ON))
    yield Row(
        f"adaptive: p99 of a pod that collapses beyond {BEYOND} in flight: on",
        f"{on.percentile(0.99):.2f} s, {on.served:,} responses, {on.most:,} in flight at most",
        f"off {off.percentile(0.99):.2f} s, {off.served:,} responses, {off.most:,}; "
        f"observe {observe.percentile(0.99):.2f} s",
        on.percentile(0.99) / off.percentile(0.99),
        "",
        None,
        {mode.value: run.served for mode, run in ((OFF, off), (OBSERVE, observe), (ON, on))},
    )
    off, on = (_run(mode, collapsing(0.03, KNEE), [(20.0, 100.0)]) for mode in (OFF, ON))
    yield Row(
        f"adaptive: responses of a pod that collapses beyond {KNEE} in flight, of 2,000: on",
        f"{on.served:,}, {on.most:,} in flight at most",
        f"off {off.served:,}, {off.most:,}",
        on.served / off.served,
        "",
        None,
        {"on": on.served, "off": off.served},
    )
    off, on = (
        Run(Policies(adaptive=mode), collapsing(BASE, 60), [(20.0, 780.0)], failing=_client()).run()
        for mode in (OFF, ON)
    )
    yield Row(
        "adaptive: responses beside a client with 2 errors a second: on",
        f"{on.served:,}",
        f"off {off.served:,}",
        on.served / off.served,
        f">= {GOAL_SERVED}",
        on.served / off.served >= GOAL_SERVED,
        {"on": on.served, "off": off.served},
    )
    for spread in (0.2, 0.8):
        off, on = (_run(mode, steady(BASE), STEADY, spread) for mode in (OFF, ON))
        ratio = on.served / off.served
        yield Row(
            f"adaptive: responses of a pod that does not collapse, times ± {spread:.0%}: on",
            f"{on.served:,}",
            f"off {off.served:,}",
            ratio,
            f">= {GOAL_SERVED}",
            ratio >= GOAL_SERVED,
            {"on": on.served, "off": off.served},
        )


def _client() -> Callable[[int], bool]:
    """Return whether the next request, of 780 a second, is one of two that always fail."""
    luck = Random(3)
    return lambda in_flight: luck.random() < 2 / 780


def _run(
    mode: AdaptiveMode, speed: Speed, arrivals: list[tuple[float, float]], spread: float = 0.2
) -> Run:
    return Run(Policies(adaptive=mode), speed, arrivals, spread=spread).run()


if __name__ == "__main__":
    print(table(list(measure())))
