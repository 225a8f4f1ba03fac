"""Which probe is next: a pod that requests wait for, fewest failures, then oldest."""

from __future__ import annotations

from activator.probing.probe_queue import SHARE, ProbeQueue


def turns(queue: ProbeQueue[str], most: int = 10**6) -> list[str]:
    """Take turns until the queue is empty."""
    found: list[str] = []
    while (key := queue.first()) is not None and len(found) < most:
        queue.take()
        found.append(key)
    return found


def test_order_is_waiting_requests_then_fewest_failures_then_age() -> None:
    queue = ProbeQueue[str]()
    for failures in (4, 0, 1):
        for name in "xy":
            queue.put(f"idle {failures}{name}", wanted=False, failures=failures)
    queue.put("wanted 4", wanted=True, failures=4)
    queue.put("wanted 0", wanted=True, failures=0)
    expected = ["wanted 0", "wanted 4"]
    expected += [f"idle {failures}{name}" for failures in (0, 1, 4) for name in "xy"]
    assert turns(queue) == expected
    assert len(queue) == 0


def test_who_waits_is_put_first_and_may_lose_that_again() -> None:
    queue = ProbeQueue[str]()
    for name in "abc":
        assert queue.put(name, wanted=False, failures=0)
    assert queue.put("c", wanted=True, failures=0)
    assert queue.first() == "c"
    assert queue.put("c", wanted=False, failures=0)
    assert turns(queue) == ["a", "b", "c"]


def test_to_be_put_where_one_stands_costs_no_turn() -> None:
    queue = ProbeQueue[str]()
    for name in "aba":
        queue.put(name, wanted=True, failures=2)
    assert not queue.put("a", wanted=True, failures=3)  # failures count by their magnitude
    assert turns(queue) == ["a", "b"]


def test_any_number_of_failures_has_a_rank() -> None:
    queue = ProbeQueue[str]()
    for failures in (2**80, 2**20, 2**14):
        queue.put(str(failures), wanted=True, failures=failures)
    assert turns(queue) == [str(2**14), str(2**80), str(2**20)]


def test_pods_without_waiting_requests_have_a_share() -> None:
    queue = ProbeQueue[str]()
    for number in range(100):
        queue.put(f"w{number}", wanted=True, failures=0)
        queue.put(f"i{number}", wanted=False, failures=0)
    taken = turns(queue, most=4 * SHARE)
    assert [key for key in taken if key[0] == "i"] == ["i0", "i1", "i2", "i3"]
    assert taken[0] == "w0"


def test_a_discarded_key_is_gone() -> None:
    queue = ProbeQueue[str]()
    queue.discard("nobody")
    for name in "ab":
        queue.put(name, wanted=True, failures=0)
    queue.discard("a")
    assert "a" not in queue
    assert (len(queue), queue.first()) == (1, "b")
    queue.clear()
    assert queue.first() is None
    queue.take()
    assert len(queue) == 0
