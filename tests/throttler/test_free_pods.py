"""The set of numbers behaves as a set, at every size around the borders of its words."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.rows import in_one_test
from tests.throttler.world import unhurried
from throttler.pod import FreePods

#: Below, at and above one word, and around the capacity of two levels.
SIZES = (1, 31, 32, 33, 64, 1000, 1023, 1024, 1025, 3000)


@in_one_test("size", SIZES)
def test_each_number_follows_the_one_before_it_and_the_first_follows_the_last(size: int) -> None:
    room = FreePods(size)
    for number in range(size):
        room.add(number)
    assert [room.next(number) for number in range(size + 1)] == [*range(size), 0]
    room.discard(size // 2)
    assert [number for number in range(size) if not room.has(number)] == [size // 2]


@in_one_test("size", SIZES)
def test_a_single_number_is_next_from_everywhere(size: int) -> None:
    for number in {0, size // 2, size - 1}:
        room = FreePods(size)
        room.add(number)
        assert {room.next(start) for start in range(size + 2)} == {number}


def test_a_number_beyond_the_size_begins_at_the_first() -> None:
    room = FreePods(40)
    room.add(3)
    room.add(35)
    assert room.next(1000) == 3


def test_it_is_empty_until_a_number_is_added_and_after_the_last_is_discarded() -> None:
    room = FreePods(100)
    assert not room.summary
    room.add(70)
    room.add(70)
    assert room.summary
    room.discard(71)
    assert room.summary
    room.discard(70)
    room.discard(70)
    assert not room.summary


@unhurried
@given(
    steps=st.lists(st.tuples(st.booleans(), st.integers(0, 1099)), max_size=60),
    start=st.integers(0, 1200),
)
def test_it_equals_a_set(steps: list[tuple[bool, int]], start: int) -> None:
    room, expected = FreePods(1100), set[int]()
    for add, number in steps:
        if add:
            room.add(number)
            expected.add(number)
        else:
            room.discard(number)
            expected.discard(number)
    assert bool(room.summary) == bool(expected)
    if expected:
        start = start if start < 1100 else 0
        assert room.next(start) == min(expected, key=lambda number: (number < start, number))
