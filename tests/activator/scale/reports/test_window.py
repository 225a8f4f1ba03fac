"""The load of the last minute, beside a plain model of it."""

from __future__ import annotations

import random

import pytest

from activator.kpa.decision import STABLE
from activator.scale.reports.load import PANIC, LoadWindow


def test_a_new_window_has_no_load() -> None:
    assert LoadWindow().averages(1000) == (0, 0)


@pytest.mark.parametrize(
    ("loads", "second", "stable", "panic"),
    [
        pytest.param({100: 5.0}, 100, 5.0, 5.0, id="the first second counts alone"),
        pytest.param({100: 6.0}, 101, 3.0, 3.0, id="silence is no load"),
        pytest.param({100: 6.0}, 105, 1.0, 1.0, id="the panic window is full"),
        pytest.param({100: 7.0}, 106, 1.0, 0.0, id="it has left the panic window"),
        pytest.param({100: 60.0}, 159, 1.0, 0.0, id="the stable window is full"),
        pytest.param({100: 60.0}, 160, 0.0, 0.0, id="it has left the stable window"),
        pytest.param({100: 60.0, 130: 60.0}, 160, 1.0, 0.0, id="a full window stays full"),
        pytest.param({100: 9.0, 200: 4.0}, 200, 4.0, 4.0, id="an empty window is new again"),
        pytest.param({100: 4.0, 99: 2.0}, 100, 3.0, 3.0, id="a late report begins the window"),
        pytest.param({100: 4.0, 40: 2.0}, 100, 4.0, 4.0, id="a report from before it is ignored"),
        pytest.param({100: 0.0, 110: 3.0}, 110, 3.0, 3.0, id="a report of zero begins nothing"),
    ],
)
def test_averages(loads: dict[int, float], second: int, stable: float, panic: float) -> None:
    window = LoadWindow()
    for each, load in loads.items():
        window.record(each, load)
    assert window.averages(second) == (stable, panic)


def test_the_loads_of_several_activators_add_up() -> None:
    window = LoadWindow()
    for _ in range(3):
        window.record(100, 0.1)
    assert window.averages(100) == (0.3, 0.3)


@pytest.mark.parametrize(
    ("loads", "second", "peak"),
    [
        pytest.param({}, 100, 0.0, id="no load"),
        pytest.param({100: 4.0, 101: 4.0}, 101, 4.0, id="a steady load"),
        pytest.param({100: 8.0, 102: 8.0}, 102, 4.0, id="two reports in one second, then none"),
        pytest.param({100: 4.0, 101: 4.0}, 110, 4.0, id="a burst between two reads"),
        pytest.param({100: 4.0, 101: 4.0, 131: 2.0}, 131, 1.0, id="the burst is 30 s ago"),
        pytest.param({100: 4.0}, 200, 0.0, id="it has left the window"),
    ],
)
def test_the_peak_of_the_last_30_s(loads: dict[int, float], second: int, peak: float) -> None:
    window = LoadWindow()
    for each, load in loads.items():
        window.record(each, load)
    assert window.peak(second, 30) == peak


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.untraced  # long when traced
def test_any_reports_give_the_averages_of_the_model(seed: int) -> None:
    chance = random.Random(seed)
    window, loads, first, now = LoadWindow(), dict[int, float](), 0, 50
    for _ in range(2000):
        now += chance.choice((0, 0, 0, 1, 1, 2, 7, 30, 90))
        second = now - chance.choice((0, 0, 0, 1, 3, 59, 80))
        load = chance.choice((0.0, 0.25, 1.0, 17.5, 9000.0))
        busy = sum(loads.get(each, 0) for each in range(now - STABLE + 1, now + 1))
        if load and second > now - STABLE:
            first = min(first, second) if busy else second
            loads[second] = loads.get(second, 0) + load
        window.averages(now)
        window.record(second, load)
        assert window.averages(now) == pytest.approx(_model(loads, first, now))


def _model(loads: dict[int, float], first: int, now: int) -> tuple[float, float]:
    stable, panic = (
        sum(loads.get(each, 0) for each in range(now - length + 1, now + 1))
        / max(1, min(length, now - first + 1))
        for length in (STABLE, PANIC)
    )
    return stable, panic
