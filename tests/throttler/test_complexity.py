"""The cost of a request does not grow with queued requests, revisions or pods.

The tests count executed bytecode instructions, so a busy machine changes nothing. They do not see
the work of C code inside one instruction: a heap, a dict, or an integer with one bit per pod.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from types import FrameType
from typing import Any

import pytest

from tests.throttler.world import HTTP1, OWNER, Many, One, addresses, endpoints, revision
from throttler.balancing import POLICIES
from throttler.model import FlowKey, HashKey, Policies, QueueOrder, RevisionID
from throttler.throttler import Limits
from throttler.ticket import Ticket

pytestmark = pytest.mark.untraced  # long when traced; runs no line that other tests leave out

#: The restart of a round robin, or the comparison of an enum, takes some more; a loop takes
#: hundreds.
FEW = 60
RANKED = Policies(order=QueueOrder(has_classes=True, fair_by=FlowKey()))


def instructions(call: Callable[[], object]) -> int:
    """Return how many bytecode instructions a call executes, in Python code of any depth."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


def test_the_measure_sees_a_loop() -> None:
    def loop(times: int) -> int:
        return sum(n for n in range(times))

    assert instructions(lambda: loop(1000)) > instructions(lambda: loop(10)) + 900


def test_a_probe_that_passes_costs_the_same_with_hundreds_of_usable_pods() -> None:
    one = One(1)
    probed = one.set_endpoints(addresses(300)).probe
    with_few = instructions(lambda: one.passed(probed[0]))
    for pod in probed[1:280]:
        one.passed(pod)
    assert instructions(lambda: one.passed(probed[280])) <= with_few


def busy(
    waiters: int, pods: int = 2, container_concurrency: int = 10, flows: int = 0
) -> tuple[One, Ticket]:
    """Return a revision with full pods and that many queued requests, and one request in flight.

    Arguments:
        flows: number of flows, in three classes; 0 for the order of arrival.
    """
    one = One(container_concurrency, depth=20_000)
    if flows:
        one.throttler.set_revision(replace(revision(container_concurrency), policies=RANKED), 0.0)
    one.healthy(addresses(pods))
    running = [one.request() for _ in range(pods * container_concurrency)]
    for n in range(waiters):  # does not check each ticket's state: that would be quadratic
        ticket = one.tickets.make(one.now + 300.0)
        if flows:
            ticket.priority, ticket.flow = n % 3, b"%d" % (n % flows)
        one.throttler.admit(ticket, one.now)
    return one, running[-1]


def cost_of_admit(waiters: int, flows: int = 0) -> int:
    one, _ = busy(waiters, flows=flows)
    ticket = Ticket(OWNER, one.now + 300.0)
    cost = instructions(lambda: one.throttler.admit(ticket, one.now))
    assert one.throttler.queued.waiting == waiters + 1
    return cost


def cost_of_release(waiters: int, flows: int = 0) -> int:
    one, running = busy(waiters, flows=flows)
    cost = instructions(lambda: one.throttler.release(running, one.now))
    assert one.throttler.queued.waiting == waiters - 1
    return cost


def cost_of_leaving(waiters: int, which: int, flows: int = 0) -> int:
    one, _ = busy(waiters, flows=flows)
    leaving = one.tickets[which]
    cost = instructions(lambda: one.throttler.cancel(leaving, one.now))
    assert one.throttler.queued.waiting == waiters - 1
    return cost


def test_to_wait_costs_the_same_behind_ten_and_behind_ten_thousand() -> None:
    assert cost_of_admit(10_000) <= cost_of_admit(10) + FEW


def test_a_release_that_serves_the_next_costs_the_same_with_ten_and_with_ten_thousand() -> None:
    assert cost_of_release(10_000) <= cost_of_release(10) + FEW


@pytest.mark.parametrize("which", [-1, -5])
def test_to_leave_the_queue_costs_the_same_whatever_its_length(which: int) -> None:
    assert cost_of_leaving(10_000, which) <= cost_of_leaving(10, which) + FEW


def test_classes_and_flows_cost_the_same_with_ten_thousand_requests_of_512_flows() -> None:
    assert cost_of_admit(10_000, 512) <= cost_of_admit(10, 2) + FEW
    assert cost_of_release(10_000, 512) <= cost_of_release(10, 2) + FEW
    assert cost_of_leaving(10_000, -5, 512) <= cost_of_leaving(10, -5, 2) + FEW


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("container_concurrency", [0, 1, 10])
def test_a_request_that_need_not_wait_costs_the_same_with_two_and_with_three_hundred_pods(
    container_concurrency: int, policy: str
) -> None:
    policies = Policies(policy, HashKey(b"x-user"))
    spec = replace(revision(container_concurrency), policies=policies)

    def cost(pods: int) -> int:
        one = One(container_concurrency)
        one.throttler.set_revision(spec, one.now)
        one.healthy(addresses(pods))
        keys = iter(range(1000))

        def serve() -> None:
            ticket = Ticket(OWNER, 60.0)
            ticket.key = b"%d" % next(keys)
            one.throttler.admit(ticket, 0.0)
            one.throttler.release(ticket, 0.0)

        return max(instructions(serve) for _ in range(50))

    assert cost(300) <= cost(2) + FEW


def test_a_request_costs_the_same_with_one_revision_and_with_two_thousand() -> None:
    def cost(revisions: int) -> int:
        many = Many(limits=Limits(queue_depth_total=100_000))
        for n in range(revisions):
            id = RevisionID("default", f"r-{n}")
            many.throttler.set_revision(revision(1, id=id), 0.0)
            many.request(id)
        id = RevisionID("default", "r-0")
        many.pass_all(many.throttler.set_endpoints(id, {HTTP1: endpoints(addresses(1))}, 0.0))

        def serve() -> None:
            throttler = many.throttler.find("default", "r-0")
            ticket = Ticket(OWNER, 60.0)
            throttler.admit(ticket, 1.0)
            throttler.cancel(ticket, 1.0)
            many.throttler.deadlines.next_due()

        serve()
        return instructions(serve)

    assert cost(2000) <= cost(1) + FEW


def test_one_endpoints_event_costs_the_same_with_one_revision_and_with_two_thousand() -> None:
    def cost(revisions: int) -> int:
        many = Many()
        for n in range(revisions):
            id = RevisionID("default", f"r-{n}")
            many.throttler.set_revision(revision(1, id=id), 0.0)
        id = RevisionID("default", "r-0")
        listed = {HTTP1: endpoints(addresses(3))}
        return instructions(lambda: many.throttler.set_endpoints(id, listed, 0.0))

    assert cost(2000) <= cost(1) + FEW
