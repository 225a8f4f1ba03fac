"""Queued requests: which may wait, and the effects when they leave."""

from __future__ import annotations

import pytest

from tests.throttler.world import OWNER, One, addresses
from throttler.errors import RequestQueueFull
from throttler.ticket import CANCELLED, QUEUED, REJECTED, Ticket


def test_a_request_that_may_not_wait_has_ended() -> None:
    one = One(1, depth=1)
    one.request()
    late = Ticket(OWNER, 60.0)
    with pytest.raises(RequestQueueFull):
        one.throttler.queue.add(late, one.now)
    assert late.state is REJECTED


def test_a_cancelled_request_is_removed_and_the_next_is_served() -> None:
    one = One(1)
    first, second = one.requests(2)
    waiters = one.throttler.queue
    assert waiters.awaits_start
    waiters.cancel(first, one.now)
    assert (first.state, second.state) == (CANCELLED, QUEUED)
    (pod,) = one.healthy(addresses(1))
    assert not waiters.awaits_start
    assert second.pod is pod
    assert one.throttler.queued.waiting == 0


def test_a_request_that_finds_room_would_not_wait() -> None:
    one = One(1)
    assert one.throttler.queue.expected_wait(one.now) is None
    one.healthy(addresses(1))
    assert one.throttler.queue.expected_wait(one.now) == 0.0
