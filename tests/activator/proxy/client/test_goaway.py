"""Which GOAWAY a client gets, and when."""

from __future__ import annotations

from itertools import product
from math import inf

import pytest

from activator.proxy.client.http2_ends import (
    ANNOUNCED,
    CLOSE_PLANNED,
    LAST_SENT,
    LEAVE_SECONDS,
    NOT_SENT,
    Goaway,
    GoawaySteps,
)

NOW = 1000.0
LATER = NOW + LEAVE_SECONDS


def test_no_step_leads_back():
    order = [NOT_SENT, CLOSE_PLANNED, ANNOUNCED, LAST_SENT]
    assert order == list(Goaway)
    for before, after in product(order, order):
        steps = GoawaySteps()
        steps.advance(before, NOW)
        ahead = order.index(after) > order.index(before)
        assert steps.advance(after, NOW) is ahead
        assert steps.state is (after if ahead else before)


def test_a_client_gets_each_goaway_once_whatever_happens_again():
    steps = GoawaySteps()
    found = [steps.advance(state, NOW) for state in (ANNOUNCED, ANNOUNCED, LAST_SENT, ANNOUNCED)]
    assert found == [True, False, True, False]
    assert steps.state is LAST_SENT


@pytest.mark.parametrize("idle", [True, False])
def test_the_last_stream_is_named_a_second_after_the_announcement(idle):
    steps = GoawaySteps()
    steps.advance(ANNOUNCED, NOW)
    assert steps.due(LATER - 0.001, idle=idle) is None
    assert steps.due_at == LATER
    assert steps.due(LATER, idle=idle) is LAST_SENT
    steps.advance(LAST_SENT, LATER)
    assert steps.due_at == inf
    assert steps.due(LATER + 100, idle=idle) is None


@pytest.mark.parametrize("idle", [True, False])
def test_a_client_without_a_place_has_a_second_whatever_it_begins(idle):
    steps = GoawaySteps()
    assert steps.advance(CLOSE_PLANNED, NOW)
    assert not steps.advance(CLOSE_PLANNED, NOW + 0.5)
    assert steps.due(NOW + 0.5, idle=idle) is None
    assert steps.due(LATER, idle=idle) is ANNOUNCED


@pytest.mark.parametrize(("idle", "step"), [(True, ANNOUNCED), (False, None)])
def test_where_the_server_stops_an_idle_client_has_a_second_to_read(idle, step):
    steps = GoawaySteps()
    assert steps.due(LATER, idle=True) is None
    steps.wait_for_request(NOW)
    assert steps.due(NOW, idle=idle) is None
    assert steps.due(LATER, idle=idle) is step
    assert steps.state is NOT_SENT
    assert steps.due_at == inf
