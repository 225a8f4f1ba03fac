"""Switches and counters of a pod."""

from __future__ import annotations

import json

from activator.lab.application import PodCounters, Switches, admin_response
from activator.lab.http1 import HttpRequest


def test_switch_is_turned_over_and_back():
    switches = Switches()
    assert switches.toggle("ready") is False
    assert not switches.ready
    assert switches.toggle("ready") is True


def test_counters_tell_the_most_at_a_time_and_posts_that_came_twice():
    counters = PodCounters()
    for method, request_id in [("GET", "a"), ("POST", "b"), ("GET", "a"), ("POST", "b")]:
        counters.enter(method, request_id)
    counters.leave()
    counters.enter("POST", "")
    told = counters.report()
    assert (told["requests"], told["inFlight"], told["maxInFlight"]) == (5, 4, 4)
    assert told["seenById"] == {"a": 2, "b": 2}
    assert told["postsSeenTwice"] == ["b"]


def ask(path: str, switches: Switches, counters: PodCounters | None = None):
    return admin_response(HttpRequest("GET", path, "HTTP/1.1"), switches, counters or PodCounters())


def test_kubelets_questions_follow_the_switches():
    switches = Switches()
    assert [ask(path, switches).status for path in ("/exec", "/live")] == [200, 200]
    ask("/toggleExec", switches)
    ask("/toggleRunning", switches)
    assert [ask(path, switches).status for path in ("/exec", "/live")] == [500, 500]
    ask("/toggleRunning", switches)
    ask("/toggleLive", switches)
    assert ask("/live", switches).status == 500


def test_kubelet_sees_the_other_container_as_well():
    switches = Switches()
    paths = ("/sidecarReady", "/sidecarLive")
    assert [ask(path, switches).status for path in paths] == [200, 200]
    ask("/toggleSidecarReady", switches)
    ask("/toggleSidecarLive", switches)
    assert [ask(path, switches).status for path in paths] == [500, 500]
    ask("/startSidecar", switches)
    assert [ask(path, switches).status for path in paths] == [200, 200]


def test_a_restarted_application_has_no_switch_set():
    switches = Switches(ready=False, live=False, exec_ready=False)
    ask("/kill", switches)
    assert not switches.running
    ask("/start", switches)
    assert switches == Switches()


def test_state_and_counters_are_shown():
    counters = PodCounters()
    counters.enter("GET", "id-1")
    assert json.loads(ask("/counters", Switches(), counters).body)["seenById"] == {"id-1": 1}
    assert json.loads(ask("/state", Switches(ready=False)).body)["ready"] is False
    assert ask("/other", Switches()).status == 404
