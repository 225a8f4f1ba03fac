"""How many requests and bytes may wait; no revision uses up the common budget."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.throttler.world import unhurried
from throttler.request_policies import RESERVED, RESERVED_FOR, QueueBudget, SharedBudget

#: A share of 2 for each, a reserve of 128 for 64 of them.
TOTAL = 2 * RESERVED * RESERVED_FOR
SHARE = 2
RESERVE = SHARE * RESERVED_FOR


def fill(total: SharedBudget, own: QueueBudget, size: int = 0) -> int:
    """Let one revision queue requests until the throttler refuses one; return how many."""
    count = 0
    while own.exceeded_by(size) is None and total.exceeded_for(own, size) is None:
        count += 1
        for budget in (own, total):
            budget.depth += 1
            budget.bytes += size
    return count


def unbounded() -> QueueBudget:
    return QueueBudget(1 << 30, 1 << 30)


def test_a_revision_alone_cannot_use_up_the_depth_that_all_share() -> None:
    total, hog, other = SharedBudget(TOTAL, 1 << 30), unbounded(), unbounded()
    assert fill(total, hog) == TOTAL - RESERVE
    assert total.exceeded_for(hog, 0) == "depth"
    assert fill(total, other) == SHARE


def test_nor_the_bytes() -> None:
    total, hog, other = SharedBudget(1 << 30, TOTAL), unbounded(), unbounded()
    assert fill(total, hog, 1) == TOTAL - RESERVE
    assert total.exceeded_for(hog, 1) == "bytes"
    assert not total.fits_for(hog, 1)
    assert total.fits_for(other, SHARE)
    assert not total.fits_for(other, SHARE + 1)


def test_many_that_wait_at_their_bounds_leave_room_for_so_many_others() -> None:
    total = SharedBudget(TOTAL, 1 << 30)
    hogs = [fill(total, QueueBudget(TOTAL // 8, 1 << 30)) for _ in range(6)]
    assert hogs == [TOTAL // 8] * 6
    served = [fill(total, unbounded()) for _ in range(RESERVED_FOR)]
    assert served == [SHARE] * RESERVED_FOR
    assert total.depth <= TOTAL


def test_the_smallest_share_is_one_request() -> None:
    total = SharedBudget(4, 1 << 30)
    assert [fill(total, unbounded()) for _ in range(3)] == [3, 1, 0]


def test_room_that_a_small_one_gives_back_is_for_a_small_one_again() -> None:
    total, hog, other = SharedBudget(TOTAL, 1 << 30), unbounded(), unbounded()
    fill(total, hog)
    fill(total, other)
    other.depth -= 1
    total.depth -= 1
    assert fill(total, hog) == 0
    assert fill(total, other) == 1


@pytest.mark.untraced
@unhurried
@given(st.data())
def test_the_total_is_limited_and_no_revision_starves(
    data: st.DataObject,
) -> None:
    total = SharedBudget(TOTAL, TOTAL)
    budgets = [unbounded() for _ in range(data.draw(st.integers(1, RESERVED_FOR)))]
    for _ in range(data.draw(st.integers(0, 30))):
        own = data.draw(st.sampled_from(budgets))
        size = data.draw(st.integers(0, 3))
        for _ in range(data.draw(st.sampled_from([1, 10, 600]))):
            if total.exceeded_for(own, size) is None:
                for budget in (own, total):
                    budget.depth += 1
                    budget.bytes += size
        leaving = data.draw(st.sampled_from(budgets))
        depth = data.draw(st.integers(0, leaving.depth))
        held = leaving.bytes if depth == leaving.depth else leaving.bytes * depth // leaving.depth
        for budget in (leaving, total):
            budget.depth -= depth
            budget.bytes -= held
        assert total.depth <= TOTAL
        assert total.bytes <= TOTAL
        for own in budgets:
            if own.depth < SHARE and own.bytes < SHARE:
                assert total.exceeded_for(own, 1) is None
