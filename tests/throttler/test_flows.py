"""Flows take turns: deficit round robin inside one class."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.throttler.world import OWNER
from throttler.ranked_queue import BYTES_PER_TURN, LEAST_JOINS, ClassQueue, turns_of
from throttler.request_policies import LOW, NORMAL
from throttler.ticket import Ticket


def ticket(flow: str, arrived: float = 0.0, size: int = 0) -> Ticket:
    made = Ticket(OWNER, 1000.0, size)
    made.flow = flow.encode()
    made.arrived = arrived
    return made


def queue(flows: str) -> ClassQueue:
    """Return a queue of one request for each letter, which names the flow."""
    made = ClassQueue()
    for n, flow in enumerate(flows):
        made.append(ticket(flow, n))
    return made


def drain(made: ClassQueue) -> str:
    return "".join(made.pop().flow.decode() for _ in range(made.waiting))


@pytest.mark.parametrize(
    ("flows", "order"),
    [
        ("", ""),
        ("aaa", "aaa"),
        ("aaabb", "ababa"),
        ("aaab", "abaa"),
        ("abcabc", "abcabc"),
        ("aaabc", "abcaa"),
    ],
)
def test_flows_take_turns_in_the_order_in_which_they_came(flows: str, order: str) -> None:
    assert drain(queue(flows)) == order


def test_a_flow_is_first_in_first_out() -> None:
    made = queue("ababab")
    assert [made.pop().arrived for _ in range(6)] == [0, 1, 2, 3, 4, 5]


def test_a_flow_is_first_in_first_out_though_some_of_its_requests_rose() -> None:
    made = ClassQueue()
    for arrived, priority in enumerate((NORMAL, LOW, LOW, NORMAL)):
        each = ticket("a", arrived)
        each.priority = priority
        made.append(each)
    assert [made.pop().arrived for _ in range(4)] == [0, 1, 2, 3]


def test_a_flow_that_comes_back_is_the_last_of_the_round() -> None:
    made = queue("abc")
    assert made.pop().flow == b"a"
    made.append(ticket("a", 9))
    assert drain(made) == "bca"


def test_a_new_flow_still_has_its_turn_in_the_round() -> None:
    made = queue("aaab")
    assert [made.pop().flow for _ in range(3)] == [b"a", b"b", b"a"]
    for flow in "bcd":
        made.append(ticket(flow, 9))
    assert drain(made) == "bcda", "only a has had its turn in this round"


def test_a_flow_that_leaves_and_returns_has_no_second_turn_in_the_round() -> None:
    made = queue("abbb")
    leaving = ticket("a", 9)
    made.append(leaving)
    assert [made.pop().flow for _ in range(2)] == [b"a", b"b"]
    made.append(ticket("c", 9))
    assert not made.discard(leaving)
    made.append(ticket("a", 10))
    assert drain(made) == "cabb"


def test_new_flows_cannot_delay_the_others_for_more_than_a_round() -> None:
    made = queue("ab")
    assert made.pop().flow == b"a"
    made.append(ticket("a", 1))
    turns = 0
    while made.pop().flow != b"a":
        turns += 1
        made.append(ticket(f"new {turns}"))
        made.append(ticket(f"more {turns}"))
    assert turns <= LEAST_JOINS + 1


def test_a_client_that_invents_flows_delays_another_by_little_more_than_these_flows() -> None:
    made, invented = ClassQueue(), iter(range(100_000))
    for n in invented:
        made.append(ticket(f"invented {n}"))
        if n == 299:
            break
    waits = []
    for _ in range(5):
        made.append(ticket("modest"))
        turns = 1
        while made.pop().flow != b"modest":
            turns += 1
            made.append(ticket(f"invented {next(invented)}"))
        waits.append(turns)
    assert max(waits) <= 1.5 * 300


def test_a_flow_whose_requests_left_is_forgotten() -> None:
    made = queue("ab")
    for n in range(3 * LEAST_JOINS):
        leaving = ticket(f"new {n}")
        made.append(leaving)
        made.discard(leaving)
    assert made.flows == len(made.round) == 2


def test_a_flow_without_requests_does_not_exist() -> None:
    made = queue("aab")
    assert made.flows == 2
    drain(made)
    assert made.flows == made.waiting == 0


@pytest.mark.parametrize(
    ("size", "turns"),
    [(0, 1), (BYTES_PER_TURN - 1, 1), (BYTES_PER_TURN, 2), (3 * BYTES_PER_TURN, 4), (1 << 30, 4)],
)
def test_a_large_request_costs_its_flow_more_turns(size: int, turns: int) -> None:
    assert turns_of(size) == turns
    made = ClassQueue()
    for _ in range(40):
        made.append(ticket("large", size=size))
        made.append(ticket("small"))
    served = Counter(made.pop().flow for _ in range(40))
    assert served[b"small"] == pytest.approx(turns * served[b"large"], abs=turns)


def test_a_large_request_alone_does_not_wait_for_credit() -> None:
    made = ClassQueue()
    for n in range(3):
        made.append(ticket("a", n, 1 << 20))
    assert [made.pop().arrived for _ in range(3)] == [0, 1, 2]


def test_requests_that_lost_their_pod_precede_all_flows_in_order_of_arrival() -> None:
    made = queue("ab")
    for arrived in (-1, -3, -2):
        made.restore(ticket("c", arrived))
    oldest = made.oldest_requeued()
    assert oldest is not None
    assert oldest.arrived == -3
    assert [made.pop().arrived for _ in range(5)] == [-3, -2, -1, 0, 1]
    assert made.oldest_requeued() is None


def test_requests_leave_from_anywhere() -> None:
    made = queue("aa")
    leaving, requeued = ticket("b", 5), ticket("a", -1)
    made.append(leaving)
    made.restore(requeued)
    assert not made.discard(leaving)
    assert made.discard(requeued)
    assert (drain(made), made.flows) == ("aa", 0)


def test_flows_with_one_shared_queue_have_one_turn() -> None:
    made = ClassQueue({b"x": b"\0", b"y": b"\0"})
    tickets = [ticket(flow, n) for n, flow in enumerate("xyxyab")]
    for each in tickets:
        made.append(each)
    assert made.flows == 3
    assert not made.discard(tickets[2])
    assert drain(made) == "xabyy"
