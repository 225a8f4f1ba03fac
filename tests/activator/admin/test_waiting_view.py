"""What the API says about the clients of waiting requests."""

from __future__ import annotations

from dataclasses import replace

from activator.admin.waiting_view import profile_view, while_waiting_view
from activator.autoscaler.concurrency import ConcurrencyReporter
from activator.records.entries import Entry, RevisionCounters
from tests.throttler.world import One, revision
from throttler.model import Policies
from throttler.request_policies import Profile, RequestPolicies, WaitMode, WhileWaiting

WAITING = WhileWaiting((WaitMode.PAGE, WaitMode.REFUSE), page_template="shop.html")


def test_nothing_without_the_annotation() -> None:
    assert while_waiting_view(One().throttler, None, 0.0) is None


def test_modes_and_the_lease_of_a_revision() -> None:
    throttler = One().throttler
    spec = replace(revision(), policies=Policies(requests=RequestPolicies(waiting=WAITING)))
    throttler.set_revision(spec, 0.0)
    load = ConcurrencyReporter(lambda _: None).load(throttler.revision.id)
    entry = Entry(throttler, RevisionCounters(), load)
    entry.counters.waiting["page"] = 0
    entry.counters.early_heads = 3
    entry.lease.keep(12.34, 0.0)
    assert while_waiting_view(throttler, entry, 2.0) == {
        "modes": ["page", "refuse"],
        "pageAfterSeconds": 1.0,
        "pageTemplate": "shop.html",
        "heartbeatSeconds": 15.0,
        "earlyHeads": 3,
        "queuedByMode": {"hold": 0, "page": 0, "heartbeat": 0, "refuse": 0},
        "leaseSeconds": 10.3,
    }
    before = while_waiting_view(throttler, None, 0.0)
    assert before is not None
    assert before["leaseSeconds"] == 0.0


def test_profile_and_limit_of_the_wait() -> None:
    throttler = One().throttler
    assert profile_view(throttler) == {"profile": None, "waitSeconds": None}
    for requests, profile, seconds in (
        (RequestPolicies(profile=Profile.OPENAI), "openai", None),
        (RequestPolicies(wait_seconds=600.0), None, 600.0),
    ):
        throttler.set_revision(replace(revision(), policies=Policies(requests=requests)), 0.0)
        assert profile_view(throttler) == {"profile": profile, "waitSeconds": seconds}
