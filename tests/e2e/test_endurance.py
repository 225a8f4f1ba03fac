"""Endurance tests of `python -m benchmarks`, for seconds: no loss of requests, and no leak."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks import (
    activator,
    endurance,
    helpers,
    kills,
    overload,
    process,
    rollout,
    sigterm,
    unreachable,
)
from benchmarks.mixed.kinds import KINDS
from benchmarks.mixed.traffic import MixedTraffic, mixed_traffic
from benchmarks.process import raise_file_limit
from benchmarks.report import middle
from tests import fork_server

pytestmark = pytest.mark.e2e


@pytest.fixture(autouse=True)
def files() -> None:
    raise_file_limit()


@pytest.fixture(autouse=True)
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each of several parallel tests its own folder of logs."""
    for module in (process, activator, helpers):
        monkeypatch.setattr(module, "RESULTS", tmp_path / "results")


@pytest.fixture
def forks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start activators, pods and clients by forks, as other tests do."""
    monkeypatch.setattr(subprocess, "Popen", fork_server.popen)


@pytest.fixture
def forks_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start pods and clients by forks, and activators as users start them."""

    def popen(command: Sequence[str], **options: Any) -> Any:
        start = fork_server.REAL_POPEN if "activator" in command else fork_server.popen
        return start(command, **options)

    monkeypatch.setattr(subprocess, "Popen", popen)


@pytest.mark.usefixtures("forks")
def test_requests_are_held_for_clients_that_are_there_and_for_no_others(tmp_path: Path) -> None:
    seen = overload.run_recipe(tmp_path, 9)
    assert len(seen.samples) >= 5
    # A short stall of a busy machine shows in one sample, a leak in all further ones.
    live = middle([sample.live[0] for sample in seen.samples])
    assert live > 10 * overload.SLOTS, "no overload"
    apart = middle([sample.apart for sample in seen.samples])
    assert apart <= overload.RATE / 2, seen.samples
    assert all(sample.in_flight <= overload.SLOTS for sample in seen.samples)
    assert seen.growth < 1.3
    assert seen.outcomes == {"expired": sum(seen.outcomes.values())}
    assert seen.left == 0


@pytest.mark.usefixtures("forks")
def test_no_get_is_lost_and_no_post_done_twice_while_pods_are_killed(tmp_path: Path) -> None:
    seen = kills.run_recipe(tmp_path, 6)
    assert seen.kills == 6
    assert set(seen.outcomes["GET"]) == {"200"}, seen.failed
    assert seen.repeated("GET") > 0, "no kill met a request"
    assert seen.outcomes["POST"]["200"] > 10
    assert set(seen.outcomes["POST"]) <= {"200", "502"}, seen.failed
    assert seen.repeated("POST") == 0


def nothing_is_lost(traffic: MixedTraffic) -> None:
    assert traffic.lost() == []
    assert traffic.repeated() == []
    assert traffic.undrained == 0
    assert set(traffic.ended) == set(KINDS)


@pytest.mark.usefixtures("forks")
def test_nothing_is_lost_or_left_while_traffic_of_all_kinds_meets_all_that_happens(
    tmp_path: Path,
) -> None:
    """This runs for seconds: only the benchmark can show whether memory grows."""
    with mixed_traffic(tmp_path) as traffic:
        seen = endurance.run_recipe(traffic, 4, hurry=5)
        assert traffic.kills
        nothing_is_lost(traffic)
    assert seen.samples
    assert seen.files[1] <= seen.files[0]
    assert seen.left == 0
    assert seen.faults == []


@pytest.mark.usefixtures("forks")
def test_nothing_is_lost_while_pods_are_replaced_under_traffic_of_all_kinds(
    tmp_path: Path,
) -> None:
    with mixed_traffic(tmp_path) as traffic:
        replaced, faults = rollout.run_recipe(traffic, 6)  # three at most if the machine stalls
        nothing_is_lost(traffic)
    assert replaced >= 2
    assert faults == []


@pytest.mark.usefixtures("forks_of_others")
def test_nothing_is_lost_while_an_activator_is_replaced_under_traffic_of_all_kinds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A machine that stalls may be seconds late to send clients to the new activator.
    monkeypatch.setattr(sigterm, "LAME_DUCK", 6.0)
    monkeypatch.setattr(sigterm, "COLD_AFTER", 7.0)
    monkeypatch.setattr(sigterm, "BETWEEN", 1.0)  # there is no second replacement
    with mixed_traffic(tmp_path) as traffic:
        ends = sigterm.run_recipe(traffic, 0)
        nothing_is_lost(traffic)
    assert ends.statuses == [0]
    assert ends.faults == []


@pytest.mark.usefixtures("forks")
@pytest.mark.parametrize("kind", unreachable.KINDS)
def test_good_pods_are_used_among_very_many_that_cannot_be_reached(
    tmp_path: Path, kind: str
) -> None:
    """The benchmark measures the time; it is minutes if probes of pods wait for each other."""
    took = unreachable.run_recipe(tmp_path, kind, 1000)
    assert len(took) == unreachable.GOOD
    assert took[-1] < 45
