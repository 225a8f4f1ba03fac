"""When pods without a limit of their own may have more requests at a time."""

from __future__ import annotations

from tests.throttler.world import NAME
from throttler.capacity import SLOW_START_STEP
from throttler.pod import SlowStart


def test_it_is_due_a_step_after_the_first_request_for_it() -> None:
    due: set[SlowStart] = set()
    slow_start = SlowStart(NAME, due)
    assert (slow_start.at, due) == (None, set())
    slow_start.arm(1.0)
    slow_start.arm(1.01)
    assert slow_start.at == 1.0 + SLOW_START_STEP
    assert due == {slow_start}


def test_what_is_being_done_is_due_no_more() -> None:
    due: set[SlowStart] = set()
    slow_start = SlowStart(NAME, due)
    slow_start.disarm()
    slow_start.arm(1.0)
    slow_start.disarm()
    assert (slow_start.at, due) == (None, set())
