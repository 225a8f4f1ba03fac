"""``activator status``: its table, its warnings, and the age of the state."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from activator.console import status
from activator.console.client import parse
from activator.console.screen import plain, show
from activator.console.status import LISTED_ERRORS, state_of
from tests.rows import in_one_test


def revision(**changes):
    one = {
        "namespace": "default",
        "name": "hello",
        "uid": "u1",
        "containerConcurrency": 2,
        "protocol": "http1",
        "timeoutSeconds": 300,
        "capacity": 2,
        "inFlight": 2,
        "queued": 3,
        "oldestWaiterSeconds": 1.26,
        "queueDepth": 10000,
        "reason": "at-capacity",
        "reasonDetail": "2/2",
        "reachableHealthyPods": 1,
        "activatorIndex": 0,
        "activatorCount": 1,
        "pods": [pod(), PROBING],
    }
    return one | changes


def pod(**changes):
    one = {
        "address": "127.0.0.11:8012",
        "uid": "p1",
        "kubernetes": "ready",
        "probe": "passed",
        "state": "healthy",
        "usable": True,
        "inFlight": 2,
        "limit": 2,
        "lastError": None,
        "inSlice": True,
    }
    return one | changes


PROBING = pod(kubernetes="not-ready", state="probing", usable=False)


def answer(*revisions) -> str:
    return json.dumps({"revisions": list(revisions), "activator": {"podName": "x", "ready": True}})


def row(**changes) -> status.StatusRow:
    (only,) = status.read_rows(parse(answer(revision(**changes))))
    return only


@pytest.mark.parametrize(("protocol", "unit"), [("http1", "request"), ("tcp", "connection")])
def test_ready_pods_that_fail_have_a_state_before_anything_waits(protocol, unit):
    failing = pod(state="probing", usable=False, decidedBy="probe-failed")
    found = row(reason=None, queued=0, protocol=protocol, pods=[failing])
    assert found.state == f"probe-failing (no {unit} waits)"


@pytest.mark.parametrize(
    ("service", "state"),
    [
        (None, "starting"),
        (pod(kubernetes="service", usable=False), "starting"),
        (pod(kubernetes="service", usable=True), "serving by ClusterIP"),
    ],
)
def test_pods_that_cannot_be_reached_are_no_start_where_their_service_can(service, state):
    pods = [pod(state="probing", usable=False)]
    assert row(reason=None, clusterIP=service, pods=pods).state == state


@pytest.mark.parametrize(
    ("rule", "listed", "state"),
    [
        ("probe-failed", "ready", "probe-failing (no request waits)"),
        ("answered-badly", "ready", "bad-answers (no request waits)"),
        ("probe-failed", "not-ready", "starting"),
        ("awaiting-probe", "ready", "starting"),
    ],
)
def test_a_ready_pod_that_is_out_for_what_it_did_is_no_start(rule, listed, state):
    out = pod(kubernetes=listed, state="probing", usable=False, decidedBy=rule)
    assert row(reason=None, queued=0, pods=[out]).state == state
    assert row(reason=None, queued=0, pods=[out, pod()]).state == "serving"


def test_a_start_without_a_listed_pod_is_a_start():
    for forecast, state in (({}, "scaled-to-zero"), ({"startingSeconds": 3.0}, "starting")):
        shown = row(reason=None, queued=0, pods=[], failedStarts=1, forecast=forecast)
        assert shown.state == f"{state}, 1 failed start"


def test_a_workload_that_sleeps_is_no_start():
    parked = pod(state="probing", usable=False, decidedBy="workload-sleeps")
    assert row(reason=None, queued=0, pods=[parked]).state == "asleep"


def test_a_cold_start_has_the_words_of_explain():
    refused = {"reason": "pods-not-ready", "reasonDetail": "connection refused", "pods": [PROBING]}
    begun = {"startingSeconds": 1.8}
    assert row(**refused, forecast=begun).state == "starting, 1.8 s"
    late = row(**refused, forecast=begun | {"startSeconds": 1.5}).state
    assert late == "pods-not-ready: connection refused"


def test_a_deleted_revision_whose_requests_run_says_so():
    assert row(reason=None, queued=0, deleted=True).state == "deleted"


def test_the_kind_is_a_column_where_a_service_is_listed():
    service = revision(kind="service", name="web")
    both = plain(status.page(status.read_rows(parse(answer(revision(), service))), False))
    assert [line.split()[:2] for line in both.splitlines()[:3]] == [
        ["KIND", "NAME"],
        ["revision", "default/hello"],
        ["service", "default/web"],
    ]
    alone = plain(status.page(status.read_rows(parse(answer(revision()))), False))
    assert alone.split()[:2] == ["REVISION", "PODS"]


def test_a_revision_becomes_a_row():
    assert row() == status.StatusRow(
        kind="revision",
        revision="default/hello",
        pods="1/1/2",
        in_flight="2/2",
        queued="3",
        oldest_waiter="1.3s",
        state="at-capacity: 2/2",
    )


def test_no_limit_is_distinguished_from_no_capacity():
    assert row(containerConcurrency=0, capacity=2**31 - 1).in_flight == "2/inf"
    assert row(containerConcurrency=0, capacity=None).in_flight == "2/inf"
    assert row(containerConcurrency=0, capacity=0, inFlight=0).in_flight == "0/0"


@in_one_test(
    ("reason", "detail", "pods", "state"),
    [
        (None, None, [pod()], "serving"),
        (None, None, [], "scaled-to-zero"),
        (None, None, [pod(state="gone")], "scaled-to-zero"),
        (None, None, [PROBING], "starting"),
        (None, None, [pod(kubernetes="not-ready", usable=False)], "starting"),
        ("at-capacity", "2/2", [pod()], "at-capacity: 2/2"),
        ("no-endpoints", None, [], "no-endpoints"),
        ("probe-failing", "127.0.0.1:1: \x1b[31m", [PROBING], "probe-failing: 127.0.0.1:1: ?[31m"),
    ],
)
def test_the_state_says_what_it_does_or_why_requests_wait(reason, detail, pods, state):
    assert row(reason=reason, reasonDetail=detail, pods=pods).state == state


def test_pods_that_are_gone_are_not_counted():
    assert row(pods=[pod(), pod(state="gone")]).pods == "1/1/1"


def test_an_empty_queue_has_no_longest_wait():
    assert row(queued=0, oldestWaiterSeconds=None).oldest_waiter == "-"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{}", "revisions is missing"),
        ('{"revisions": {}}', "revisions: expected an array"),
        ('{"revisions": [1]}', r"revisions\[0\]: expected an object, got 1"),
        (answer(revision(), revision(queued="3")), r"revisions\[1\].queued: expected a whole"),
        (answer(revision(queued=True)), r"revisions\[0\].queued: expected a whole number, got T"),
        (answer(revision(pods=[None])), r"revisions\[0\].pods\[0\]: expected an object, got None"),
        (answer(revision(oldestWaiterSeconds="1")), "whole number or a number, got '1'"),
    ],
)
def test_another_shape_is_named_by_its_field(text, reason):
    with pytest.raises(ValueError, match=reason):
        status.read_rows(parse(text))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.untraced
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # may be slow
@given(st.dictionaries(st.sampled_from(sorted(revision())), JSON))
def test_any_value_in_any_field_gives_rows_or_says_what_is_wrong(changes):
    try:
        rows = status.read_rows(parse(answer(revision(**changes))))
    except ValueError:
        return
    assert len(rows) == 1


def test_plain_columns_are_aligned_and_have_no_blanks_in_headings():
    text = answer(revision(), revision(name="a-longer-name", queued=0, reason=None))
    rows = status.read_rows(parse(text))
    lines = plain(status.page(rows, for_terminal=False)).splitlines()
    assert lines == [
        "REVISION               PODS   IN-FLIGHT  QUEUED  OLDEST-WAITER  STATE",
        "default/hello          1/1/2  2/2        3       1.3s           at-capacity: 2/2",
        "default/a-longer-name  1/1/2  2/2        0       1.3s           serving",
    ]


def test_a_terminal_shows_when_there_is_no_revision():
    nothing = parse(answer())
    assert status.page(status.read_rows(nothing), for_terminal=True) == (
        "No revision, Service or route object is known yet.",
    )
    assert plain(status.page([], for_terminal=False)).startswith("REVISION")


def test_a_narrow_terminal_shows_each_revision_below_its_name(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TERM", "xterm")
    out = Terminal()
    rows = [row(kind="service"), row(kind="service", name="other")]
    show(status.page(rows, for_terminal=True), out)
    for name in ("hello", "other"):
        assert f"service default/{name}" in out.getvalue()


def test_what_a_server_sends_cannot_steer_the_terminal():
    odd = row(name="x\x1b[2J\n", pods=[pod(state="probing", lastError="\x1b]0;t\x07")])
    text = plain(status.page([odd], for_terminal=True))
    assert "\x1b" not in text
    assert text.count("\n") == 2


def test_errors_of_manifests_are_shown_beside_the_table():
    told = {"notReadyReason": "draining", "manifestErrors": {"a.yaml": "line 3: \x1bno"}}
    text = json.dumps({"revisions": [], "activator": told})
    assert status.warnings(parse(text)) == ["not ready: draining", "a.yaml: line 3: ?no"]
    assert status.warnings(parse(answer())) == []
    odds: list[Any] = [1, {"manifestErrors": []}, {"notReadyReason": 3}]
    for odd in odds:
        assert status.warnings(parse(json.dumps({"activator": odd}))) == []


@pytest.mark.parametrize(("failed", "state"), [(1, ", 1 failed start"), (3, ", 3 failed starts")])
def test_failed_starts_are_in_the_state(failed: int, state: str) -> None:
    one = revision(pods=[], reason=None, failedStarts=failed)
    (row,) = status.read_rows(parse(json.dumps({"revisions": [one]})))
    assert row.state == f"scaled-to-zero{state}"


def lines(**activator):
    return [line for fact in state_of(parse(json.dumps(activator))) for line in fact.lines]


def watch(age=3.0, error=None):
    return {"ageSeconds": age, "error": error, "drifted": 0}


def test_an_activator_that_tells_nothing():
    assert lines(podName="x", notReadyReason=None, manifestErrors={}) == []
    assert lines(watches={}, manifests=None, autoscaler=None) == []


def test_all_is_well():
    told = lines(
        watches={"Endpoints": watch(), "Revision": watch(None)},
        autoscaler={"connected": True, "ageSeconds": 1.0, "lastError": "old"},
    )
    assert told == ["all watches of the cluster are current", "the autoscaler is connected"]


def test_cluster_and_autoscaler_are_silent():
    told = lines(
        notReadyReason="draining",
        watches={"Endpoints": watch(300.04), "Revision": watch(5.0, "refused"), "S": watch()},
        autoscaler={"connected": False, "ageSeconds": 12.3, "lastError": "dial \x1b"},
    )
    assert told == [
        "not ready: draining",
        "Endpoints: nothing received for 300.0s; the last state is in force",
        "Revision: nothing received for 5.0s (refused); the last state is in force",
        "the autoscaler is not connected; silent for 12.3s (dial ?)",
    ]
    assert lines(autoscaler={"connected": False}) == ["the autoscaler is not connected"]


def test_an_api_server_that_is_away_is_one_line() -> None:
    away = "the API server at 10.96.0.1:443 does not respond: connection refused"
    kinds = {"Service": watch(5.0, away), "Deployment": watch(12.0, away)}
    assert lines(watches=kinds) == [
        f"Service, Deployment: nothing received for 12.0s ({away}); the last state is in force"
    ]


def test_a_kind_that_the_role_does_not_allow_was_never_received() -> None:
    kinds = {"ConfigMap": watch(None, "403"), "InterceptorRoute": watch(None, "403")}
    assert lines(watches=kinds) == ["ConfigMap, InterceptorRoute: nothing received yet (403)"]


def test_a_folder_instead_of_a_cluster():
    told = lines(watches={}, manifests={"folder": "/m", "ageSeconds": 2, "lastChangeSecondsAgo": 9})
    assert told == ["objects come from /m, read 2.0s ago"]


def test_a_certificate_that_expires():
    assert lines(certificateWarnings=["the certificate\x1b"]) == ["the certificate?"]


def test_a_file_that_is_wrong():
    errors = {"/m/a.yaml": "line 3: \x1bno\nline 5: two"}
    found = ["/m/a.yaml: line 3: ?no", "/m/a.yaml: line 5: two"]
    assert lines(manifestErrors=errors) == found
    text = json.dumps({"revisions": [], "activator": {"manifestErrors": errors}})
    assert status.warnings(parse(text)) == found
    many = {"/m/a.yaml": "\n".join(map(str, range(9)))}
    assert len(lines(manifestErrors=many)) == LISTED_ERRORS


@pytest.mark.parametrize(
    ("why", "told"),
    [
        ("connection has not yet been established", "not ready: no connection to the autoscaler"),
        ("received SIGTERM from kubelet", "not ready: it is shutting down"),
    ],
)
def test_why_it_is_not_ready_says_who_is_meant(why, told):
    (line,) = lines(notReadyReason=why)
    assert line.startswith(told)


@pytest.mark.parametrize("odd", [{"watches": 1}, {"watches": {"a": 1}}, {"autoscaler": []}])
def test_another_shape_is_named(odd):
    with pytest.raises(ValueError, match="expected an object"):
        lines(**odd)
