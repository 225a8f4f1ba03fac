"""The queue: which request is next, and whether one more may wait."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.throttler.world import OWNER, unhurried
from throttler.errors import FlowFull, RequestQueueFull
from throttler.model import FlowKey, QueueOrder
from throttler.queue import QueuedTickets
from throttler.request_policies import (
    HIGH,
    LOW,
    NORMAL,
    RESERVED,
    RESERVED_FOR,
    QueueBudget,
    SharedBudget,
)
from throttler.ticket import Ticket


def ticket(arrived: float, size: int = 0) -> Ticket:
    made = Ticket(OWNER, 1000.0, size)
    made.arrived = arrived
    return made


def queue(
    depth: int = 100, max_bytes: int = 1000, total: SharedBudget | None = None
) -> QueuedTickets:
    return QueuedTickets(
        QueueBudget(depth, max_bytes), total or SharedBudget(10 * depth, 10 * max_bytes)
    )


def drain(queued: QueuedTickets) -> list[float]:
    return [queued.popleft(0.0).arrived for _ in range(queued.waiting)]


def refusal(queued: QueuedTickets, size: int = 0) -> str:
    before = (queued.waiting, queued.own.depth, queued.own.bytes, queued.total.depth)
    with pytest.raises(RequestQueueFull) as caught:
        queued.append(ticket(99, size))
    after = (queued.waiting, queued.own.depth, queued.own.bytes, queued.total.depth)
    assert before == after, "a refusal changes nothing"
    return caught.value.limit


def test_first_in_first_out() -> None:
    queued = queue()
    for n in range(5):
        queued.append(ticket(n))
    assert drain(queued) == [0, 1, 2, 3, 4]
    assert queued.oldest() is None


def test_the_depth_is_the_exact_number_that_may_wait() -> None:
    queued = queue(depth=3)
    for n in range(3):
        queued.append(ticket(n))
    assert refusal(queued) == "revision-depth"
    queued.popleft(0.0)
    queued.append(ticket(4))
    assert refusal(queued) == "revision-depth"


def test_with_a_depth_of_none_no_request_may_wait() -> None:
    assert refusal(queue(depth=0)) == "revision-depth"


def test_the_bytes_of_all_waiters_may_reach_the_bound_but_not_pass_it() -> None:
    queued = queue(max_bytes=100)
    queued.append(ticket(1, 60))
    assert refusal(queued, 41) == "revision-bytes"
    queued.append(ticket(2, 40))
    queued.append(ticket(3, 0))
    assert refusal(queued, 1) == "revision-bytes"
    queued.popleft(0.0)
    assert queued.own.bytes == 40


def test_revisions_share_the_total_depth() -> None:
    total = SharedBudget(3, 1000)
    one, two = queue(total=total), queue(total=total)
    one.append(ticket(1))
    two.append(ticket(2))
    two.append(ticket(3))
    assert refusal(one) == refusal(two) == "total-depth"
    two.popleft(0.0)
    one.append(ticket(4))
    assert (one.waiting, two.waiting, total.depth) == (2, 1, 3)


def test_the_reserve_of_the_total_is_for_a_revision_that_uses_little() -> None:
    total = SharedBudget(RESERVED * RESERVED_FOR, 1000)
    hog, other = queue(depth=1000, total=total), queue(depth=1000, total=total)
    for n in range(total.max_depth - RESERVED_FOR):
        hog.append(ticket(n))
    assert refusal(hog) == "total-depth"
    other.append(ticket(999))
    assert refusal(other) == "total-depth"
    assert other.waiting == 1


def test_revisions_share_the_total_of_bytes() -> None:
    total = SharedBudget(10, 100)
    one, two = queue(total=total), queue(total=total)
    one.append(ticket(1, 70))
    assert refusal(two, 6) == "total-bytes", "a quarter is kept for those that hold little"
    two.append(ticket(2, 5))
    assert total.bytes == 75


def test_the_revisions_own_bound_is_named_first() -> None:
    queued = QueuedTickets(QueueBudget(0, 0), SharedBudget(0, 0))
    assert refusal(queued, 5) == "revision-depth"


class TestRestore:
    def test_a_requeued_request_precedes_all_that_arrived_later(self) -> None:
        queued = queue()
        for n in (5, 6):
            queued.append(ticket(n))
        queued.restore(ticket(1), 0.0)
        oldest = queued.oldest()
        assert oldest is not None
        assert oldest.arrived == 1
        assert drain(queued) == [1, 5, 6]

    def test_several_come_back_in_their_order_of_arrival(self) -> None:
        queued = queue()
        queued.append(ticket(9))
        for n in (4, 1, 3, 2):
            queued.restore(ticket(n), 0.0)
        assert drain(queued) == [1, 2, 3, 4, 9]

    def test_it_is_never_refused_and_counts_all_the_same(self) -> None:
        queued = queue(depth=1, max_bytes=10)
        queued.append(ticket(2, 10))
        queued.restore(ticket(1, 10), 0.0)
        assert (queued.waiting, queued.own.depth, queued.own.bytes) == (2, 2, 20)
        assert refusal(queued) == "revision-depth"
        queued.popleft(0.0)
        assert refusal(queued) == "revision-depth"
        queued.popleft(0.0)
        queued.append(ticket(3, 10))


class TestDiscard:
    @pytest.mark.parametrize("place", range(6))
    def test_a_waiter_can_leave_from_anywhere(self, place: int) -> None:
        queued = queue()
        back = [ticket(n, 1) for n in range(3)]
        waiting = back + [ticket(n, 1) for n in range(3, 6)]
        for one in waiting[3:]:
            queued.append(one)
        for one in back:
            queued.restore(one, 0.0)
        queued.discard(waiting[place])
        assert (queued.waiting, queued.own.bytes, queued.total.bytes) == (5, 5, 5)
        assert drain(queued) == [n for n in range(6) if n != place]

    def test_it_makes_room_for_another(self) -> None:
        queued = queue(depth=1)
        leaving = ticket(1)
        queued.append(leaving)
        queued.discard(leaving)
        queued.append(ticket(2))
        assert drain(queued) == [2]


class TestHold:
    def test_a_waiter_may_keep_more_bytes_up_to_the_bound(self) -> None:
        queued = queue(max_bytes=100)
        one = ticket(1, 50)
        queued.append(one)
        assert queued.reserve_bytes(one, 50)
        assert not queued.reserve_bytes(one, 1)
        assert (one.size, queued.own.bytes, queued.total.bytes) == (100, 100, 100)

    def test_the_total_bounds_it_too(self) -> None:
        total = SharedBudget(10, 100)
        one, two = queue(total=total), queue(total=total)
        first, second = ticket(1, 60), ticket(2)
        one.append(first)
        two.append(second)
        assert not two.reserve_bytes(second, 16)
        assert second.size == 0
        assert two.reserve_bytes(second, 15)

    def test_held_bytes_are_released_when_the_request_leaves(self) -> None:
        queued = queue(max_bytes=100)
        one = ticket(1)
        queued.append(one)
        queued.reserve_bytes(one, 100)
        queued.popleft(0.0)
        assert queued.own.bytes == queued.total.bytes == 0


class TestOrder:
    """Classes and flows, switched on and off while requests wait."""

    CLASSES = QueueOrder(has_classes=True)

    @staticmethod
    def of(arrived: float, priority: int) -> Ticket:
        made = ticket(arrived)
        made.priority = priority
        return made

    def test_requests_that_wait_when_classes_begin_go_first(self) -> None:
        queued = queue()
        for n in (1, 2):
            queued.append(ticket(n))
        queued.set_order(self.CLASSES)
        queued.append(self.of(3, LOW))
        queued.append(self.of(4, HIGH))
        assert queued.ranked is not None
        assert drain(queued) == [1, 2, 4, 3]

    def test_requests_that_wait_when_classes_end_go_first_in_their_order(self) -> None:
        queued = queue()
        queued.set_order(self.CLASSES)
        queued.append(self.of(1, LOW))
        queued.append(self.of(2, HIGH))
        queued.set_order(None)
        queued.append(self.of(3, HIGH))
        oldest = queued.oldest()
        assert oldest is not None
        assert oldest.arrived == 1
        assert drain(queued) == [2, 1, 3]
        assert queued.ranked is None, "an order that is off costs nothing"

    def test_a_change_that_is_taken_back_leaves_nothing(self) -> None:
        queued = queue()
        queued.set_order(self.CLASSES)
        queued.append(one := self.of(1, LOW))
        queued.set_order(None)
        queued.discard(one)
        assert queued.ranked is None

    @pytest.mark.parametrize(("priority", "depth"), [(HIGH, 20), (NORMAL, 18), (LOW, 15)])
    def test_each_class_has_its_part_of_the_depth(self, priority: int, depth: int) -> None:
        queued = queue(depth=20)
        queued.set_order(self.CLASSES)
        for n in range(depth):
            queued.append(self.of(n, priority))
        with pytest.raises(RequestQueueFull) as caught:
            queued.append(self.of(99, priority))
        assert caught.value.limit == ("class-depth" if priority else "revision-depth")
        assert queued.waiting == depth

    def test_each_class_has_its_part_of_the_bytes(self) -> None:
        queued = queue(max_bytes=100)
        queued.set_order(self.CLASSES)
        low = self.of(1, LOW)
        queued.append(low)
        assert queued.reserve_bytes(low, 75)
        assert not queued.reserve_bytes(low, 1)
        late = self.of(2, NORMAL)
        late.size = 16
        with pytest.raises(RequestQueueFull) as caught:
            queued.append(late)
        assert caught.value.limit == "class-bytes"

    def test_a_full_flow_is_refused_alone(self) -> None:
        queued = queue(depth=100)
        queued.set_order(QueueOrder(fair_by=FlowKey()))
        for n in range(90):
            queued.append(ticket(n))
        with pytest.raises(FlowFull) as caught:
            queued.append(ticket(91))
        assert caught.value.waiting == 90
        other = ticket(92)
        other.flow = b"modest"
        queued.append(other)
        assert queued.waiting == 91

    def test_without_flows_no_flow_is_full(self) -> None:
        queued = queue(depth=20)
        queued.set_order(QueueOrder(has_classes=True, priority=HIGH))
        for n in range(20):
            queued.append(self.of(n, HIGH))
        assert queued.waiting == 20

    def test_a_later_request_of_a_higher_class_outranks(self) -> None:
        queued = queue()
        queued.append(low := self.of(1, LOW))
        assert not queued.counts.is_outranked(low)
        queued.set_order(self.CLASSES)
        queued.append(late := self.of(2, LOW))
        queued.append(self.of(3, HIGH))
        assert [queued.popleft(4.0).arrived for _ in range(2)] == [1, 3]
        assert queued.counts.is_outranked(late)
        assert queued.ahead_of(self.of(5, HIGH)) == 0
        assert queued.ahead_of(self.of(5, LOW)) == 1


@pytest.mark.untraced
@unhurried
@given(st.data())
def test_any_mixture_of_coming_and_leaving_keeps_order_and_counts(data: st.DataObject) -> None:
    queued, model, out = queue(depth=8, max_bytes=60), list[Ticket](), list[Ticket]()
    for clock in range(data.draw(st.integers(0, 40))):
        match data.draw(st.sampled_from(["append", "popleft", "restore", "discard", "hold"])):
            case "append":
                one = ticket(clock, data.draw(st.integers(0, 20)))
                fits = len(model) < 8 and sum(t.size for t in model) + one.size <= 60
                if fits:
                    queued.append(one)
                    model.append(one)
                else:
                    assert refusal(queued, one.size).startswith("revision-")
            case "popleft" if model:
                assert queued.popleft(0.0) is model[0]
                out.append(model.pop(0))
            case "restore" if out:
                one = out.pop(data.draw(st.integers(0, len(out) - 1)))
                queued.restore(one, 0.0)
                model = sorted([*model, one], key=lambda t: t.arrived)
            case "discard" if model:
                one = model.pop(data.draw(st.integers(0, len(model) - 1)))
                queued.discard(one)
            case "hold" if model:
                one = model[data.draw(st.integers(0, len(model) - 1))]
                queued.reserve_bytes(one, data.draw(st.integers(0, 10)))
        assert queued.waiting == queued.own.depth == queued.total.depth == len(model)
        assert queued.own.bytes == queued.total.bytes == sum(t.size for t in model)
        assert queued.oldest() is (model[0] if model else None)
