"""The decisions of several calls can be joined, in order."""

from __future__ import annotations

from tests.throttler.world import OWNER, One
from throttler.model import Endpoint
from throttler.ticket import Changes, Ticket


def test_changes_are_joined_in_order() -> None:
    (pod,) = One(1).healthy([Endpoint("10.0.0.1:8012", "a")])
    tickets = [Ticket(OWNER, 1.0) for _ in range(4)]
    changes, more = Changes(probe=[pod]), Changes()
    changes.assigned, changes.expired = tickets[:1], tickets[1:2]
    more.assigned, more.expired, more.gone = tickets[2:3], tickets[3:], [pod]
    changes.stranded, more.stranded = tickets[:1], tickets[3:]
    changes.add(more)
    assert changes.assigned == [tickets[0], tickets[2]]
    assert changes.expired == [tickets[1], tickets[3]]
    assert (changes.probe, changes.gone) == ([pod], [pod])
    assert changes.stranded == [tickets[0], tickets[3]]
