"""A revision's state at one moment."""

from __future__ import annotations

from tests.throttler.world import One, addresses


def test_what_there_is_to_see_of_a_revision() -> None:
    one = One(1)
    one.healthy(addresses(2))
    one.requests(2)
    waiting = one.request(size=7)
    seen = one.throttler.statistics()
    assert (seen.waiting, seen.queued_bytes, seen.oldest_arrival) == (1, 7, waiting.arrived)
    assert (seen.in_flight, seen.capacity, seen.healthy, seen.in_reach) == (2, 2, 2, 2)
    assert [pod.address for pod in seen.pods] == addresses(2)
    assert seen.service is None
