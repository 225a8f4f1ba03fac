from __future__ import annotations

from activator.lab.switchboard import PodCounters, Switches


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
