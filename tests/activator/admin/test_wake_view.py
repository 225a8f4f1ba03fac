"""What wakes a revision, and keeps it awake, as the API shows it."""

from __future__ import annotations

from dataclasses import replace

from activator.admin.wake_view import (
    MOST_AGENTS,
    authorization_view,
    kept_awake_view,
    wake_rules_view,
)
from activator.records.agents import Agents
from tests.throttler.world import revision
from throttler.model import Policies
from throttler.request_policies import Authorization, RequestPolicies, WakeRules


def test_without_annotations_there_is_nothing() -> None:
    bare = replace(revision(), policies=Policies(requests=RequestPolicies(wait_seconds=5)))
    for each in (revision(), bare):
        assert wake_rules_view(each) is None
        assert authorization_view(each) is None


def test_the_annotations_are_shown_without_secrets() -> None:
    wake = WakeRules(not_user_agents=(b"prometheus",), asleep_status=200)
    server = Authorization("https://auth/check?token=secret", always=True, cache_seconds=5)
    policies = Policies(requests=RequestPolicies(wake=wake, authorization=server))
    annotated = replace(revision(), policies=policies)
    assert wake_rules_view(annotated) == {
        "methods": [],
        "notUserAgents": ["prometheus"],
        "notPaths": [],
        "requiredHeader": None,
        "asleepStatus": 200,
    }
    shown = {"url": "https://auth/check", "always": True, "cacheSeconds": 5}
    assert authorization_view(annotated) == shown


def test_the_clients_with_the_most_requests_are_shown() -> None:
    agents = Agents()
    for number in range(60):
        agents.record(b"%c" % b"abcddd"[number % 6], float(number))
    view = kept_awake_view(agents, 60.0)
    assert len(view) == MOST_AGENTS
    assert view[0] == {"agent": "d", "requestsPerMinute": 30}
