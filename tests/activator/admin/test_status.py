"""What ``activator status`` makes of an admin side's answers, of others' and of none."""

from __future__ import annotations

import io
import json
import socket

import httpx
import pytest
import respx
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from activator.admin import status

URL = "http://127.0.0.1:8080"


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
        "pods": [pod(), pod(kubernetes="not-ready", probe="unknown", state="probing")],
    }
    return one | changes


def pod(**changes):
    one = {
        "address": "127.0.0.11:8012",
        "uid": "p1",
        "kubernetes": "ready",
        "probe": "passed",
        "state": "healthy",
        "inFlight": 2,
        "limit": 2,
        "lastError": None,
        "inSlice": True,
    }
    return one | changes


def answer(*revisions) -> str:
    return json.dumps({"revisions": list(revisions), "activator": {"podName": "x", "ready": True}})


def row(**changes) -> status.Row:
    (only,) = status.read_rows(answer(revision(**changes)), URL)
    return only


@pytest.mark.parametrize(
    ("service", "state"),
    [
        (None, "starting"),
        (pod(kubernetes="service", usable=False), "starting"),
        (pod(kubernetes="service", usable=True), "serving by ClusterIP"),
    ],
)
def test_pods_that_cannot_be_reached_are_no_start_where_their_service_can(service, state):
    pods = [pod(state="probing")]
    assert row(reason=None, clusterIP=service, pods=pods).state == state


def test_a_revision_becomes_a_row():
    assert row() == status.Row(
        revision="default/hello",
        pods="1/1/2",
        in_flight="2/2",
        queued="3",
        oldest_waiter="1.3s",
        state="at-capacity: 2/2",
    )


def test_no_limit_is_told_apart_from_no_room():
    assert row(containerConcurrency=0, capacity=2**31 - 1).in_flight == "2/inf"
    assert row(containerConcurrency=0, capacity=None).in_flight == "2/inf"
    assert row(containerConcurrency=0, capacity=0, inFlight=0).in_flight == "0/0"


PROBING = pod(kubernetes="not-ready", state="probing")


@pytest.mark.parametrize(
    ("reason", "detail", "pods", "state"),
    [
        (None, None, [pod()], "serving"),
        (None, None, [], "scaled-to-zero"),
        (None, None, [pod(state="gone")], "scaled-to-zero"),
        (None, None, [PROBING], "starting"),
        ("at-capacity", "2/2", [pod()], "at-capacity: 2/2"),
        ("no-endpoints", None, [], "no-endpoints"),
        ("probe-failing", "127.0.0.1:1: \x1b[31m", [PROBING], "probe-failing: 127.0.0.1:1: ?[31m"),
    ],
)
def test_the_state_says_what_it_does_or_why_requests_wait(reason, detail, pods, state):
    assert row(reason=reason, reasonDetail=detail, pods=pods).state == state


def test_pods_that_are_gone_are_not_counted():
    assert row(pods=[pod(), pod(state="gone")]).pods == "1/1/1"


def test_nobody_waits_longest_in_an_empty_queue():
    assert row(queued=0, oldestWaiterSeconds=None).oldest_waiter == "-"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("<html>", "Expecting value"),
        ("[]", "the answer: expected an object, got \\[\\]"),
        ("{}", "revisions is missing"),
        ('{"revisions": {}}', "revisions: expected an array"),
        ('{"revisions": [1]}', r"revisions\[0\]: expected an object, got 1"),
        (answer(revision(), revision(queued="3")), r"revisions\[1\].queued: expected a whole"),
        (answer(revision(queued=True)), r"revisions\[0\].queued: expected a whole number, got T"),
        (answer(revision(pods=[None])), r"revisions\[0\].pods\[0\]: expected an object, got None"),
        (answer(revision(oldestWaiterSeconds="1")), "whole number or a number, got '1'"),
        ("[" * 100_000, "not an activator's admin side"),
    ],
)
def test_another_shape_is_named_by_its_field(text, reason):
    with pytest.raises(status.UnexpectedAnswer, match=reason):
        status.read_rows(text, URL)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a busy machine is no fault
@given(st.dictionaries(st.sampled_from(sorted(revision())), JSON))
def test_any_value_in_any_field_gives_rows_or_the_typed_error(changes):
    try:
        rows = status.read_rows(answer(revision(**changes)), URL)
    except status.UnexpectedAnswer:
        return
    assert len(rows) == 1


def test_plain_columns_are_aligned_and_have_no_blanks_in_headings():
    rows = status.read_rows(
        answer(revision(), revision(name="a-longer-name", queued=0, reason=None)), URL
    )
    lines = status.plain(rows).splitlines()
    assert lines == [
        "REVISION               PODS   IN-FLIGHT  QUEUED  OLDEST-WAITER  STATE",
        "default/hello          1/1/2  2/2        3       1.3s           at-capacity: 2/2",
        "default/a-longer-name  1/1/2  2/2        0       1.3s           serving",
    ]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_a_drawn_table(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    terminal, pipe = Terminal(), io.StringIO()
    status.show([row()], terminal)
    status.show([row()], pipe)
    assert "default/hello" in terminal.getvalue()
    assert "oldest waiter" in terminal.getvalue()
    assert pipe.getvalue() == status.plain([row()])


def test_a_terminal_is_told_when_there_is_no_revision():
    terminal = Terminal()
    status.show([], terminal)
    assert "knows no revision" in terminal.getvalue()


def test_what_a_server_sends_cannot_steer_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    odd = row(name="[red]x\x1b[2J\n", pods=[pod(state="probing", lastError="\x1b]0;t\x07")])
    assert "\x1b" not in status.plain([odd])
    assert status.plain([odd]).count("\n") == 2
    terminal = Terminal()
    status.show([odd], terminal)
    assert "[red]x" in terminal.getvalue()
    assert "\x1b[2J" not in terminal.getvalue()


@respx.mock
@pytest.mark.parametrize("url", [URL, URL + "/"])
def test_fetch_asks_the_admin_api(url):
    respx.get(URL + "/api/v1/revisions").respond(text=answer())
    assert status.fetch(url) == answer()


@respx.mock
@pytest.mark.parametrize(
    ("error", "raised", "says"),
    [
        (httpx.ConnectError("refused"), status.NoAnswer, "refused"),
        (httpx.ReadError(""), status.NoAnswer, "ReadError"),
        (httpx.ReadTimeout(""), status.NoAnswer, "no answer within 5 s"),
        (httpx.RemoteProtocolError("bad"), status.UnexpectedAnswer, "does not speak HTTP/1.1: bad"),
    ],
)
def test_failures_say_what_was_tried(error, raised, says):
    respx.get(URL + "/api/v1/revisions").mock(side_effect=error)
    with pytest.raises(raised, match=says) as caught:
        status.fetch(URL)
    assert URL + "/api/v1/revisions" in str(caught.value)


@respx.mock
def test_another_status_or_bytes_that_are_no_text_are_unexpected():
    route = respx.get(URL + "/api/v1/revisions").respond(404)
    with pytest.raises(status.UnexpectedAnswer, match="the status was 404"):
        status.fetch(URL)
    route.respond(content=b"\xff")
    with pytest.raises(status.UnexpectedAnswer, match="not UTF-8"):
        status.fetch(URL)


@respx.mock
def test_an_endless_answer_is_given_up(monkeypatch):
    monkeypatch.setattr(status, "MAX_ANSWER", 1000)
    respx.get(URL + "/api/v1/revisions").respond(content=b"x" * 1001)
    with pytest.raises(status.UnexpectedAnswer, match="exceeds 1000 bytes"):
        status.fetch(URL)


@respx.mock
def test_an_answer_that_drips_is_given_up(monkeypatch):
    monkeypatch.setattr(status, "TOTAL_TIMEOUT", -1.0)
    respx.get(URL + "/api/v1/revisions").respond(content=b"x")
    with pytest.raises(status.NoAnswer, match="had no end"):
        status.fetch(URL)


def test_nobody_there_says_how_to_start_or_reach_one(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "no-proxy-at-all://x")  # would raise if it were looked at
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound but not listening: connections are refused
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(status.NoAnswer) as caught:
            status.fetch(url)
    for hint in (url, "refused", "activator demo", "kubectl port-forward", "--admin-url"):
        assert hint in str(caught.value)


def test_what_is_wrong_with_manifests_is_told_beside_the_table():
    told = {"notReadyReason": "draining", "manifestErrors": {"a.yaml": "line 3: \x1bno"}}
    text = json.dumps({"revisions": [], "activator": told})
    assert status.warnings(text) == ["not ready: draining", "a.yaml: line 3: ?no"]
    assert status.warnings(answer()) == []
