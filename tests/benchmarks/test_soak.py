"""The plan of the soak, and its verdict."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from benchmarks.agenda import Agenda
from benchmarks.mixed.samples import Sample
from benchmarks.mixed.traffic import MixedTraffic
from benchmarks.mixed.verdict import Failure, Kill
from benchmarks.process import wait_until
from benchmarks.report import Row
from benchmarks.soak import __main__ as soak
from benchmarks.soak import checks, ingress, network, verdict
from benchmarks.soak.faults import Faults
from benchmarks.soak.hostile import AMBIGUOUS
from benchmarks.soak.ingress import Ingress, configuration
from benchmarks.soak.plan import LANES, QUIET_END, Fault, plan
from benchmarks.soak.programs import Program
from benchmarks.soak.verdict import Fate, Occurred, Sighting
from benchmarks.soak.world import Attacked, Evidence, waits
from tests.rows import in_one_test

#: Every kind of fault begins at least once in any so many seconds.
ROUND = 600.0
KILL = Occurred(Fault.ACTIVATOR_KILL, "127.0.1.2", 100.0, 110.0)
LIE = Occurred(Fault.BROKEN_FRAMING, "liar", 100.0, 105.0)
BOTH = "127.0.1.2:8012, 127.0.1.1:8012"
FAILED = Failure("POST", "", 99.9, 100.1, "502", via="127.0.1.2:8012")


def test_a_seed_decides_the_plan() -> None:
    assert plan(7, 1800) == plan(7, 1800)
    assert plan(7, 1800) != plan(8, 1800)
    shorter = plan(7, 600)
    assert shorter == [each for each in plan(7, 1800) if each in shorter]


@pytest.mark.parametrize("seed", range(4))
def test_each_kind_of_fault_comes_within_minutes(seed: int) -> None:
    found = plan(seed, 1800)
    for begin in range(0, 1200, 300):
        kinds = {each.fault for each in found if begin <= each.at < begin + ROUND}
        assert kinds == set(Fault)
    assert max(each.at + each.seconds for each in found) <= 1800 - QUIET_END


def test_a_lane_has_one_fault_at_a_time() -> None:
    lane_of = {kind.fault: number for number, lane in enumerate(LANES) for kind in lane}
    assert set(lane_of) == set(Fault)
    free = [0.0] * len(LANES)
    for each in plan(3, 1800):
        lane = lane_of[each.fault]
        assert each.at >= free[lane]
        free[lane] = each.at + each.seconds


def test_a_short_run_has_a_plan() -> None:
    assert plan(1, 20) == []


@in_one_test(
    ("failure", "expected"),
    [
        (FAILED, Fate.ACTIVATOR),
        (replace(FAILED, via="127.0.1.1:8012"), Fate.LOST),  # the other activator
        (replace(FAILED, via="127.0.1.1:8012, 127.0.1.2:8012"), Fate.ACTIVATOR),
        (replace(FAILED, via="127.0.1.2:8012, 127.0.1.1:8012"), Fate.LOST),  # the ingress repeated
        (replace(FAILED, via="127.0.1.25:8012"), Fate.LOST),
        (replace(FAILED, ended=99.95), Fate.LOST),  # before the kill
        (replace(FAILED, sent=101.1, ended=101.2), Fate.LOST),  # after its second
        (replace(FAILED, kind="GET"), Fate.LOST),  # the ingress must repeat it
        (replace(FAILED, kind="GET", pod="web-1.1"), Fate.ACTIVATOR),  # its response had begun
        (replace(FAILED, wrong=True), Fate.LOST),
        (Failure("GET, lying pod", "", 104.0, 104.1, "502"), Fate.LIED),
        (Failure("GET, lying pod", "", 106.0, 106.1, "502"), Fate.LOST),
        (Failure("GET, lying pod", "", 104.0, 104.1, "3 bytes", wrong=True), Fate.LOST),
        (Failure("GET", "", 104.0, 104.1, "502"), Fate.LOST),  # another service
        (Failure("POST", "web-1.1", 50.0, 50.2, "502"), Fate.POD),
        (replace(FAILED, kind="h2 GET", via=BOTH, ended=149.5), Fate.INGRESS),
        (replace(FAILED, kind="h2 GET", ended=149.5), Fate.LOST),  # not repeated
        (replace(FAILED, kind="GET", via=BOTH, ended=149.5), Fate.LOST),  # it has no streams
        (replace(FAILED, kind="h2 GET", via=BOTH, ended=152.5), Fate.LOST),  # another second
        (replace(FAILED, kind="h2 GET", via=BOTH, ended=149.5, wrong=True), Fate.LOST),
    ],
)
def test_why_a_request_failed(failure: Failure, expected: Fate) -> None:
    found = verdict.fate(failure, [Kill("web-1.1", 50.1, 50.1)], [KILL, LIE], [150.0])
    assert found is expected


def test_the_log_of_the_ingress_says_when_it_took_a_wrong_stream_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingress, "RESULTS", tmp_path)
    at = time.strftime("%Y/%m/%d %H:%M:%S")
    (tmp_path / "ingress-error.log").write_text(
        f"{at} [error] 1#1: *2 connect() failed (111: Connection refused) while connecting\n"
        f"{at} [error] 1#1: *2 upstream sent frame for unknown stream 137 while reading\n"
    )
    (found,) = ingress.Ingress(tmp_path, 1, 2).misnumbered()
    assert -2 < found - time.monotonic() <= 0


def test_the_end_of_a_pod_is_an_excuse_only_if_a_fault_hides_it() -> None:
    away = Occurred(Fault.API_AWAY, "", 200.0, 210.0)
    stale = Occurred(Fault.ENDPOINTS_STALE, "web", 200.0, 210.0)
    assert verdict.unseen_end("cold-1.1", 201.0, 202.0, [away]) == [
        Kill("cold-1.1", 201.75, 202.25)
    ]
    assert verdict.unseen_end("cold-1.1", 211.0, 212.0, [away])  # before the next attempt
    assert verdict.unseen_end("cold-1.1", 241.0, 242.0, [away]) == []
    assert verdict.unseen_end("cold-1.1", 201.0, 202.0, [stale]) == []


def test_availability_counts_the_short_requests_of_the_second_of_a_kill() -> None:
    sent = {"GET@1000": 30, "POST@1010": 9, "GET@1020": 99, "WebSocket@1000": 5, "GET@999": 7}
    stream = replace(FAILED, kind="WebSocket")
    assert verdict.availability(KILL, [FAILED, stream], sent) == (1, 40)


@in_one_test(
    ("seen", "expected"),
    [
        (Sighting("upstream-failed", "liar", 104.0), True),
        (Sighting("upstream-failed", "liar", 110.0), True),
        (Sighting("upstream-failed", "liar", 112.0), False),
        (Sighting("upstream-failed", "web", 104.0), False),
        (Sighting("no-endpoints", "cold", 104.0), True),
        (Sighting("no-endpoints", "web", 104.0), False),
        (Sighting("autoscaler-unreachable", "cold", 205.0), True),
        (Sighting("autoscaler-unreachable", "scaled", 205.0), False),  # it has the scaler
        (Sighting("no-endpoints", "cold", 205.0), False),  # it must name the autoscaler
        (Sighting("no-endpoints", "scaled", 205.0), True),
        (Sighting("no-endpoints", "bytes", 104.0), True),
        (Sighting("queue-full", "web", 104.0), False),
    ],
)
def test_a_reason_must_agree_with_the_faults(seen: Sighting, expected: bool) -> None:
    away = Occurred(Fault.AUTOSCALER_RESTART, "", 200.0, 210.0)
    assert verdict.is_true(seen, [LIE, away]) is expected


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (Sighting("scaler-unreachable", "scaled", 230.0), True),  # the Lease of the killed one
        (Sighting("scaler-unreachable", "scaled", 232.0), False),
        (Sighting("upstream-failed", "cold", 345.0), True),  # the list is older than the pod's end
        (Sighting("upstream-failed", "cold", 347.0), False),
    ],
)
def test_a_fault_has_an_aftermath(seen: Sighting, expected: bool) -> None:
    killed = Occurred(Fault.SCALER_KILL, "", 200.0, 210.0)
    expired = Occurred(Fault.WATCH_EXPIRED, "", 300.0, 310.0)
    assert verdict.is_true(seen, [killed, expired]) is expected


def test_growth_compares_the_first_and_the_last_sixth() -> None:
    assert verdict.growth([10.0] * 6 + [99.0] * 24 + [12.0] * 6) == pytest.approx(1.2)
    assert verdict.growth([1.0, 2.0]) == 1.0


def test_waits_are_read_from_the_metrics() -> None:
    page = (
        'activator_waiting_requests{k8s_namespace_name="default",kn_revision_name="web",'
        'reason="no-endpoints"} 3\nactivator_waiting_requests_other{reason="x"} 1\n'
    )
    assert list(waits(page)) == [("web", "no-endpoints")]


def table(folder: Path, evidence: Evidence, *failures: Failure) -> dict[str, Row]:
    traffic = MixedTraffic(folder)
    traffic.failures += failures
    traffic.ended["GET"] = 10
    traffic.sent["GET@1050"] = 10
    rows = checks.rows(1800.0, evidence, traffic, Counter({"scaled POST-1": 2}))
    return {row.what: row for row in rows}


def test_each_broken_invariant_misses_its_goal_and_has_a_text(tmp_path: Path) -> None:
    samples = [Sample(at, int(1e6 + at * 1e3), 5, {}) for at in map(float, range(1800))]
    evidence = Evidence(
        occurred=[
            KILL,
            Occurred(Fault.ACTIVATOR_ROLL, "", 200.0, 220.0),
        ],
        samples=samples,
        sightings=[Sighting("queue-full", "web", 1.0)],
        statuses=[1],
        scaler_statuses=[-9],
        silent=["activator-2"],
        crashes=["activator-1 ended by itself with status -11"],
        attacks=[Attacked("smuggling", 2, {400: 1, 200: 1})],
        stale=["activator-1, web: [], not ['10.0.0.1:8012']"],
        left=["activator-1: 1 waiting"],
        files=(5, 6),
        errors=["{}"],
    )
    get = Failure("GET", "", 105.0, 105.1, "502", reason="upstream-failed; gone")
    found = table(tmp_path, evidence, get, replace(get, kind="POST"))
    held = {what for what, row in found.items() if row.met and not what.startswith("  ")}
    assert held == {
        "WebSocket handshakes that arrived twice",
        "requests smuggled to pods",
        "pods that did not drain",
    }
    assert all(
        row.details["failure"] for row in found.values() if row.met is False and row.goal != "> 0"
    )
    assert found["availability in the second of an activator's SIGKILL, 1 times"].measured == (
        "1.0000, then 0.8000"  # 1 of 5 requests after that second
    )
    assert "502 upstream-failed; gone" in found["idempotent requests lost"].details["failure"][0]


def test_what_was_not_observed_does_not_hold(tmp_path: Path) -> None:
    """Without samples and arrivals, memory and repetitions are unknown."""
    rows = {
        row.what: row for row in checks.rows(1800.0, Evidence(), MixedTraffic(tmp_path), Counter())
    }
    assert rows["memory: last sixth / first sixth after the warm-up"].met is False
    assert rows["POSTs and calls that arrived twice"].met is False
    assert rows["open files: before the clients, after them"].met is False


def test_a_crash_is_an_end_that_nobody_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.process.RESULTS", tmp_path)
    monkeypatch.setattr("benchmarks.soak.programs.RESULTS", tmp_path)
    program = Program("scaler", "127.0.0.1", ("no-such-command",), 0)
    try:
        for end in (None, program.terminate, program.kill):
            program.start()
            if end is not None:
                end()
            assert program.present is None or wait_for(program) is not None
            assert bool(program.crash()) is (end is None)
            assert not program.crash()
            program.leave()
    finally:
        program.close()


def wait_for(program: Program) -> int | None:
    wait_until(lambda: program.ended() is not None, "the program ends")
    return program.ended()


def test_a_program_that_does_not_end_is_killed_after_its_grace_period() -> None:
    ended: list[int] = []
    program = Program("scaler", "127.0.0.1", (), 0)
    program.ended = lambda: ended[0] if ended else None  # type: ignore[method-assign]
    program.kill = lambda: ended.append(-9)  # type: ignore[method-assign]
    seen: list[int | None] = []
    faults = Faults.__new__(Faults)
    faults.numbers, faults.pending, faults.agenda = count(), {}, Agenda()
    faults.when_gone(program, 0.0, lambda: seen.append(program.ended()))
    faults.agenda.run()
    assert seen == [-9]


def test_the_ingress_has_groups_for_both_versions_and_for_each_activator(tmp_path: Path) -> None:
    text = configuration(Ingress(tmp_path, 1, 2), tmp_path, ("127.0.1.1:8012", "127.0.1.2:8012"))
    for who in ("both", "only0", "only1"):
        for how in ("kept", "kept_http2", "fresh"):
            assert f"upstream {who}_{how} " in text
    assert f"if (-f {tmp_path}/out-0) {{ set $who only1; }}" in text


def test_ambiguous_requests_hide_one() -> None:
    assert all(each.count(b"GET /smuggled") == 1 for each in AMBIGUOUS)


@pytest.mark.parametrize("seconds", ["0", "-5", "nan", "inf", "many"])
def test_a_run_without_traffic_is_refused(seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Its table would be empty, and all its invariants would hold."""
    with pytest.raises(SystemExit) as refused:
        soak.options(["--seconds", seconds])
    assert refused.value.code == 2
    assert f"argument --seconds: {seconds!r} is not a number of more than 0" in (
        capsys.readouterr().err
    )
    assert soak.options(["--seconds", "0.5", "--seed", "7"]).seconds == 0.5


@pytest.mark.parametrize(("ran", "memory"), [(40.0, True), (600.0, False)])
def test_the_last_line_says_what_the_time_that_ran_has_no_goal_for(
    ran: float, memory: bool
) -> None:
    assert ("has no goal for memory" in soak.held(ran)) is memory


def test_a_second_interrupt_ends_with_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> list[Row]:
        raise KeyboardInterrupt

    monkeypatch.setattr(soak, "_run", interrupted)
    monkeypatch.setattr(soak, "raise_file_limit", lambda: None)
    monkeypatch.setattr("sys.argv", ["soak", "--pure", "--seed", "7"])
    monkeypatch.setenv(network.INSIDE + "_TRIED", "yes")
    assert soak.main() == 130
    assert "ended without a table; repeat it by: make soak" in capsys.readouterr().err
