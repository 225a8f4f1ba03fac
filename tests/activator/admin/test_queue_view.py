"""The order of a queue as the API shows it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from activator.admin.queue_view import flow_name, queue_order_view
from activator.proxy.exchange.placement import bounded
from tests.throttler.world import OWNER, One, revision
from throttler.model import FlowKey, Policies, QueueOrder
from throttler.request_policies import HIGH, LOW
from throttler.ticket import Ticket

FAIR = QueueOrder(fair_by=FlowKey(b"x-tenant"))


def queued(order: QueueOrder | None, *places: tuple[int, bytes]) -> One:
    """Return a revision with a queued request for each class and flow."""
    one = One()
    one.throttler.set_revision(replace(revision(), policies=Policies(order=order)), 0.0)
    for priority, flow in places:
        ticket = Ticket(OWNER, 60.0)
        ticket.priority, ticket.flow = priority, flow
        one.throttler.admit(ticket, 0.0)
    return one


def test_the_order_of_arrival_has_no_view() -> None:
    assert queue_order_view(queued(None).throttler) is None


def test_classes_are_counted() -> None:
    order = QueueOrder(has_classes=True, priority=LOW, trusts_header=True)
    one = queued(order, (HIGH, b""), (LOW, b""), (LOW, b""))
    assert queue_order_view(one.throttler) == {
        "priority": "low",
        "trustsHeader": True,
        "queuedByClass": {"high": 1, "normal": 0, "low": 2},
        "fairBy": None,
        "flows": 0,
        "largestFlows": [],
    }


def test_the_five_largest_flows_are_shown() -> None:
    flows = [(1, b"%c" % letter) for letter in b"abcdefgg"]
    order = replace(FAIR, shows_names=True)
    view = queue_order_view(queued(order, *flows).throttler)
    assert view is not None
    assert (view["fairBy"], view["flows"]) == ("header:x-tenant", 7)
    assert [(each["flow"], each["queued"]) for each in view["largestFlows"]] == [
        *(("g", 2), ("a", 1), ("b", 1), ("c", 1), ("d", 1)),
    ]


def test_names_are_hashed_unless_an_annotation_shows_them() -> None:
    view = queue_order_view(queued(FAIR, (1, b"secret")).throttler)
    assert "secret" not in str(view)
    hashed = {flow_name(b"secret", FAIR, salt) for salt in (b"", b"uid-1", b"uid-2")}
    assert len(hashed) == 3, "two revisions have different hashes"
    assert {len(each) for each in hashed} == {12}


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (b"", "(none)"),
        (b"\xff", "\ufffd"),
        (200 * b"a", 64 * "a"),
    ],
)
def test_odd_names(name: bytes, shown: str) -> None:
    assert flow_name(name, replace(FAIR, shows_names=True), b"") == shown


def test_a_name_that_cannot_be_printed_is_hashed() -> None:
    shows = replace(FAIR, shows_names=True)
    for name in (bounded(300 * b"a"), b"a\tb"):
        assert flow_name(name, shows, b"uid") == flow_name(name, FAIR, b"uid")
